"""The reference cases never change, since series of years depend on them."""

from __future__ import annotations

import ast
import hashlib
import json
from pathlib import Path

import pytest

from compile_hud.db.records.results import REFERENCE_FAMILY
from compile_hud.models_zoo.catalog import reference_cases as reference
from compile_hud.models_zoo.catalog.catalog import CATALOG
from compile_hud.models_zoo.catalog.reference_cases import REFERENCES
from compile_hud.models_zoo.catalog.spec import ModelSpec
from compile_hud.runner.analysis.judging.machine_state import KINDS
from tests.support.sources import text_of

ZOO = Path(__file__).parents[2] / "models_zoo"
PINNED = {
    "ref_gemm": "05ddb3cd38b3d807",
    "ref_copy": "aaa89666a23c2f33",
    "ref_chain": "10cb36dc14b93ea5",
}
# The location of its helpers and the words about it are no part of a case.
_NO_CODE = (ast.Import, ast.ImportFrom)
rows = pytest.mark.parametrize("spec", REFERENCES.values(), ids=REFERENCES.keys())


def _code_of(path: Path) -> str:
    tree = ast.parse(path.read_text(encoding="ascii"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            has_docstring = ast.get_docstring(node) is not None
            node.body = [
                item for item in node.body[has_docstring:] if not isinstance(item, _NO_CODE)
            ]
    return ast.unparse(tree)


@rows
def test_a_reference_case_is_what_it_always_was(spec: ModelSpec) -> None:
    sizes = {name: dict(size.config) for name, size in spec.sizes.items()}
    source = _code_of(ZOO / "reference" / f"{spec.name}.py")
    digest = hashlib.sha256(f"{json.dumps(sizes, sort_keys=True)}\n{source}".encode()).hexdigest()
    assert digest[:16] == PINNED[spec.name], (
        f"{spec.name} changed, and with it the meaning of every stored series of it: leave it as it"
        f" was, and add {spec.name}_2 if another one is needed"
    )


@rows
def test_a_reference_case_has_one_phase_and_a_size_for_each_device(spec: ModelSpec) -> None:
    assert spec.phases == ("inference",)
    assert list(spec.sizes) == ["small", "full"]
    assert spec.build == f"compile_hud.models_zoo.reference.{spec.name}"


@rows
def test_the_data_of_the_measurement_have_its_sizes(spec: ModelSpec) -> None:
    text = text_of("docs/explanation/measurement-data.md")
    row = text.partition(f"| `{spec.name}` | ")[2].partition(" |\n")[0]
    for size in spec.sizes.values():
        for name, value in size.config.items():
            shown = int(str(value)) // 2**20 if name == "num_bytes" else value
            assert f"{shown} " in row


def test_reference_cases_are_no_models() -> None:
    assert not set(REFERENCES) & set(CATALOG)
    assert reference.FAMILY == REFERENCE_FAMILY
    assert {spec.family for spec in REFERENCES.values()} == {REFERENCE_FAMILY}
    assert REFERENCE_FAMILY not in {spec.family for spec in CATALOG.values()}


def test_each_reference_case_shows_one_side_of_the_machine() -> None:
    assert list(KINDS) == list(REFERENCES)
    assert list(KINDS.values()) == ["compute", "memory", "launch"]


@rows
def test_the_zoo_readme_states_its_purpose(spec: ModelSpec) -> None:
    text = (ZOO / "README.md").read_text(encoding="utf-8")
    assert f"| `{spec.name}` | {KINDS[spec.name]} | {spec.summary} |" in text
