"""The packages and variables of a toolchain, and the differences between two of them."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from compile_hud.db.errors import RecordError
from compile_hud.db.records.codec import JsonRecord, decode, encode
from compile_hud.db.shared.text import masked, one_line, shortened
from compile_hud.runner.errors import BisectError
from compile_hud.runner.system.processes import SAFE_PATH_VARIABLE
from compile_hud.runner.toolchains.installer import own_environment

_PROBE = Path(__file__).with_name("probe.py")
_PROBE_TIMEOUT_S = 120.0
# The shell writes these, and no library reads them.
_VARIABLES_OF_SHELLS = frozenset({"_", "OLDPWD", "PS1", "PWD", "SHLVL", "VIRTUAL_ENV"})
# A shell can set no others. Bash exports its functions as `BASH_FUNC_name%%`.
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# Longer values, such as search paths, are cut in the answer.
_SHOWN = 80
# The mark of files that no package owns.
UNOWNED = "="
# Likely causes come first; a search measures halves, and the first half first.
_SUSPECTS = ("torch", "triton", "pytorch-triton", "nvidia", "numpy", "transformers", "diffusers")


class DifferenceKind(StrEnum):
    """The kind of a difference between two environments."""

    PACKAGE = "package"
    FILES = "files"
    VARIABLE = "variable"
    PYTHON = "python"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference(JsonRecord):
    """A package, files of no package, a variable or the Python that two environments have apart.

    A side that lacks it has None. Two packages of one version may still have other files.
    """

    kind: DifferenceKind
    name: str
    before: str | None
    after: str | None

    @property
    def key(self) -> str:
        """Return `package:triton`, which no other difference of the same environments has."""
        return f"{self.kind}:{self.name}"

    @property
    def text(self) -> str:
        """Return `triton 3.7.1 -> 3.7.2`; `HUD_X=1 only before`."""
        if self.kind is DifferenceKind.FILES:
            sides = {(True, False): "only before", (False, True): "only after"}
            side = sides.get((self.before is not None, self.after is not None), "other content")
            return f"{self.name} ({side})"
        sign = "=" if self.kind is DifferenceKind.VARIABLE else " "
        before, after = map(_shown, self._without_secrets())
        if after is None:
            return f"{self.name}{sign}{before} (only before)"
        if before is None:
            return f"{self.name}{sign}{after} (only after)"
        if self.before == self.after:
            return f"{self.name}{sign}{after} (other files)"
        return f"{self.name}{sign}{before} -> {after}"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object, with `***` instead of a likely secret."""
        before, after = self._without_secrets()
        return {**encode(self), "before": before, "after": after}

    def _without_secrets(self) -> tuple[str | None, str | None]:
        """Return both values; a variable such as `API_TOKEN` has `***`."""
        if self.kind is not DifferenceKind.VARIABLE:
            return self.before, self.after
        return _masked(self.name, self.before), _masked(self.name, self.after)


def without_secret(name: str, value: str) -> str:
    """Return the value of a variable, `***` for one with the name of a secret."""
    start = f"{name}="
    # Short values and those with spaces are not recognised, so the name decides.
    probe = f"{start}{'x' * 16}"
    is_secret = masked(probe) != probe
    return "***" if is_secret else masked(start + value).removeprefix(start)


def _masked(name: str, value: str | None) -> str | None:
    return None if value is None else without_secret(name, value)


def _shown(value: str | None) -> str | None:
    return None if value is None else shortened(one_line(value), limit=_SHOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """A package with its files relative to `folder`; `digest` is that of their content."""

    version: str
    folder: str
    files: tuple[str, ...]
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The packages, by name, and the variables of an interpreter.

    `base` is the interpreter without a virtual environment.
    """

    python: str
    base: str
    variables: Mapping[str, str]
    packages: Mapping[str, Package]


def describe(python: Path) -> Environment:
    """Return the environment of the interpreter at `python`; raise BisectError."""
    environment = {**own_environment(), SAFE_PATH_VARIABLE: "1"}
    try:
        answer = subprocess.run(
            [str(python), str(_PROBE)],
            capture_output=True,
            text=True,
            env=environment,
            stdin=subprocess.DEVNULL,
            timeout=_PROBE_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BisectError(
            f"cannot read the packages of {python}: {error}", python=python
        ) from error
    if answer.returncode:
        lines = answer.stderr.strip().splitlines() or [f"it ended with code {answer.returncode}"]
        raise BisectError(f"cannot read the packages of {python}: {lines[-1]}", python=python)
    try:
        return decode(Environment, json.loads(answer.stdout))
    except (ValueError, RecordError) as error:
        raise BisectError(
            f"{python} printed something else than its packages: {error}. Its wrapper and its"
            " packages must not print at the start",
            python=python,
        ) from error


def differences(before: Environment, after: Environment) -> tuple[Difference, ...]:
    """Return the differences of two environments, likely causes first, in a fixed order."""
    everything = [
        *_of_python(before, after),
        *_of_packages(before, after),
        *_of_variables(before, after),
    ]
    return tuple(sorted(everything, key=lambda item: (*_rank(item), item.key)))


def _of_python(before: Environment, after: Environment) -> Iterator[Difference]:
    if before.python != after.python:
        yield Difference(
            kind=DifferenceKind.PYTHON, name="python", before=before.python, after=after.python
        )


def _of_packages(before: Environment, after: Environment) -> Iterator[Difference]:
    for name in before.packages.keys() | after.packages.keys():
        old, new = before.packages.get(name), after.packages.get(name)
        if old is not None and new is not None and old.digest == new.digest:
            continue
        is_unowned = name.startswith(UNOWNED)
        sides = [
            None if side is None else side.digest[:12] if is_unowned else side.version
            for side in (old, new)
        ]
        kind = DifferenceKind.FILES if is_unowned else DifferenceKind.PACKAGE
        yield Difference(
            kind=kind, name=name.removeprefix(UNOWNED), before=sides[0], after=sides[1]
        )


def _of_variables(before: Environment, after: Environment) -> Iterator[Difference]:
    for name in before.variables.keys() | after.variables.keys():
        old, new = before.variables.get(name), after.variables.get(name)
        if old != new and is_settable(name):
            yield Difference(kind=DifferenceKind.VARIABLE, name=name, before=old, after=new)


def is_settable(name: str) -> bool:
    """Return whether a toolchain can set a variable that libraries may read."""
    is_ours = name in _VARIABLES_OF_SHELLS or name == SAFE_PATH_VARIABLE
    return not is_ours and _VARIABLE_NAME.fullmatch(name) is not None


def _rank(item: Difference) -> tuple[int, int, str]:
    if item.kind is not DifferenceKind.PACKAGE:
        return (0 if item.kind is DifferenceKind.VARIABLE else 1, 0, item.name)
    rank = next(
        (number for number, name in enumerate(_SUSPECTS) if item.name.startswith(name)),
        len(_SUSPECTS),
    )
    return (1 if rank < len(_SUSPECTS) else 2, rank, item.name)


def package_key(item: Difference) -> str:
    """Return the key of a package or of unowned files in `Environment.packages`."""
    return f"{UNOWNED}{item.name}" if item.kind is DifferenceKind.FILES else item.name


def minor(python: str) -> tuple[str, ...]:
    """Return the major and minor number of a version of Python."""
    return tuple(python.split(".")[:2])


def is_movable(item: Difference, *, before: Environment, after: Environment) -> bool:
    """Return whether one environment can take this from the other one.

    Compiled modules are for one minor version of Python.
    """
    is_same_python = minor(before.python) == minor(after.python)
    return is_same_python or item.kind is DifferenceKind.VARIABLE
