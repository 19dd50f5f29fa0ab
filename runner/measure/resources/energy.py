"""Energy of one iteration: a counter of the device before and after many iterations.

Counters move in steps: NVML's every 20 to 100 ms, RAPL's every millisecond. The measurement
therefore begins and ends when the counter has just moved. The remaining error is one batch of
iterations at either end, or the time between two slow readings: 4 ms on an H200, in which the
device is idle. Between the ends the counter is not read. The counters cover devices, not processes:
on a CPU they include everything that runs in the package.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from compile_hud.runner.measure.context import Context, Forward
from compile_hud.runner.measure.latency.timing import garbage_collection_paused
from compile_hud.runner.measure.resources.nvml import Gpu, NvmlMissingError, open_gpu

# A hundred steps of RAPL's counter, or ten to fifty of NVML's: 2 % and less at either end.
RAPL_S = 0.3
NVML_S = 1.0
# Power follows load with some delay on a GPU.
NVML_SETTLE_S = 0.2
# A counter without a change for this long does not work; the longest observed tick is a tenth of
# it.
MAX_TICK_S = 0.5
TICK_S = 0.1
# After a reading the device works this many times as long as the reading took, at most one tick.
READING_SPACE = 5.0
# A batch lasts as long as a sample; the device is idle after each until the next is launched.
BATCH_S = 0.005
RAPL_ROOT = Path("/sys/class/powercap")


class EnergyMissingError(Exception):
    """The energy cannot be measured; the text has the reason."""


class Meter(Protocol):
    """A counter of energy; one that `adds_up` its readings must be read after every batch."""

    method: str
    adds_up: bool

    def read_j(self) -> float:
        """Return joules since some moment, never less than before."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Energy:
    """Energy of `num_iterations` iterations and how long they took."""

    energy_j: float
    duration_s: float
    num_iterations: int


def report_energy(context: Context, forward: Forward) -> None:
    """Record energy and power of iterations through `forward`, or the reason of their absence."""
    device, findings = context.device, context.findings
    num_iterations = _iterations_per_batch(findings.metrics["latency_s"].samples)
    step = context.step(forward)

    def run() -> int:
        device.time_iterations(step, num_iterations=num_iterations)
        return num_iterations

    try:
        meter = open_meter(is_cuda=device.is_cuda)
        with device.pinned(), garbage_collection_paused():
            energy = measure_energy(
                meter,
                run,
                settle_s=meter.settle_s,
                least_s=meter.least_s,
                now_s=time.perf_counter,
            )
    except EnergyMissingError as error:
        findings.details["energy"] = {"reason": str(error)}
        return
    findings.add("energy_j", (energy.energy_j / energy.num_iterations,), method=meter.method)
    findings.add("power_w", (energy.energy_j / energy.duration_s,), method=meter.method)
    findings.details["energy"] = {
        "num_iterations": energy.num_iterations,
        "duration_s": energy.duration_s,
        "energy_j": energy.energy_j,
    }


def measure_energy(
    meter: Meter,
    run: Callable[[], int],
    *,
    settle_s: float,
    least_s: float,
    now_s: Callable[[], float],
) -> Energy:
    """Return the energy of calls of `run` between two ticks of `meter`, `least_s` apart or more.

    `run` returns how many iterations it did, all of them finished. Raises EnergyMissingError when
    the counter stands still.
    """
    begin = _until_tick(meter, run, least_s=settle_s, now_s=now_s)
    end = _until_tick(meter, run, least_s=least_s, now_s=now_s)
    return Energy(
        energy_j=end.energy_j - begin.energy_j,
        duration_s=end.duration_s,
        num_iterations=end.num_iterations,
    )


def _until_tick(
    meter: Meter, run: Callable[[], int], *, least_s: float, now_s: Callable[[], float]
) -> Energy:
    """Run until `meter` moves after at least `least_s`; the energy is its reading then."""
    start_s = now_s()
    before_j = meter.read_j()
    read_at_s = now_s()
    reading_s, longest_batch_s, num_iterations = read_at_s - start_s, 0.0, 0
    is_watched = meter.adds_up
    while True:
        begun_s = now_s()
        num_iterations += run()
        after_s = now_s()
        longest_batch_s = max(longest_batch_s, after_s - begun_s)
        is_ending = after_s - start_s + longest_batch_s >= least_s
        is_soon = after_s - read_at_s < min(TICK_S, READING_SPACE * reading_s)
        if is_soon or not (meter.adds_up or is_ending):
            continue
        energy_j, read_at_s = meter.read_j(), now_s()
        reading_s = read_at_s - after_s
        # A change since a much earlier reading may be old, unless a single batch is as long.
        has_just_moved = energy_j > before_j and (is_watched or longest_batch_s > TICK_S)
        if has_just_moved and read_at_s - start_s >= least_s:
            return Energy(
                energy_j=energy_j, duration_s=read_at_s - start_s, num_iterations=num_iterations
            )
        if energy_j == before_j and read_at_s - start_s > least_s + MAX_TICK_S:
            raise EnergyMissingError(
                f"the counter stood still for {MAX_TICK_S:g} s ({meter.method})"
            )
        before_j, is_watched = energy_j, True


