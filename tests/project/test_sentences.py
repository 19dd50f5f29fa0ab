"""Tests assert codes, parameters and fields; sentences of a surface lie in snapshots.

A reworded message then changes one snapshot, not the tests that happened to quote it. Each tier has
a ceiling of tests that quote a sentence. The ceiling only goes down.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import PurePath

import pytest

from tests.support.sources import python_files, tree_of

# Tests that quote a sentence, by tier. Lower a number when the tests below it are rewritten.
CEILINGS = {
    "app": 22,
    "cli": 5,
    "e2e": 2,
    "nightly": 1,
    "project": 29,
    "services": 0,
    "store": 4,
    "unit": 6,
    "worker": 4,
}
MIN_WORDS = 4
# Tiers whose tests are named by their property, without these words.
NAMED_TIERS = ("store", "unit")
NO_PROPERTY = {
    "told",
    "said",
    "nobody",
    "somebody",
    "whoever",
    "beside",
    "news",
    "wanted",
    "people",
}
# What a shell runs is an interface, not words.
COMMAND = re.compile(r"[\n `]*(hud|echo|sudo|make|pip|git|python|docker)\b")


def is_sentence(text: str) -> bool:
    """Return whether `text` reads as words: markup, code, paths and commands do not."""
    if COMMAND.match(text):
        return False
    # Neither markup nor what joins the words of a pattern is a word.
    words = re.sub(r"<[^>]*>|\.\*|\|", " ", text)
    tokens = (token.strip(".,:;!?()[]'\"`^$*+\\") for token in words.split())
    return sum(bool(re.fullmatch(r"[A-Za-z][a-z']+", token)) for token in tokens) >= MIN_WORDS


def strings_in(node: ast.AST) -> Iterator[str]:
    """Yield the strings of an expression, an f-string as one with gaps."""
    if isinstance(node, ast.JoinedStr):
        yield " {} ".join(
            part.value
            for part in node.values
            if isinstance(part, ast.Constant) and isinstance(part.value, str)
        )
    elif isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from strings_in(child)


def parameter_columns(test: ast.FunctionDef) -> dict[str, list[ast.expr]]:
    """Return the values of each argument that `pytest.mark.parametrize` gives."""
    columns: dict[str, list[ast.expr]] = {}
    for mark in test.decorator_list:
        if not (isinstance(mark, ast.Call) and ast.unparse(mark.func).endswith("parametrize")):
            continue
        names = list(strings_in(mark.args[0]))
        names = names[0].replace(" ", "").split(",") if len(names) == 1 else names
        for row in getattr(mark.args[1], "elts", []):
            values = row.args if isinstance(row, ast.Call) else getattr(row, "elts", [])
            for name, value in zip(names, values if len(names) > 1 else [row], strict=False):
                columns.setdefault(name, []).append(value)
    return columns


def asserted_expressions(test: ast.FunctionDef) -> Iterator[ast.expr]:
    """Yield what `test` asserts and the patterns that its errors match."""
    for node in ast.walk(test):
        if isinstance(node, ast.Assert):
            yield node.test
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("raises", "warns")):
            yield from (keyword.value for keyword in node.keywords if keyword.arg == "match")


def quotes_a_sentence(test: ast.FunctionDef, *, constants: dict[str, ast.expr]) -> bool:
    values = {name: [value] for name, value in constants.items()} | parameter_columns(test)
    for expression in asserted_expressions(test):
        # What a call is given is the input, and so is the same text in the result.
        inputs = {
            node.id
            for call in ast.walk(expression)
            if isinstance(call, ast.Call)
            for argument in (*call.args, *(keyword.value for keyword in call.keywords))
            for node in ast.walk(argument)
            if isinstance(node, ast.Name)
        }
        named = [
            value
            for node in ast.walk(expression)
            if isinstance(node, ast.Name) and node.id not in inputs
            for value in values.get(node.id, [])
        ]
        if any(is_sentence(text) for node in (expression, *named) for text in strings_in(node)):
            return True
    return False


def quoting_tests(path: str) -> list[str]:
    """Return the tests of a module that quote a sentence."""
    tree = tree_of(path)
    constants = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return [
        f"{path}::{node.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and quotes_a_sentence(node, constants=constants)
    ]


@pytest.mark.parametrize("tier", CEILINGS)
def test_few_tests_quote_a_sentence(tier: str) -> None:
    quoting = [test for path in python_files(f"tests/{tier}") for test in quoting_tests(path)]
    assert len(quoting) <= CEILINGS[tier], "\n".join(quoting)


def test_every_tier_has_a_ceiling() -> None:
    tiers = {PurePath(path).parts[1] for path in python_files("tests") if "/test_" in path}
    assert tiers == set(CEILINGS)


@pytest.mark.parametrize(
    ("source", "is_quoted"),
    [
        ('assert "the store takes no results" in text', True),
        ('assert f"the store {name} takes no results" in text', True),
        ("assert text == WORDS", True),
        ('with pytest.raises(X, match="the store takes no results"): f()', True),
        ("with pytest.raises(X, match=given): f()", True),
        ("assert text == other", False),
        ("assert f(given) == given", False),
        ('assert code == 0, "the store takes no results"', False),
        ('assert "hud run --suite quick with many words" in text', False),
        ('assert """<div class="row">three</div>""" in text', False),
        ("f('the store takes no results')", False),
    ],
)
def test_only_asserted_sentences_count(source: str, is_quoted: bool) -> None:
    mark = '@pytest.mark.parametrize(("given", "other"), [("one two three four", "a")])'
    tree = ast.parse(f"{mark}\ndef test_x(given, other):\n    {source}")
    words = ast.Constant("the store takes no results")
    assert isinstance(tree.body[0], ast.FunctionDef)
    assert quotes_a_sentence(tree.body[0], constants={"WORDS": words}) is is_quoted


@pytest.mark.parametrize("tier", NAMED_TIERS)
def test_names_of_tests_state_the_property_in_plain_words(tier: str) -> None:
    names = [
        f"{path}::{node.name}"
        for path in python_files(f"tests/{tier}")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    assert [name for name in names if NO_PROPERTY & set(name.split("_"))] == []
