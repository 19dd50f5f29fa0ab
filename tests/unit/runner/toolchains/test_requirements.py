"""The requirements of a toolchain, from those of the project."""

from __future__ import annotations

import importlib.metadata
from types import SimpleNamespace

import pytest

from compile_hud.runner.toolchains import requirements
from compile_hud.runner.toolchains.requirements import (
    from_metadata,
    from_pyproject,
    installed_pins,
    package_name,
)

DECLARED = ["numpy>=2.1", "diffusers>=0.42", "torch>=2.9", "nvidia-ml-py>=12"]


@pytest.mark.parametrize(
    ("requirement", "name"),
    [
        ("torch>=2.9", "torch"),
        ("Typing_Extensions", "typing-extensions"),
        ("psycopg[binary]>=3.3", "psycopg"),
        ("a.b--c == 1", "a-b-c"),
        ("== 1", ""),
    ],
)
def test_the_name_of_a_requirement_is_normalised(requirement: str, name: str) -> None:
    assert package_name(requirement) == name


def test_a_checkout_says_what_the_worker_and_the_zoo_need() -> None:
    project = {
        "dependencies": ["alembic>=1", "numpy>=2.1"],
        "optional-dependencies": {
            "app": ["altair"],
            "gpu": ["nvidia-ml-py>=12"],
            "zoo": ["diffusers>=0.42", "torch>=2.9"],
        },
    }
    assert from_pyproject({"project": project}) == DECLARED


def test_an_installation_says_the_same() -> None:
    lines = [
        "alembic>=1",
        "numpy>=2.1",
        'altair; extra == "app"',
        'nvidia-ml-py>=12; extra == "gpu"',
        'diffusers>=0.42; extra == "zoo"',
        "torch>=2.9; extra=='zoo'",
    ]
    assert from_metadata(lines) == DECLARED


def test_pins_leave_out_what_torch_brings_but_not_what_the_worker_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    versions = {
        "torch": "2.13.0",
        "sympy": "1.14",
        "mpmath": "1.3",
        "numpy": "2.4",
        "requests": "2.3",
        "nvidia-cublas": "13",
        "Transformers": "5.23",
        None: "1",
    }
    needed = {
        "torch": ["sympy>=1", 'requests; extra == "all"'],
        "sympy": ["mpmath<2", "numpy", "torch"],
    }
    pins = [
        SimpleNamespace(metadata={"Name": name}, version=version)
        for name, version in versions.items()
    ]

    def requires(name: str) -> list[str] | None:
        if name == "mpmath":
            raise importlib.metadata.PackageNotFoundError
        return needed.get(name)

    monkeypatch.setattr(importlib.metadata, "distributions", lambda: pins)
    monkeypatch.setattr(requirements.importlib.metadata, "requires", requires)
    assert installed_pins() == ["numpy==2.4", "requests==2.3", "transformers==5.23"]
