"""Each tier of tests has the needs of its name, and `make test` runs all but tests/nightly."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath

import tomllib

from tests.support.sources import ROOT, imported_modules, python_files, text_of, tree_of

LIGHT_TIERS = ("unit", "store", "cli", "app", "project", "services")
NOT_TESTS = {"fixtures", "support"}
HEAVY = {"torch", "transformers", "diffusers", "streamlit", "playwright", "ray"}
# What a test of tests/unit does not use: files, processes, threads of servers.
FORBIDDEN_IN_UNIT = ("tmp_path", "import subprocess", "import socket", "import multiprocessing")
MAX_MODULES_IN_A_FOLDER = 20


def test_every_tier_but_the_nightly_one_is_run_by_default() -> None:
    settings = tomllib.loads(text_of("pyproject.toml"))["tool"]["pytest"]["ini_options"]
    tiers = {
        path.name
        for path in (ROOT / "tests").iterdir()
        if path.is_dir() and path.name not in NOT_TESTS and (path / "__init__.py").exists()
    }
    assert {f"tests/{name}" for name in tiers - {"nightly"}} == set(settings["testpaths"])


def test_light_tiers_import_nothing_heavy_at_the_top() -> None:
    heavy = {
        name: modules
        for tier in LIGHT_TIERS
        for name in python_files(f"tests/{tier}")
        if (modules := set(_imported_at_the_top(tree_of(name))) & HEAVY)
    }
    assert not heavy


def test_unit_tests_use_neither_files_nor_processes() -> None:
    users = {
        name: words
        for name in python_files("tests/unit")
        if (words := [word for word in FORBIDDEN_IN_UNIT if word in text_of(name)])
    }
    assert not users


def test_a_folder_of_tests_has_few_modules() -> None:
    folders = Counter(str(PurePath(name).parent) for name in python_files("tests"))
    # `__init__.py` is one more.
    limit = MAX_MODULES_IN_A_FOLDER + 1
    crowded = {name for name, num in folders.items() if num > limit}
    assert crowded - {"tests/project"} == set()


def test_unit_tests_lie_where_the_product_lies() -> None:
    folders = {PurePath(name).parent for name in python_files("tests/unit")}
    inside = {folder.relative_to("tests/unit") for folder in folders}
    assert {str(folder) for folder in inside if not (ROOT / folder).is_dir()} == set()


def _imported_at_the_top(tree: ast.Module) -> Iterator[str]:
    for statement in tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            yield from (module.partition(".")[0] for module in imported_modules(statement))
