"""The facts of the environment, gathered by the interpreter that measures."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

# These settings of torch affect measurements; they belong to the fingerprint.
FLAG_VARIABLES = (
    "TORCHINDUCTOR_MAX_AUTOTUNE",
    "TORCHINDUCTOR_FREEZING",
    "TORCHINDUCTOR_CPP_WRAPPER",
    "TORCH_COMPILE_DISABLE",
    "NVIDIA_TF32_OVERRIDE",
    "CUDA_LAUNCH_BLOCKING",
)
# linux/personality.h
ADDR_NO_RANDOMIZE = 0x0040000
_BELOW_PACKAGES = re.compile(r"/(?:site|dist)-packages/")
PACKAGES = ("numpy", "triton", "transformers", "diffusers")


def loaded_folders() -> list[str]:
    """Return the first two parts of each loaded file's path below a folder of packages.

    Loaded files are modules of Python, and libraries that are mapped.
    """
    paths = {getattr(module, "__file__", None) or "" for module in list(sys.modules.values())}
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    paths.update(line.partition("/")[2] for line in lines)
    below = (_BELOW_PACKAGES.split(path)[-1] for path in paths if _BELOW_PACKAGES.search(path))
    return sorted({"/".join(name.split("/")[:2]) for name in below})


def gather_facts(device_kind: str) -> dict[str, Any]:
    """Return the facts as JSON values; an unavailable fact is None."""
    facts: dict[str, Any] = {
        "torch_version": torch.__version__,
        "torch_git": torch.version.git_version,
        "cuda_version": torch.version.cuda,
        "python_version": platform.python_version(),
        "python_minor": ".".join(platform.python_version_tuple()[:2]),
        "hostname": platform.node(),
        "os": platform.platform(),
        "cpu_model": _cpu_model(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "num_cpus": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "cxx_compiler": _compiler_version(),
        "device_kind": device_kind,
        "flags": _flags(),
        "packages": _packages(),
    }
    for package in PACKAGES:
        facts[f"{package}_version"] = _package_version(package)
    facts.update(_cuda_facts() if device_kind == "cuda" else _no_cuda_facts(facts["cpu_model"]))
    return facts


def _cuda_facts() -> dict[str, Any]:
    if not torch.cuda.is_available():
        raise RuntimeError(
            f"no CUDA device is usable by torch {torch.__version__};"
            " check `nvidia-smi` and that torch is a CUDA build"
        )
    properties = torch.cuda.get_device_properties(0)
    return {
        "device_name": properties.name,
        "device_memory_bytes": properties.total_memory,
        "compute_capability": f"{properties.major}.{properties.minor}",
        "num_multiprocessors": properties.multi_processor_count,
        "driver_version": _driver_version(),
    }


def _no_cuda_facts(cpu_model: str) -> dict[str, Any]:
    return {"device_name": cpu_model, "driver_version": None}


def _flags() -> dict[str, Any]:
    flags: dict[str, Any] = {name: os.environ.get(name) for name in FLAG_VARIABLES}
    flags["has_fixed_addresses"] = _has_fixed_addresses()
    flags["float32_matmul_precision"] = torch.get_float32_matmul_precision()
    return flags


def _has_fixed_addresses() -> bool | None:
    try:
        personality = int(Path("/proc/self/personality").read_text(encoding="ascii"), 16)
    except OSError:
        return None
    return bool(personality & ADDR_NO_RANDOMIZE)


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _packages() -> dict[str, str]:
    """Return every installed package with its version, as `pip freeze` would.

    The fingerprint excludes them: an update is a suspect of a step, no reason for a new baseline.
    """
    versions: dict[str, str] = {}
    for distribution in importlib.metadata.distributions():
        # The first on the path is the one that is imported.
        versions.setdefault(distribution.name, distribution.version)
    return dict(sorted(versions.items()))


def _package_version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _driver_version() -> str | None:
    return _first_line(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"])


def _compiler_version() -> str | None:
    return _first_line([os.environ.get("CXX", "g++"), "--version"])


def _first_line(command: list[str]) -> str | None:
    if shutil.which(command[0]) is None:
        return None
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.splitlines()[0].strip() if answer.stdout else None
