"""The conditions of a launch's samples: what else ran on this machine. Read outside the timers."""

from __future__ import annotations

import os
import resource
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.measure.timing import Side, Timing

# Column of /proc/stat's `cpu` line with the time that a hypervisor gave to somebody else.
STEAL_COLUMN = 7
# Its columns after that are contained in earlier ones.
NUM_COLUMNS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """One look at the machine. What it does not tell is None."""

    num_involuntary_switches: int
    num_voluntary_switches: int
    stolen_ticks: int | None
    all_ticks: int | None
    load: float
    cpu_frequency_hz: float | None


def look(*, core: int | None) -> Look:
    """Return the state of this thread and machine; the frequency is that of `core`."""
    usage = resource.getrusage(resource.RUSAGE_THREAD)
    stolen, ticks = cpu_ticks(_read("/proc/stat"))
    return Look(
        num_involuntary_switches=usage.ru_nivcsw,
        num_voluntary_switches=usage.ru_nvcsw,
        stolen_ticks=stolen,
        all_ticks=ticks,
        load=os.getloadavg()[0],
        cpu_frequency_hz=frequency_hz(
            _read(f"/sys/devices/system/cpu/cpu{core or 0}/cpufreq/scaling_cur_freq")
        ),
    )


def cpu_ticks(text: str) -> tuple[int | None, int | None]:
    """Return the stolen and all CPU ticks that a /proc/stat tells of; None where it tells none."""
    columns = text.partition("\n")[0].split()[1 : 1 + NUM_COLUMNS]
    if len(columns) < NUM_COLUMNS:
        return None, None
    ticks = [int(column) for column in columns]
    return ticks[STEAL_COLUMN], sum(ticks)


def frequency_hz(text: str) -> float | None:
    """Return the hertz in the kHz of a `scaling_cur_freq`, None when there is no such file."""
    return int(text) * 1e3 if text.strip().isdigit() else None


def conditions(before: Look, after: Look, *, sides: Sequence[Side]) -> dict[str, Any]:
    """Return what happened between two looks while `sides` were sampled, as JSON values."""
    samples = [timing for side in sides for timing in side.samples]
    return {
        "involuntary_switches": after.num_involuntary_switches - before.num_involuntary_switches,
        "voluntary_switches": after.num_voluntary_switches - before.num_voluntary_switches,
        "steal_share": _share(before, after),
        "load": [before.load, after.load],
        "cpu_frequency_hz": [before.cpu_frequency_hz, after.cpu_frequency_hz],
        "cpu_share": cpu_share(samples),
        "host_share": host_share(sides[-1].samples),
    }


def cpu_share(samples: Sequence[Timing]) -> float | None:
    """Return the CPU time of `samples` over their wall time; None where no CPU time was taken."""
    cpu_s = [timing.cpu_s for timing in samples if timing.cpu_s is not None]
    if len(cpu_s) < len(samples) or not samples:
        return None
    return sum(cpu_s) / sum(timing.wall_s for timing in samples)


def host_share(samples: Sequence[Timing]) -> float | None:
    """Return the mean share of the time in which the host gave the device work; None on a CPU.

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
