"""No module imports itself by way of others."""

from __future__ import annotations

import graphlib

import pytest

from tests.support.sources import PACKAGES, imported_names, python_files, tree_of


def module_of(path: str) -> str:
    name = "compile_hud." + path.removesuffix(".py").replace("/", ".")
    return name.removesuffix(".__init__")


def imports_of_product() -> dict[str, set[str]]:
    """Return for each module of the product which others of it are imported at its top."""
    paths = {module_of(path): path for path in python_files(*PACKAGES)}
    return {
        name: {module for module in imported_names(tree_of(path)) if module in paths} - {name}
        for name, path in paths.items()
    }


def test_a_circle_is_noticed() -> None:
    with pytest.raises(graphlib.CycleError):
        graphlib.TopologicalSorter({"a": {"b"}, "b": {"c"}, "c": {"a"}}).prepare()


def test_no_module_imports_itself_by_way_of_others() -> None:
    imports = imports_of_product()
    assert sum(map(len, imports.values())) > len(imports)
    graphlib.TopologicalSorter(imports).prepare()
