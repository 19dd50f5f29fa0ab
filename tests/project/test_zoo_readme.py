"""The zoo's README agrees with the catalog, and the catalog needs no torch."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from compile_hud.models_zoo.catalog.architecture_search import candidate_models
from compile_hud.models_zoo.catalog.catalog import CATALOG
from compile_hud.models_zoo.catalog.providers import provided_models
from compile_hud.models_zoo.catalog.reference_cases import REFERENCES
from compile_hud.models_zoo.catalog.spec import ModelSpec

ZOO = Path(__file__).parents[2] / "models_zoo"
README = ZOO / "README.md"


@pytest.mark.parametrize("spec", CATALOG.values(), ids=CATALOG.keys())
def test_the_readme_has_the_row_of_each_model(spec: ModelSpec) -> None:
    text = README.read_text(encoding="utf-8")
    assert f"| `{spec.name}` | {spec.family} | {spec.summary} |" in text
    assert f"- **{spec.family}**:" in text


def test_the_readme_has_no_row_of_a_model_that_is_gone() -> None:
    lines = README.read_text(encoding="utf-8").splitlines()
    stresses = lines[lines.index("| model | family | stresses |") + 2 :]
    documented = [line.split("`")[1] for line in stresses[: stresses.index("")]]
    assert documented == list(CATALOG)


@pytest.mark.parametrize("spec", CATALOG.values(), ids=CATALOG.keys())
def test_each_row_has_its_file(spec: ModelSpec) -> None:
    path = ZOO.parent / (spec.build.removeprefix("compile_hud.").replace(".", "/") + ".py")
    assert path.is_file(), f"{path} is missing"


def test_each_file_that_builds_a_model_has_a_row() -> None:
    others = {
        **REFERENCES,
        **candidate_models(["arch/1-8-1-1"]),
        **provided_models(["timm/any", "torchvision/any"]),
    }
    builders = {spec.build.rpartition(".")[2] for spec in (*CATALOG.values(), *others.values())}
    building = {
        path.stem
        for path in ZOO.rglob("*.py")
        if re.search(r"^def build\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert building - builders == set(), "add a row for each in models_zoo/catalog/rows"


def test_the_catalog_imports_without_torch() -> None:
    code = (
        "import sys, compile_hud.models_zoo.catalog.catalog;"
        "print(sorted({'torch', 'transformers', 'diffusers', 'numpy'} & set(sys.modules)))"
    )
    finished = subprocess.run(
        [sys.executable, "-c", code],
        cwd=README.parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    assert finished.stdout == "[]\n"
