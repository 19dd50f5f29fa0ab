"""Docstrings and comments are short sentences with a subject, in standard words."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

import pytest

from tests.support.sources import python_files, text_of, tree_of

# Participles for things, and pronouns for components: the noun is missing beside each of them.
BANNED = {
    "whoever", "nobody", "somebody", "shall", "beside", "told", "held", "kept", "lost", "found",
    "wanted", "asked", "said", "place", "around",
}  # fmt: skip
# A clause without a head ("Return what is stored", "Where the page leads") names no thing.
HEADLESS = re.compile(
    r"((return|yield) )?(what|whatever|where|how|who|whoever|whose|which|why)\b|whether\b",
    re.IGNORECASE,
)
MAX_WORDS = 25
# Folder -> passages that break a rule. A ceiling only goes down.
CEILINGS = {
    ".ci": 0,
    "app": 0,
    "benchmarks": 0,
    "db": 0,
    "docs": 0,
    "models_zoo": 0,
    "runner": 0,
    "tests/support": 0,
}
_PRAGMA = re.compile(r"\s*(noqa|type:|pragma|ruff:|fmt:|codespell|mypy:|!/)")
_CODE = re.compile(r"``?[^`]*``?")
_TREE = "|--"
_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def faults(passage: str) -> list[str]:
    """Return the broken rules of a docstring or a block of comments."""
    text = _CODE.sub("X", " ".join(passage.split()))
    words = {word.lower() for word in re.findall(r"[\w']+", text) if not word.isupper()}
    wrong = sorted(words & BANNED)
    for sentence in re.split(r"(?<=[.!?])\s+", text):
        if HEADLESS.match(sentence) and not sentence.endswith("?"):
            wrong.append("no head")
    if _TREE in text:
        return wrong
    plain = re.sub(r"\([^()]*\)", "", text)
    for clause in re.split(r"(?<=[.!?:;])\s+|(?:^|\s)- ", plain):
        if (number := len(clause.split())) > MAX_WORDS:
            wrong.append(f"{number} words")
    return wrong


def passages(name: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of each docstring and each block of comments."""
    for node in ast.walk(tree_of(name)):
        if isinstance(node, _DOCUMENTED) and (text := ast.get_docstring(node)):
            yield node.body[0].lineno, text
    yield from _comments(text_of(name))


def _comments(source: str) -> Iterator[tuple[int, str]]:
    block: list[str] = []
    start, last, column = 0, 0, -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or _PRAGMA.match(token.string[1:]):
            continue
        row, indent = token.start
        is_next = row == last + 1 and indent == column and not token.line[:indent].strip()
        if block and not is_next:
            yield start, " ".join(block)
            block = []
        if not block:
            start = row
        block.append(token.string.lstrip("# "))
        last, column = row, indent
    if block:
        yield start, " ".join(block)


@pytest.mark.parametrize(
    ("passage", "wrong"),
    [
        ("Return what is stored.", ["no head"]),
        ("A rule. Where it applies, nothing else does.", ["no head"]),
        ("What is a case?", []),
        ("Return whether the store is open.", []),
        ("The page that was found beside others.", ["beside", "found"]),
        ("The node of NODE_LOST, and `found` in code.", []),
        (f"{'word ' * 26}end.", ["27 words"]),
        (f"{'word ' * 20}: {'word ' * 20}.", []),
        (f"One.\n\n- {'word ' * 20}\n- {'word ' * 20}", []),
    ],
)
def test_a_broken_rule_is_noticed(passage: str, wrong: list[str]) -> None:
    assert faults(passage) == wrong


def test_lines_of_a_comment_are_one_passage() -> None:
    source = "# One\n# two.\nx = 1  # Three.\n# Four.\n\n# Five.\n"
    assert list(_comments(source)) == [
        (1, "One two."),
        (3, "Three."),
        (4, "Four."),
        (6, "Five."),
    ]


@pytest.mark.parametrize("folder", CEILINGS)
def test_passages_keep_the_rules(folder: str) -> None:
    wrong = [
        f"{name}:{line}: {', '.join(rules)}"
        for name in python_files(folder)
        for line, text in passages(name)
        if (rules := faults(text))
    ]
    assert len(wrong) <= CEILINGS[folder], "\n".join(wrong)


def test_docstrings_of_test_modules_keep_the_rules() -> None:
    wrong = [
        f"{name}: {', '.join(rules)}"
        for name in python_files("tests")
        if (rules := faults(ast.get_docstring(tree_of(name)) or ""))
    ]
    assert not wrong, "\n".join(wrong)
