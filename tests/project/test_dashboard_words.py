"""The names that dashboard and zoo share, and the length of the dashboard's texts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from compile_hud.app.data.mode_summaries import MODE_ORDER
from compile_hud.db.records import results
from compile_hud.models_zoo.catalog.variants import MODES
from tests.support.pages.page_elements import MAX_TEXT_WORDS, num_words
from tests.support.sources import documents, python_files, text_of, tree_of

_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def test_the_dashboard_orders_the_modes_of_the_zoo() -> None:
    assert MODE_ORDER == results.MODES == MODES


def texts_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and text of each string that is no docstring; of code that spans lines, none.

    A value in an f-string is a word.
    """
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, _DOCUMENTED) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if id(node) in docstrings:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = (item.value if isinstance(item, ast.Constant) else "X" for item in node.values)
            text = "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
        else:
            continue
        if "\n" not in text:
            yield node.lineno, re.sub("<[^>]*>", " ", text)


def too_long_texts_in(tree: ast.AST) -> list[tuple[int, int]]:
    """Return line and number of words of each text that has too many."""
    counts = ((line, num_words(text)) for line, text in texts_in(tree))
    return [(line, number) for line, number in counts if number > MAX_TEXT_WORDS]


@pytest.mark.parametrize("path", python_files("app"))
def test_no_text_of_a_page_is_longer_than_a_caption_may_be(path: str) -> None:
    """A longer text is two captions, two lines of a banner or two paragraphs."""
    assert too_long_texts_in(tree_of(path)) == []


def test_the_gesture_that_selects_a_part_of_the_time_has_one_name() -> None:
    """Charts and documents call it dragging; a brush is the word of Vega, in names of the code."""
    texts = [text for path in python_files("app") for _, text in texts_in(tree_of(path))]
    texts += [text_of(path) for path in documents() if path != "CHANGELOG.md"]
    assert [text for text in texts if re.search(r"\b[Bb]rush", text) and " " in text] == []


@pytest.mark.parametrize(
    ("source", "lines"),
    [
        (f"a = {'word ' * 25!r}", []),
        (f"a = {'word ' * 26!r}", [1]),
        (f"\na = f{'word ' * 25 + '{b} end'!r}", [2]),
        (f"a = f{'word ' * 23 + '{b}{c} end'!r}", []),
        (f"def f():\n    {'word ' * 30!r}", []),
        (f"a = 'names are {', '.join(['name'] * 30)}'", []),
        (f"a = {'<b class=x>' + 'word <i>' * 20!r}", []),
    ],
)
def test_words_of_texts_are_counted_without_docstrings_lists_and_markup(
    source: str, lines: list[int]
) -> None:
    assert [line for line, _ in too_long_texts_in(ast.parse(source))] == lines
