"""The fingerprints of environments, and the changes that they show."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.isolate.environments import Environment, Package
from compile_hud.runner.isolate.fingerprints import changes_of, fingerprints

SHELL = {"HOME": "/home/ann", "TERM": "xterm", "OMP_NUM_THREADS": "4"}


def package(version: str, *, digest: str = "d0") -> Package:
    return Package(version=version, folder="/site", files=("part.py",), digest=digest)


def environment(**variables: str) -> Environment:
    """Return an environment that sets `variables` in the shell."""
    return Environment(
        python="3.12.3",
        base="/usr/bin/python3",
        variables={**SHELL, **variables},
        packages={"part": package("1.0"), "=site.py": package("", digest="d1")},
    )


OLD, NEW = environment(), environment(HUD_SLOW="1")


@pytest.mark.parametrize(
    "changed",
    [
        {"python": "3.12.4"},
        {"packages": {**OLD.packages, "part": package("1.1", digest="d2")}},
        {"packages": {**OLD.packages, "part": package("1.0", digest="d2")}},
        {"packages": {"part": package("1.0")}},
        {"packages": {**OLD.packages, "more": package("1.0")}},
        {"variables": {**SHELL, "HUD_NEW": "1"}},
        {"variables": {**SHELL, "HUD_SLOW": "2"}},
        {"variables": {**SHELL, "OMP_NUM_THREADS": "8"}},
    ],
)
def test_each_change_is_named(changed: dict[str, Any], snapshot: SnapshotAssertion) -> None:
    before, _ = fingerprints(OLD, NEW, inherited=SHELL)
    after, _ = fingerprints(replace(OLD, **changed), NEW, inherited=SHELL)
    (text,) = changes_of(before, after)
    assert text == snapshot


def test_a_variable_that_is_not_set_any_more_is_named(snapshot: SnapshotAssertion) -> None:
    before, _ = fingerprints(NEW, OLD, inherited=SHELL)
    after, _ = fingerprints(OLD, OLD, inherited=SHELL)
    (text,) = changes_of(before, after)
    assert text == snapshot


def test_the_folder_of_a_package_and_the_shell_do_not_count() -> None:
    moved = {name: replace(item, folder="/other") for name, item in OLD.packages.items()}
    shell = {**SHELL, "TERM": "dumb", "WINDOWID": "42"}
    old, new = (
        replace(
            side,
            packages=moved,
            variables={**side.variables, **shell, "PWD": "/tmp", "LC_CTYPE": "C.UTF-8"},
        )
        for side in (OLD, NEW)
    )
    before = fingerprints(OLD, NEW, inherited=SHELL)
    after = fingerprints(old, new, inherited=shell)
    assert before == after


def test_a_variable_that_both_set_counts() -> None:
    sides = [environment(HUD_BOTH=value) for value in ("1", "2")]
    before, after = (fingerprints(side, side, inherited=SHELL)[0] for side in sides)
    (text,) = changes_of(before, after)
    assert text.startswith("HUD_BOTH ")


def test_values_may_be_any_bytes_and_are_not_stored() -> None:
    value = b"T0KEN \xff".decode(errors="surrogateescape")
    before, _ = fingerprints(environment(HUD_API_TOKEN=value), NEW, inherited=SHELL)
    assert before.variables["HUD_API_TOKEN"].isalnum()
    assert "T0KEN" not in str(before.variables)
    # A hash of a secret would allow to guess it.
    other, _ = fingerprints(environment(HUD_API_TOKEN="another one"), NEW, inherited=SHELL)
    assert other.variables == before.variables
