"""A fake of NVIDIA's management library with a GPU that a test describes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from compile_hud.runner.measure.resources import nvml

UUID = "11111111-2222-3333-4444-555555555555"
ADDRESS = "00000000:3b:00.0"


class FakeNvmlError(Exception):
    """Stands for pynvml's NVMLError."""


@dataclass
class FakeNvml:
    """The used part of the module `pynvml`. A value of None raises `Not Supported`.

    `handles` maps UUIDs and PCI addresses to handles; handle "mig" is an instance of board "gpu".
    """

    NVML_CLOCK_SM = 1
    NVML_CLOCK_MEM = 2
    NVML_TEMPERATURE_GPU = 0
    NVMLError = FakeNvmlError

    handles: dict[str, str] = field(default_factory=lambda: {f"GPU-{UUID}": "gpu"})
    clocks_mhz: dict[int, int | None] = field(default_factory=lambda: {1: 1980, 2: 2619})
    temperature_c: int | None = 61
    power_mw: int | None = 350_000
    energy_mj: Callable[[], int] | None = None
    reasons: int | None = 0
    mig_mode: tuple[int, int] | None = None
    ecc_mode: tuple[int, int] | None = (1, 1)
    pids: list[int] | None = field(default_factory=list)
    is_driver_loaded: bool = True
    queries: list[str] = field(default_factory=list)

    def nvmlInit(self) -> None:
        if not self.is_driver_loaded:
            raise FakeNvmlError("Driver Not Loaded")

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        return self._find(uuid)

    def nvmlDeviceGetHandleByPciBusId(self, address: str) -> str:
        return self._find(address)

    def nvmlDeviceGetDeviceHandleFromMigDeviceHandle(self, handle: str) -> str:
        assert handle == "mig"
        return "gpu"

    def nvmlDeviceGetMigMode(self, handle: str) -> Any:
        return self._tell(handle, self.mig_mode)

    def nvmlDeviceGetEccMode(self, handle: str) -> Any:
        return self._tell(handle, self.ecc_mode)

    def nvmlDeviceGetClockInfo(self, handle: str, kind: int) -> Any:
        return self._tell(handle, self.clocks_mhz[kind])

    def nvmlDeviceGetTemperature(self, handle: str, sensor: int) -> Any:
        assert sensor == self.NVML_TEMPERATURE_GPU
        return self._tell(handle, self.temperature_c)

    def nvmlDeviceGetPowerUsage(self, handle: str) -> Any:
        return self._tell(handle, self.power_mw)

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: str) -> Any:
        return self._tell(handle, None if self.energy_mj is None else self.energy_mj())

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: str) -> Any:
        return self._tell(handle, self.reasons)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> Any:
        self.queries.append(handle)
        if self.pids is None:
            raise FakeNvmlError("Not Supported")
        return [SimpleNamespace(pid=pid) for pid in self.pids]

    def _find(self, name: str) -> str:
        self.queries.append(name)
        if name not in self.handles:
            raise FakeNvmlError("Not Found")
        return self.handles[name]

    def _tell(self, handle: str, value: Any) -> Any:
        assert handle == "gpu", "clocks, power and energy are those of the board"
        if value is None:
            raise FakeNvmlError("Not Supported")
        return value


def install(monkeypatch: pytest.MonkeyPatch, fake: FakeNvml, **properties: Any) -> None:
    """Replace NVML by `fake`, and torch's device by one with a UUID and PCI address."""
    values = {"uuid": UUID, "pci_domain_id": 0, "pci_bus_id": 0x3B, "pci_device_id": 0}
    values = {name: value for name, value in (values | properties).items() if value is not None}
    monkeypatch.setattr(nvml, "pynvml", fake)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: SimpleNamespace(**values))
