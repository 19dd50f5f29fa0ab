"""Environments that have some packages and variables of another one.

The files are hard links, or symbolic ones where those cannot be: nothing is downloaded or copied,
and a library finds its neighbours by its own path.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path

from compile_hud.runner.errors import RevisionUnusable
from compile_hud.runner.isolate.environments import (
    Difference,
    DifferenceKind,
    Environment,
    Package,
    package_key,
)
from compile_hud.runner.toolchains.installer import own_environment

_BUILD_TIMEOUT_S = 300.0


def build_mixture(
    folder: Path,
    *,
    before: Environment,
    after: Environment,
    changes: Collection[Difference],
    swapped: Collection[Difference],
) -> Path:
    """Build `before` with what `swapped` of all `changes` has after, and return its interpreter.

    Raises RevisionUnusable.
    """
    shutil.rmtree(folder, ignore_errors=True)
    try:
        folder.mkdir(parents=True)
        packages_dir = _make_venv(
            folder / "env", _source(DifferenceKind.PYTHON, before, after, swapped)
        )
        for package in _packages(before, after, changes, swapped):
            _link(package, packages_dir)
        wrapper = folder / "python"
        # A variable may have bytes that are no text.
        wrapper.write_bytes(os.fsencode(_wrapper(folder / "env", changes, swapped)))
        # A variable may be a secret.
        wrapper.chmod(0o700)
    except OSError as error:
        raise RevisionUnusable(f"cannot build {folder}: {error.strerror or error}") from error
    except subprocess.TimeoutExpired as error:
        raise RevisionUnusable(
            f"{before.base} made no virtual environment in {error.timeout:g} s"
        ) from error
    return wrapper


def _source(
    kind: DifferenceKind,
    before: Environment,
    after: Environment,
    swapped: Collection[Difference],
) -> Environment:
    return after if any(item.kind is kind for item in swapped) else before


def _make_venv(folder: Path, source: Environment) -> Path:
    """Create an empty virtual environment on the Python of `source`; return where packages go."""
    answer = subprocess.run(
        [source.base, "-m", "venv", "--without-pip", str(folder)],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env=own_environment(),
        timeout=_BUILD_TIMEOUT_S,
    )
    if answer.returncode:
        lines = (answer.stderr or answer.stdout).strip().splitlines() or ["it said nothing"]
        raise RevisionUnusable(f"{source.base} cannot create a virtual environment: {lines[-1]}")
    return next((folder / "lib").glob("python*")) / "site-packages"


def _packages(
    before: Environment,
    after: Environment,
    changes: Collection[Difference],
    swapped: Collection[Difference],
) -> list[Package]:
    moved = {package_key(item) for item in swapped if _has_files(item)}
    changed = {package_key(item) for item in changes if _has_files(item)}
    chosen = []
    for name in before.packages.keys() | after.packages.keys():
        source = after if name in moved else before
        if name in source.packages and (name in changed or name in before.packages):
            chosen.append(source.packages[name])
    return chosen


def _has_files(item: Difference) -> bool:
    return item.kind in (DifferenceKind.PACKAGE, DifferenceKind.FILES)


def _link(package: Package, folder: Path) -> None:
    made: set[str] = set()
    for name in package.files:
        source, target = os.path.join(package.folder, name), os.path.join(folder, name)
        parent = os.path.dirname(target)
        if parent not in made:
            os.makedirs(parent, exist_ok=True)
            made.add(parent)
        try:
            os.link(source, target)
        except FileExistsError:
            # Two packages have this file, as one of them would have overwritten it.
            continue
        except OSError:
            os.symlink(source, target)


def _wrapper(env: Path, changes: Collection[Difference], swapped: Collection[Difference]) -> str:
    lines = ["#!/bin/sh"]
    for item in changes:
        if item.kind is DifferenceKind.VARIABLE:
            value = item.after if item in swapped else item.before
            name = shlex.quote(item.name)
            lines.append(
                f"unset {name}" if value is None else f"export {name}={shlex.quote(value)}"
            )
    lines.append(f'exec {shlex.quote(str(env / "bin" / "python"))} "$@"')
    return "\n".join(lines) + "\n"