def open_meter(*, is_cuda: bool) -> NvmlCounter | NvmlPower | RaplMeter:
    """Return the best meter of the device; raise EnergyMissingError when it has none."""
    if not is_cuda:
        return RaplMeter(rapl_packages(RAPL_ROOT))
    try:
        gpu = open_gpu()
    except NvmlMissingError as error:
        raise EnergyMissingError(str(error)) from error
    if gpu.is_mig:
        raise EnergyMissingError("a MIG instance shares the counter of its board with others")
    if gpu.energy_j() is not None:
        return NvmlCounter(gpu)
    if gpu.power_w() is not None:
        return NvmlPower(gpu)
    raise EnergyMissingError("NVML reports neither energy nor power of this device")


class NvmlCounter:
    """The energy counter of a GPU, Volta and later."""

    method = "nvmlDeviceGetTotalEnergyConsumption, from tick to tick of the counter"
    adds_up = False
    settle_s = NVML_SETTLE_S
    least_s = NVML_S

    def __init__(self, gpu: Gpu) -> None:
        self._gpu = gpu

    def read_j(self) -> float:
        """Return the joules since the driver was loaded."""
        energy_j = self._gpu.energy_j()
        if energy_j is None:
            raise EnergyMissingError("NVML's energy counter went away")
        return energy_j


class NvmlPower:
    """The power of a GPU added up over time, for devices that count no energy."""

    method = "nvmlDeviceGetPowerUsage integrated over time: this device counts no energy"
    adds_up = True
    settle_s = NVML_SETTLE_S
    least_s = NVML_S

    def __init__(self, gpu: Gpu, *, now_s: Callable[[], float] = time.perf_counter) -> None:
        self._gpu = gpu
        self._now_s = now_s
        self._last: tuple[float, float] | None = None
        self._total_j = 0.0

    def read_j(self) -> float:
        """Return the joules since the first reading."""
        power_w = self._gpu.power_w()
        if power_w is None:
            raise EnergyMissingError("NVML's power reading went away")
        at_s = self._now_s()
        if self._last is not None:
            last_s, last_w = self._last
            self._total_j += (at_s - last_s) * (power_w + last_w) / 2
        self._last = (at_s, power_w)
        return self._total_j


class RaplMeter:
    """The energy counters of the CPU's packages, added up; they overflow."""

    method = "RAPL package counters (/sys/class/powercap): everything that runs in the package"
    adds_up = False
    settle_s = 0.0
    least_s = RAPL_S

    def __init__(self, packages: Sequence[Path]) -> None:
        self._packages = packages
        self._ranges_uj = [_number(package / "max_energy_range_uj") for package in packages]
        self._last_uj = self._read_uj()
        self._total_uj = 0

    def read_j(self) -> float:
        """Return the joules since the meter was made."""
        now_uj = self._read_uj()
        for now, last, wrap in zip(now_uj, self._last_uj, self._ranges_uj, strict=True):
            self._total_uj += now - last if now >= last else now - last + wrap
        self._last_uj = now_uj
        return self._total_uj / 1e6

    def _read_uj(self) -> list[int]:
        return [_number(package / "energy_uj") for package in self._packages]


def rapl_packages(root: Path) -> list[Path]:
    """Return the folders of the package counters; raise EnergyMissingError when there are none."""
    packages = [
        folder
        for folder in sorted(root.glob("intel-rapl:*"))
        if _text(folder / "name").startswith("package")
    ]
    if not packages:
        raise EnergyMissingError(f"the kernel shows no RAPL package counter in {root}")
    return packages


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _number(path: Path) -> int:
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError) as error:
        # Since 2020 (CVE-2020-8694) only root may read them by default.
        raise EnergyMissingError(f"{path} cannot be read: {error}") from error


def _iterations_per_batch(latencies_s: Sequence[float]) -> int:
    return max(1, math.ceil(BATCH_S / statistics.median(latencies_s)))
