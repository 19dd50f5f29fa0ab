"""The conditions of a launch's samples: other load on this machine, read outside the timers."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compile_hud.runner.measure.latency.timing import Side, Timing

# Columns of /proc/stat's `cpu` line. Idle columns are time without work, also while waiting for a
# disk; the steal column is time that a hypervisor gave to other guests.
IDLE_COLUMNS = (3, 4)
STEAL_COLUMN = 7
# The columns after it are contained in earlier ones.
NUM_COLUMNS = 8
# A tenth of a second on one core: below it a tick more or less is a tenth of the answer.
MIN_TICKS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at the machine. A value that the machine does not report is None."""

    num_involuntary_switches: int
    num_voluntary_switches: int
    stolen_ticks: int | None
    all_ticks: int | None
    idle_ticks: int | None
    process_cpu_s: float
    load: float
    cpu_frequency_hz: float | None


def look(*, core: int | None) -> Look:
    """Return the state of this thread and machine; the frequency is that of `core`."""
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    ticks = cpu_ticks(_read("/proc/stat"))
    return Look(
        num_involuntary_switches=usage.ru_nivcsw,
        num_voluntary_switches=usage.ru_nvcsw,
        stolen_ticks=ticks[STEAL_COLUMN] if ticks else None,
        all_ticks=sum(ticks) if ticks else None,
        idle_ticks=sum(ticks[column] for column in IDLE_COLUMNS) if ticks else None,
        process_cpu_s=time.process_time(),
        load=os.getloadavg()[0],
        cpu_frequency_hz=frequency_hz(
            _read(f"/sys/devices/system/cpu/cpu{core or 0}/cpufreq/scaling_cur_freq")
        ),
    )


def cpu_ticks(text: str) -> list[int]:
    """Return the ticks of all CPUs in the text of a /proc/stat, by column; empty if malformed."""
    columns = text.partition("\n")[0].split()[1 : 1 + NUM_COLUMNS]
    return [int(column) for column in columns] if len(columns) == NUM_COLUMNS else []


def frequency_hz(text: str) -> float | None:
    """Return the hertz in the kHz of a `scaling_cur_freq`, None when there is no such file."""
    return int(text) * 1e3 if text.strip().isdigit() else None


def conditions(
    before: Look, after: Look, *, sides: Sequence[Side], num_threads: int
) -> dict[str, Any]:
    """Return the conditions between two looks while `sides` were sampled, as JSON values."""
    samples = [timing for side in sides for timing in side.samples]
    return {
        "involuntary_switches": after.num_involuntary_switches - before.num_involuntary_switches,
        "voluntary_switches": after.num_voluntary_switches - before.num_voluntary_switches,
        "steal_share": _share(before, after),
        "load": [before.load, after.load],
        "cpu_frequency_hz": [before.cpu_frequency_hz, after.cpu_frequency_hz],
        "cpu_share": cpu_share(samples),
        "cores_left": cores_left(before, after, num_cpus=os.cpu_count() or 1),
        "num_threads": num_threads,
        "host_share": host_share(sides[-1].samples),
    }


def cores_left(before: Look, after: Look, *, num_cpus: int) -> float | None:
    """Return the number of cores that other processes did not use, None if unknown.

    The CPU time of this process itself does not count. Over a short time, ticks are too coarse.
    """
    if None in (before.all_ticks, after.all_ticks, before.idle_ticks, after.idle_ticks):
        return None
    ticks = (after.all_ticks or 0) - (before.all_ticks or 0)
    if ticks < MIN_TICKS:
        return None
    busy_ticks = ticks - ((after.idle_ticks or 0) - (before.idle_ticks or 0))
    own_ticks = (after.process_cpu_s - before.process_cpu_s) * os.sysconf("SC_CLK_TCK")
    return num_cpus * (1 - max(0.0, busy_ticks - own_ticks) / ticks)


def cpu_share(samples: Sequence[Timing]) -> float | None:
    """Return the CPU time of `samples` over their wall time; None without CPU times."""
    cpu_s = [timing.cpu_s for timing in samples if timing.cpu_s is not None]
    if len(cpu_s) < len(samples) or not samples:
        return None
    return sum(cpu_s) / sum(timing.wall_s for timing in samples)


def host_share(samples: Sequence[Timing]) -> float | None:
    """Return the mean share of the time in which the host enqueued work; None on a CPU.

    Near 1 the device waits for the host: the iteration is bound by launching kernels.
    """
    shares = [timing.host_share for timing in samples if timing.host_share is not None]
    return sum(shares) / len(shares) if shares else None


def _share(before: Look, after: Look) -> float | None:
    if None in (before.stolen_ticks, after.stolen_ticks, before.all_ticks, after.all_ticks):
        return None
    ticks = (after.all_ticks or 0) - (before.all_ticks or 0)
    stolen = (after.stolen_ticks or 0) - (before.stolen_ticks or 0)
    return stolen / ticks if ticks > 0 else None


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii")
    except OSError:
        return ""
