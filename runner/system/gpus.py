"""The GPUs of this machine and their processes, from nvidia-smi.

The runner has no torch, and every driver includes nvidia-smi. During the samples the worker itself
reads the GPU through NVML.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compile_hud.runner.system.machine import Machine

_SMI = "nvidia-smi"
_FORMAT = "--format=csv,noheader,nounits"
# The order is that of the fields of GpuStatus.
_FIELDS = (
    "index",
    "uuid",
    "name",
    "driver_version",
    "persistence_mode",
    "mig.mode.current",
    "power.limit",
    "power.default_limit",
    "clocks.max.sm",
)
# The variable selects and numbers the GPUs that CUDA sees.
VISIBLE_VARIABLE = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuStatus:
    """One GPU, with power in watts and clocks in MHz; an unknown value is empty or None."""

    index: str
    uuid: str
    name: str
    driver_version: str
    persistence_mode: str
    mig_mode: str
    power_limit_w: float | None
    default_power_limit_w: float | None
    max_clock_sm_mhz: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuUser:
    """A process that computes on the GPU with this UUID."""

    gpu_uuid: str
    pid: str
    name: str

    @property
    def text(self) -> str:
        """Return the process for people."""
        return f"{self.name} (PID {self.pid})"


def has_driver(machine: Machine) -> bool:
    """Return whether NVIDIA's driver is loaded."""
    return machine.read("/proc/driver/nvidia/version") is not None


def list_gpus(machine: Machine) -> tuple[GpuStatus, ...]:
    """Return the GPUs in nvidia-smi's order; empty if it finds none."""
    answer = machine.ask(_SMI, f"--query-gpu={','.join(_FIELDS)}", _FORMAT)
    return tuple(_gpu(row) for row in _rows(answer.text) if len(row) == len(_FIELDS))


def list_users(machine: Machine) -> tuple[GpuUser, ...]:
    """Return the processes that compute on any GPU; those that only draw do not count."""
    fields = ("gpu_uuid", "pid", "process_name")
    answer = machine.ask(_SMI, f"--query-compute-apps={','.join(fields)}", _FORMAT)
    # The last field may be a whole command line, with commas that nothing quotes.
    rows = [line.split(",", len(fields) - 1) for line in answer.text.splitlines()]
    return tuple(
        GpuUser(gpu_uuid=row[0].strip(), pid=row[1].strip(), name=_program(row[2].strip()))
        for row in rows
        if len(row) == len(fields)
    )


def measured_gpu(gpus: Sequence[GpuStatus], *, env: Mapping[str, str]) -> GpuStatus | None:
    """Return the GPU that torch calls `cuda:0`, None without a GPU.

    The first name in CUDA_VISIBLE_DEVICES decides. By default CUDA numbers GPUs by speed
    (CUDA_DEVICE_ORDER), which is nvidia-smi's order among equal GPUs.
    """
    first = env.get(VISIBLE_VARIABLE, "").partition(",")[0].strip()
    named = [gpu for gpu in gpus if first and (gpu.index == first or gpu.uuid.startswith(first))]
    return next(iter(named or gpus), None)


def users_of(device: str, *, machine: Machine, env: Mapping[str, str]) -> tuple[str, ...]:
    """Return descriptions of the processes that use the measured GPU; empty for a CPU."""
    if device != "cuda":
        return ()
    users = list_users(machine)
    gpu = measured_gpu(list_gpus(machine), env=env) if users else None
    return tuple(user.text for user in users if gpu is None or user.gpu_uuid == gpu.uuid)


def _gpu(row: Sequence[str]) -> GpuStatus:
    index, uuid, name, driver_version, persistence_mode, mig_mode, *numbers = row
    limit, default_limit, clock = (_number(text) for text in numbers)
    return GpuStatus(
        index=index,
        uuid=uuid,
        name=name,
        driver_version=driver_version,
        persistence_mode=persistence_mode,
        mig_mode=mig_mode,
        power_limit_w=limit,
        default_power_limit_w=default_limit,
        max_clock_sm_mhz=clock,
    )


def _program(command: str) -> str:
    """Return the program of a command line, or the whole text if it has no path.

    The text is `[Insufficient Permissions]` or `[Not Found]` if this user or container lacks
    access.
    """
    return command.split()[0].rpartition("/")[2] if command.startswith("/") else command


def _number(text: str) -> float | None:
    # The text is `[N/A]`, `[Not Supported]` or `[Unknown Error]` if the GPU does not report a
    # value.
    try:
        return float(text)
    except ValueError:
        return None


def _rows(text: str) -> list[list[str]]:
    rows = csv.reader(text.splitlines(), skipinitialspace=True)
    return [[cell.strip() for cell in row] for row in rows if row]
