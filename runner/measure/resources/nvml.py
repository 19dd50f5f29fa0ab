"""The GPU under measurement as NVIDIA's management library sees it.

nvidia-ml-py is optional: the worker must run with torch alone. NVML numbers devices independently
of CUDA_VISIBLE_DEVICES, so the device is looked up by the UUID that torch reports.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

try:
    import pynvml
except ImportError:
    pynvml = None

# nvml.h, nvmlClocksEventReason*: why the clocks are not higher.
REASONS = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}


class NvmlMissingError(Exception):
    """NVML is not available for this device; the text has the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """One reading of the GPU; an unsupported value is None. Reasons are words of REASONS."""

    clock_sm_mhz: float | None
    clock_memory_mhz: float | None
    temperature_c: float | None
    power_w: float | None
    throttle_reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A device of NVML. `handle` has clocks and power; `instance` is a part of it under MIG."""

    nvml: Any
    handle: Any
    instance: Any
    is_mig: bool

    def read(self) -> GpuReading:
        """Return clocks, temperature, power and throttle reasons of this moment."""
        nvml, handle = self.nvml, self.handle
        return GpuReading(
            clock_sm_mhz=self._ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
            clock_memory_mhz=self._ask(
                lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)
            ),
            temperature_c=self._ask(
                lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)
            ),
            power_w=self.power_w(),
            throttle_reasons=reason_words(int(self._ask(self._reason_bits) or 0)),
        )

    def power_w(self) -> float | None:
        """Return the current power in watts, None if the device does not report it."""
        milliwatts = self._ask(lambda: self.nvml.nvmlDeviceGetPowerUsage(self.handle))
        return None if milliwatts is None else milliwatts / 1e3

    def energy_j(self) -> float | None:
        """Return the energy since the driver was loaded in joules, None before Volta."""
        millijoules = self._ask(lambda: self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle))
        return None if millijoules is None else millijoules / 1e3

    def has_ecc(self) -> bool | None:
        """Return whether memory is error-corrected, which costs bandwidth on some devices."""
        modes = self._ask(lambda: self.nvml.nvmlDeviceGetEccMode(self.handle))
        return None if modes is None else bool(modes[0])

    def num_other_processes(self) -> int | None:
        """Return the number of other processes that compute on the device, None if unknown.

        In a container NVML may report other process ids than the kernel. One of them is then this
        process, since it computes.
        """
        processes = self._ask(lambda: self.nvml.nvmlDeviceGetComputeRunningProcesses(self.instance))
        if processes is None:
            return None
        pids = {process.pid for process in processes}
        return len(pids - {os.getpid()}) if os.getpid() in pids else max(0, len(pids) - 1)

    def _reason_bits(self) -> int:
        nvml = self.nvml
        # Until 2023 the function had another name.
        ask = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
        ask = ask or nvml.nvmlDeviceGetCurrentClocksThrottleReasons
        return int(ask(self.handle))

    def _ask(self, question: Callable[[], Any]) -> Any:
        try:
            return question()
        except self.nvml.NVMLError:
            # A device may lack one of these values and still report the others.
            return None


def open_gpu() -> Gpu:
    """Return torch's current CUDA device as NVML sees it; raise NvmlMissingError."""
    if pynvml is None:
        raise NvmlMissingError("nvidia-ml-py is not installed in this toolchain")
    try:
        pynvml.nvmlInit()
        handle, is_instance = _find(torch.cuda.get_device_properties(torch.cuda.current_device()))
        if is_instance:
            board = pynvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(handle)
            return Gpu(nvml=pynvml, handle=board, instance=handle, is_mig=True)
    except pynvml.NVMLError as error:
        raise NvmlMissingError(f"NVML: {error}") from error
    return Gpu(nvml=pynvml, handle=handle, instance=handle, is_mig=_is_split(handle))


def reason_words(bits: int) -> tuple[str, ...]:
    """Return the words for the bits of NVML's clock event reasons; unknown bits in hexadecimal."""
    places = [1 << bit for bit in range(bits.bit_length())]
    return tuple(REASONS.get(bit, f"reason_{bit:#x}") for bit in places if bits & bit)


def _find(properties: Any) -> tuple[Any, bool]:
    """Return the handle of the device with these properties, and whether it is a MIG instance."""
    uuid = getattr(properties, "uuid", None)
    for prefix, is_instance in (("GPU", False), ("MIG", True)) if uuid is not None else ():
        try:
            return pynvml.nvmlDeviceGetHandleByUUID(f"{prefix}-{uuid}"), is_instance
        except pynvml.NVMLError:
            # The prefix may be wrong, or the driver may name instances differently; the bus id
            # remains.
            continue
    try:
        bus = f"{properties.pci_domain_id:08x}:{properties.pci_bus_id:02x}"
        address = f"{bus}:{properties.pci_device_id:02x}.0"
    except AttributeError:
        raise NvmlMissingError("this torch reports neither UUID nor PCI address") from None
    return pynvml.nvmlDeviceGetHandleByPciBusId(address), False


def _is_split(handle: Any) -> bool:
    """Return whether the board is split into MIG instances, some of which this process uses."""
    try:
        current, _ = pynvml.nvmlDeviceGetMigMode(handle)
    except pynvml.NVMLError:
        return False
    return bool(current)
