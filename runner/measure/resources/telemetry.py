"""Clocks, temperature, power and throttling of a GPU while samples are taken."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from compile_hud.db.shared.text import counted
from compile_hud.runner.measure.context import Context
from compile_hud.runner.measure.resources.nvml import Gpu, GpuReading, NvmlMissingError, open_gpu

# NVML's own figures are renewed every 20 to 100 ms; asking takes up to a millisecond.
MIN_INTERVAL_S = 0.05
NUMBERS = ("clock_sm_mhz", "clock_memory_mhz", "temperature_c", "power_w")


class Telemetry:
    """Readings of one GPU, at most one in MIN_INTERVAL_S."""

    def __init__(self, gpu: Gpu, *, now_s: Callable[[], float] = time.perf_counter) -> None:
        self._gpu = gpu
        self._now_s = now_s
        self._next_s = -float("inf")
        self._readings: list[GpuReading] = []
        # It is read only before and after the samples, since the query is slow.
        self._num_others = gpu.num_other_processes() or 0

    def read(self) -> None:
        """Take a reading unless the last one is fresh."""
        if self._now_s() < self._next_s:
            return
        self._readings.append(self._gpu.read())
        self._next_s = self._now_s() + MIN_INTERVAL_S

    def report(self, context: Context) -> None:
        """Record the readings, with a warning if the device is or was shared."""
        num_others = max(self._num_others, self._gpu.num_other_processes() or 0)
        # Launches that wait for their turn have their model on the device, but do not compute.
        self._num_others = max(0, num_others - context.findings.num_neighbours)
        context.findings.details["telemetry"] = self.details()
        if self._num_others:
            context.findings.warn(
                "shared-gpu",
                f"{counted(self._num_others, 'other process')} computed on this GPU while samples"
                " were taken",
                hint="see `nvidia-smi`, and leave the device to one process at a time",
            )

    def details(self) -> dict[str, Any]:
        """Return every reading by quantity, and all reported throttle reasons."""
        reasons = {word for reading in self._readings for word in reading.throttle_reasons}
        details: dict[str, Any] = {name: self._numbers(name) for name in NUMBERS}
        return {
            **details,
            "throttle_reasons": sorted(reasons),
            "has_ecc": self._gpu.has_ecc(),
            "is_mig": self._gpu.is_mig,
            "num_other_processes": self._num_others,
        }

    def _numbers(self, name: str) -> list[float]:
        values = (getattr(reading, name) for reading in self._readings)
        return [float(value) for value in values if value is not None]


def open_telemetry(context: Context) -> Telemetry | None:
    """Return the telemetry of this launch's GPU; None on a CPU, and with a warning without NVML."""
    if not context.device.is_cuda:
        return None
    try:
        return Telemetry(open_gpu())
    except NvmlMissingError as error:
        context.findings.warn(
            "no-telemetry",
            f"no clocks, temperature and energy of the GPU: {error}",
            hint="install nvidia-ml-py with the toolchain's interpreter",
        )
        return None
