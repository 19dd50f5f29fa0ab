"""The wheel installs a single name, so that it cannot shadow packages of a user."""

from __future__ import annotations

import ast
import re
import zipfile
from pathlib import Path

import pytest

from tests.support.sources import PACKAGES, ROOT, python_files, tree_of
from tests.support.wheels import build_wheel

# Folders of the repository that no wheel has.
REPOSITORY_FILE = re.compile(r"\b(?:benchmarks|docker|docs|tests)/[\w./-]+\.\w+")


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return the names of the files in the wheel of this tree."""
    with zipfile.ZipFile(build_wheel(tmp_path_factory.mktemp("wheel"))) as archive:
        return archive.namelist()


def test_the_wheel_installs_one_name(names: list[str]) -> None:
    tops = {Path(name).parts[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"compile_hud"}


def test_the_wheel_has_every_module_and_asset(names: list[str]) -> None:
    expected = {
        f"compile_hud/{path.relative_to(ROOT)}"
        for folder in PACKAGES
        for pattern in ("*.py", "*.js", "*.html", "py.typed")
        for path in (ROOT / folder).rglob(pattern)
    }
    assert expected <= set(names)


def printed_texts(tree: ast.Module) -> list[str]:
    """Return the strings of a module without its docstrings."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in docstrings
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_no_message_points_to_a_file_that_an_installation_lacks(package: str) -> None:
    texts = {
        name: [text for text in printed_texts(tree_of(name)) if REPOSITORY_FILE.search(text)]
        for name in python_files(package)
    }
    assert {name: lines for name, lines in texts.items() if lines} == {}


def test_a_path_of_a_document_is_seen() -> None:
    tree = ast.parse('"""docs/a.md"""\nERROR = "docs/how-to/ci.md has it"')
    assert [*filter(REPOSITORY_FILE.search, printed_texts(tree))] == ["docs/how-to/ci.md has it"]
