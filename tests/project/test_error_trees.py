"""The tree of errors that heads a module of errors is the one that its classes form."""

from __future__ import annotations

import ast
import re

import pytest

from tests.support.sources import tree_of


def drawn_tree(text: str) -> list[tuple[str, str]]:
    """Return the classes of the tree in a docstring, each with the one above it."""
    above: list[str] = []
    tree = []
    for line in text.partition("\n\n")[2].splitlines():
        branch = re.fullmatch(r"((?:[|`] {3}| {4})*)(?:[|`]-- )?([A-Z]\w+)(?: .*)?", line)
        assert branch, line
        depth = len(branch[1]) // 4 + ("-- " in line[: branch.start(2)])
        above[depth:] = [branch[2]]
        tree.append((above[depth - 1] if depth else "", branch[2]))
    return tree


@pytest.mark.parametrize(
    "module", ["db/errors.py", "runner/errors.py", "runner/analysis/errors.py"]
)
def test_the_tree_in_the_docstring_is_that_of_the_classes(module: str) -> None:
    tree = tree_of(module)
    drawn = drawn_tree(ast.get_docstring(tree) or "")
    root = drawn[0][1]
    bases = {
        node.name: [ast.unparse(base) for base in node.bases]
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    }
    # What the root is made of, as CodedError, is no part of the tree.
    assert {name for _above, name in drawn[1:]} == set(bases) - {root, "CodedError"}
    for above, name in drawn[1:]:
        assert above in bases[name]
