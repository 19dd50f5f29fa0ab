"""Fingerprints of environments, by which a stored isolation sees and names their changes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from compile_hud.runner.isolate.environments import (
    UNOWNED,
    DifferenceKind,
    Environment,
    differences,
    is_settable,
    without_secret,
)

# Libraries of numbers and compilers read these, so they count although the shell set them.
_INHERITED = re.compile(
    r"(CUBLAS|CUDA|CUDNN|GOMP|KMP|LD|MALLOC|MKL|NCCL|NVIDIA|OMP|OPENBLAS|PYTORCH|TORCH\w*|TRITON)_\w+"
)
# Python sets this itself under the locale `C`.
_VARIABLE_OF_PYTHON = "LC_CTYPE"
_NUM_DIGITS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageFingerprint:
    """The version of a package, and the hash of its files."""

    version: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentFingerprint:
    """The Python, packages and variables on which positions depend.

    Variables have hashes, of secrets that of `***`: a short one could be guessed.
    """

    python: str
    packages: Mapping[str, PackageFingerprint]
    variables: Mapping[str, str]


def fingerprints(
    before: Environment, after: Environment, *, inherited: Mapping[str, str]
) -> tuple[EnvironmentFingerprint, EnvironmentFingerprint]:
    """Return the fingerprints of two environments.

    An `inherited` variable counts if compilers or libraries of numbers read it. Of the others,
    those count that an environment sets.
    """
    apart = {
        item.name for item in differences(before, after) if item.kind is DifferenceKind.VARIABLE
    }

    def fingerprint(environment: Environment) -> EnvironmentFingerprint:
        return EnvironmentFingerprint(
            python=environment.python,
            packages={
                name: PackageFingerprint(version=item.version, digest=item.digest)
                for name, item in sorted(environment.packages.items())
            },
            variables={
                name: _hash(without_secret(name, text))
                for name, text in sorted(environment.variables.items())
                if name in apart or _counts(name, text, inherited=inherited)
            },
        )

    return fingerprint(before), fingerprint(after)


def _counts(name: str, text: str, *, inherited: Mapping[str, str]) -> bool:
    if not is_settable(name) or name == _VARIABLE_OF_PYTHON:
        return False
    return inherited.get(name) != text or _INHERITED.fullmatch(name) is not None


def _hash(text: str) -> str:
    # A variable may have bytes that are no text.
    content = text.encode(errors="surrogateescape")
    return hashlib.sha256(content).hexdigest()[:_NUM_DIGITS]


def changes_of(before: EnvironmentFingerprint, after: EnvironmentFingerprint) -> Iterator[str]:
    """Yield a text for each change from an earlier fingerprint to the present one."""
    if before.python != after.python:
        yield f"Python was {before.python} and is {after.python}"
    for name in sorted(before.packages.keys() | after.packages.keys()):
        old, new = before.packages.get(name), after.packages.get(name)
        if old != new:
            yield _package_change(name, old, new)
    for name in sorted(before.variables.keys() | after.variables.keys()):
        earlier, present = before.variables.get(name), after.variables.get(name)
        if present is None:
            yield f"{name} is not set any more"
        elif earlier is None:
            yield f"{name} is set now"
        elif earlier != present:
            yield f"{name} has another value"


def _package_change(
    name: str, old: PackageFingerprint | None, new: PackageFingerprint | None
) -> str:
    shown = name.removeprefix(UNOWNED)
    if new is None:
        return f"{shown} is gone"
    if old is None:
        return f"{shown} is new"
    if old.version == new.version:
        return f"{shown} has other files"
    return f"{shown} was {old.version} and is {new.version}"
