"""Counters that other profilers recorded for kernels, such as Nsight Compute."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from compile_hud.db.records.kernels import Kernel

# The key of counters in `Kernel.launch`.
COUNTERS = "counters"
# The best known counters, in percent of a device's sustained maximum, each with a heading.
SHARES = {
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "SM",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": "memory",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "warps",
}


def counted(kernel: Kernel) -> dict[str, tuple[float, str]]:
    """Return the counters of `kernel` that are numbers, by name with their unit."""
    readings = kernel.launch.get(COUNTERS)
    counters = {}
    for name, reading in readings.items() if isinstance(readings, Mapping) else ():
        value = reading.get("value") if isinstance(reading, Mapping) else None
        if isinstance(value, int | float) and not isinstance(value, bool):
            counters[name] = (float(value), str(reading.get("unit", "")))
    return counters


def counter_names(kernels: Iterable[Kernel]) -> list[str]:
    """Return the names of all counters of `kernels`, the best known first."""
    names = {name for kernel in kernels for name in counted(kernel)}
    return [*(name for name in SHARES if name in names), *sorted(names - SHARES.keys())]
