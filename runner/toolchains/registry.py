"""The toolchains of `hud toolchain add`: virtual environments in `venvs` of the state directory.

A toolchain is complete once its folder has the marker file, which is written last. The next
installation removes an incomplete one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from compile_hud.runner.errors import ToolchainError
from compile_hud.runner.protocol.files import write_json
from compile_hud.runner.system.locks import holder_text, immediate_lock
from compile_hud.runner.system.toolchain_home import toolchain_home

# 1: first version.
TOOLCHAIN_VERSION = 1
PROBE_TIMEOUT_S = 120.0

_MARKER = "toolchain.json"
# The name is used for a folder, a key in hud.toml and an option.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*")
# A toolchain's name has no leading dot, so this matches none.
_ASIDE = re.compile(r"\.(.+)\.old")
_PROBE = (
    "import json, platform, torch;"
    "print(json.dumps([platform.python_version(), str(torch.__version__)]))"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The versions under an interpreter; `problem` is empty if it can import torch."""

    python_version: str = ""
    torch_version: str = ""
    problem: str = ""


def toolchain_folder(name: str, *, state_dir: Path) -> Path:
    """Return the folder of the toolchain `name`, which may not exist.

    Raises ToolchainError for an invalid name.
    """
    if not _NAME.fullmatch(name):
        raise ToolchainError(
            f"{name!r} is no name for a toolchain: take letters, digits and . _ + -, the first a"
            " letter or a digit",
            toolchain=name,
            problem="name",
        )
    return state_dir / "venvs" / name


def python_of(folder: Path) -> Path:
    """Return the interpreter of the toolchain in `folder`."""
    return folder / "bin" / "python"


def built_toolchains(state_dir: Path) -> Mapping[str, Path]:
    """Return the interpreters of the complete toolchains, by name.

    A toolchain counts while it is being replaced, so that settings that name it stay valid.
    """
    venvs = state_dir / "venvs"
    names = {marker.parent.name for marker in venvs.glob(f"*/{_MARKER}")}
    names_aside = {_ASIDE.sub(r"\1", name) for name in names}
    return {name: python_of(venvs / name) for name in sorted(names_aside)}


def is_complete(folder: Path) -> bool:
    """Return whether there is a toolchain in `folder`."""
    return (folder / _MARKER).exists()


def set_aside(folder: Path) -> None:
    """Move an existing toolchain in `folder` away, so that it can be built again."""
    if is_complete(folder):
        folder.rename(_aside(folder))


def put_back(folder: Path, *, state_dir: Path) -> None:
    """Restore the old toolchain unless a complete one has replaced it."""
    if is_complete(folder):
        (_aside(folder) / _MARKER).unlink(missing_ok=True)
        shutil.rmtree(_aside(folder), ignore_errors=True)
    else:
        discard(folder, state_dir=state_dir)
        if is_complete(_aside(folder)):
            _aside(folder).rename(folder)


def _aside(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.old")


def register(
    folder: Path, *, torch_version: str, at: datetime, recipe: Mapping[str, Any] | None = None
) -> None:
    """Mark the toolchain in `folder` as complete, with its `recipe`; raise OSError."""
    document = {
        "schema_version": TOOLCHAIN_VERSION,
        "torch_version": torch_version,
        "built_at": at.isoformat(),
        "recipe": recipe,
    }
    write_json(folder / _MARKER, document)


def recipe_of(folder: Path) -> Mapping[str, Any]:
    """Return the recipe of the toolchain in `folder`; raise ToolchainError if it is unknown.

    Earlier releases stored no recipe.
    """
    try:
        recipe = json.loads((folder / _MARKER).read_text(encoding="utf-8")).get("recipe")
    except (OSError, ValueError) as error:
        raise ToolchainError(
            f"there is no toolchain {folder.name} to build again",
            toolchain=folder.name,
            problem="missing",
        ) from error
    if not isinstance(recipe, Mapping):
        raise ToolchainError(
            f"how toolchain {folder.name} was built is not known; once more by hand, with"
            " `hud toolchain add --replace`, and it is",
            toolchain=folder.name,
            problem="no-recipe",
        )
    return recipe


def discard(folder: Path, *, state_dir: Path) -> None:
    """Remove the toolchain in `folder`, complete or not, with its compiled files."""
    # The marker goes first, so that an incomplete folder is no toolchain.
    (folder / _MARKER).unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.rmtree(toolchain_home(state_dir, python=python_of(folder)), ignore_errors=True)


@contextmanager
def changing(name: str, *, state_dir: Path) -> Iterator[Path]:
    """Yield the folder of `name`, locked against concurrent changes; raise ToolchainError."""

    def lock_error(pid: int | None) -> ToolchainError:
        return ToolchainError(
            f"toolchain {name} is being built or removed by {holder_text(pid)}",
            toolchain=name,
            holder=pid,
        )

    folder = toolchain_folder(name, state_dir=state_dir)
    with immediate_lock(folder.with_name(f".{name}.lock"), on_conflict=lock_error):
        yield folder


def check_unused(folder: Path) -> None:
    """Raise ToolchainError while a process runs the interpreter in `folder`."""
    interpreter = os.path.abspath(python_of(folder))
    pids = sorted(pid for pid, python in _programs() if python == interpreter)
    if pids:
        raise ToolchainError(
            f"toolchain {folder.name} is in use by PID {', '.join(map(str, pids))}; wait for it to"
            " end",
            toolchain=folder.name,
            pids=tuple(pids),
        )


def _programs() -> Iterator[tuple[int, str]]:
    for process in Path("/proc").glob("[0-9]*"):
        try:
            program = (process / "cmdline").read_bytes().split(b"\0")[0].decode()
            # The executable of a virtual environment would be a link to the real interpreter.
            yield int(process.name), os.path.abspath((process / "cwd").readlink() / program)
        except (OSError, ValueError):
            # The process ended meanwhile, or belongs to another user.
            continue


def probe(python: Path) -> Probe:
    """Return the versions of `python` and of its torch, which it imports."""
    try:
        answer = subprocess.run(
            [str(python), "-c", _PROBE], capture_output=True, text=True, timeout=PROBE_TIMEOUT_S
        )
    except OSError as error:
        return Probe(problem=f"{error.strerror}")
    except subprocess.TimeoutExpired:
        return Probe(problem=f"torch is not imported after {PROBE_TIMEOUT_S:.0f} s")
    if answer.returncode:
        lines = answer.stderr.strip().splitlines()
        return Probe(problem=lines[-1] if lines else f"ended with code {answer.returncode}")
    python_version, torch_version = json.loads(answer.stdout.splitlines()[-1])
    return Probe(python_version=python_version, torch_version=torch_version)
