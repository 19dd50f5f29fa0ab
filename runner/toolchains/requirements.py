"""The packages of a toolchain other than torch, as the project declares them."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tomllib

PROJECT = "compile-hud"
# The extras cover the models, and the packages that read clocks and energy of a GPU.
EXTRAS = ("zoo", "gpu")
TORCH = "torch"
# Every worker needs these, for any model.
WORKER_PACKAGES = ("numpy",)
# A CUDA build of torch requires these through the extras of a package of its own.
_CUDA_PREFIXES = ("nvidia-", "cuda-", "triton")

_REQUIREMENT_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_EXTRA = re.compile(r"""extra\s*==\s*["']([A-Za-z0-9._-]+)["']""")
_PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"


def package_name(requirement: str) -> str:
    """Return the name that `requirement` begins with, as the packaging tools compare names."""
    match = _REQUIREMENT_NAME.match(requirement)
    return re.sub(r"[-_.]+", "-", match[1]).lower() if match else ""


def declared_requirements() -> list[str]:
    """Return the requirements of the worker and the zoo for pip, torch included."""
    if _PYPROJECT.is_file():
        return from_pyproject(tomllib.loads(_PYPROJECT.read_text(encoding="utf-8")))
    return from_metadata(importlib.metadata.requires(PROJECT) or [])


def from_pyproject(content: dict[str, Any]) -> list[str]:
    """Return the requirements of the worker and the zoo from a checkout's pyproject.toml."""
    project = content["project"]
    optional = project["optional-dependencies"]
    return [
        *_worker_only(project["dependencies"]),
        *(line for name in EXTRAS for line in optional[name]),
    ]


def from_metadata(lines: Iterable[str]) -> list[str]:
    """Return the requirements of the worker and the zoo from the metadata of an installation."""
    always: list[str] = []
    optional: dict[str, list[str]] = {name: [] for name in EXTRAS}
    for line in lines:
        requirement, _, marker = line.partition(";")
        extra = _EXTRA.search(marker)
        if extra is None:
            always.append(requirement.strip())
        elif extra[1] in optional:
            optional[extra[1]].append(requirement.strip())
    return [*_worker_only(always), *(line for lines in optional.values() for line in lines)]


def _worker_only(requirements: Iterable[str]) -> list[str]:
    return [item for item in requirements if package_name(item) in WORKER_PACKAGES]


def installed_pins() -> list[str]:
    """Return `name==version` of every installed package except torch and its dependencies.

    With these a toolchain of the same Python differs from this environment in torch alone.
    """
    versions = {
        package_name(item.metadata["Name"] or ""): item.version
        for item in importlib.metadata.distributions()
    }
    left_out = _brought_by_torch() - set(WORKER_PACKAGES)
    return sorted(
        f"{name}=={version}"
        for name, version in versions.items()
        if name and name not in left_out and not name.startswith(_CUDA_PREFIXES)
    )


def _brought_by_torch() -> set[str]:
    names: set[str] = set()
    waiting = [TORCH]
    while waiting:
        name = waiting.pop()
        names.add(name)
        needed = [package_name(line) for line in _requirements_of(name) if "extra ==" not in line]
        waiting.extend(item for item in needed if item not in names)
    return names


def _requirements_of(name: str) -> list[str]:
    try:
        return importlib.metadata.requires(name) or []
    except importlib.metadata.PackageNotFoundError:
        return []
