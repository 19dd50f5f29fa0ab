"""A number and its noun agree: `counted(number, "row")` writes `1 row`, `2 rows` and `no rows`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.support.sources import python_files, text_of, tree_of

PACKAGES = ("app", "db", "models_zoo", "runner")
NOUNS = """
    CPUs GPUs alerts annotations answers arguments attempts bytes calls cases cells changes
    characters checks
    columns combinations commits comparisons compilations cores counters days dimensions documents
    entries events facts failures files functions graphs groups hours integers items iterations
    jobs kernels launches layers levels lines logs machines messages minutes mixtures modes models
    nights notifications numbers outputs packages pairs parts points processes readings recompiles
    records registers releases results revisions rounds rows runs samples seconds series sessions
    shapes signs spans steps streams tensors texts things threads times toolchains traces trials
    units values warnings ways words
"""
NOUN_AFTER_NUMBER = re.compile(rf" (?:[a-z]+ ){{0,2}}?(?:{'|'.join(NOUNS.split())})\b")
# After these words the noun is no longer what is counted: `{alert} has two runs`.
OTHER_PHRASE = re.compile(
    r" (?:[a-z]+ )?(?:and|are|at|by|for|gets|had|has|have|in|is|must|no|of|on|or|takes|the|to|was"
    r"|were|while|with|writes)\b"
)
# Names of values that are texts.
TEXTS = (
    *("calls", "did", "here", "metric", "name", "receiver", "shown", "text", "title", "value"),
    "verb",
)


def is_whole_number(value: ast.FormattedValue) -> bool:
    """Return whether a value may be the number 1: no constant, text or number with decimals."""
    if value.format_spec is not None and ast.unparse(value.format_spec) != "f','":
        return False
    expression = value.value
    if isinstance(expression, ast.Call):
        return ast.unparse(expression.func) in ("len", "sum", "max", "min")
    parts = ast.unparse(expression).split(".")
    is_text = parts[-1] in TEXTS or parts[-1].endswith("_id")
    return not is_text and not any(part.strip("_").isupper() for part in parts)


def counts_without_agreement(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and words of each number that an f-string prints before a plural noun."""
    for text in ast.walk(tree):
        if not isinstance(text, ast.JoinedStr):
            continue
        for value, words in zip(text.values, text.values[1:], strict=False):
            if (
                isinstance(value, ast.FormattedValue)
                and isinstance(words, ast.Constant)
                and (noun := NOUN_AFTER_NUMBER.match(words.value))
                and not OTHER_PHRASE.match(noun.group())
                and is_whole_number(value)
            ):
                yield value.lineno, f"{{{ast.unparse(value.value)}}}{noun.group()}"


LOGGED_NUMBER = re.compile(rf"%d{NOUN_AFTER_NUMBER.pattern}")


def parsed(text: str) -> ast.Module:
    return ast.parse(f'f"{text}"')


@pytest.mark.parametrize("package", PACKAGES)
def test_each_printed_number_agrees_with_its_noun(package: str) -> None:
    names = python_files(package)
    seen = {name: [*counts_without_agreement(tree_of(name))] for name in names}
    assert {name: places for name, places in seen.items() if places} == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_each_logged_number_agrees_with_its_noun(package: str) -> None:
    matches = {name: LOGGED_NUMBER.findall(text_of(name)) for name in python_files(package)}
    assert {name: texts for name, texts in matches.items() if texts} == {}


@pytest.mark.parametrize(
    "text",
    [
        "{num_new} changes replayed",
        "{len(rows)} more rows",
        "{num_done} of {num_planned} cases",
        "{size.num_rows:,} rows",
        "{num_cpus} CPUs, load",
        "{holder.num_bytes:,} bytes",
    ],
)
def test_a_number_before_a_plural_is_seen(text: str) -> None:
    assert len([*counts_without_agreement(parsed(text))]) == 1


@pytest.mark.parametrize(
    "text",
    [
        "{counted(num_new, 'change')} replayed",
        "at most {MAX_RUNS} runs",
        "{change:.1f} points",
        "{name} must hold numbers",
        "run {bound.run_id} kept files",
        "{alert.metric} was measured in two runs",
    ],
)
def test_constants_decimals_and_texts_are_no_counts(text: str) -> None:
    assert [*counts_without_agreement(parsed(text))] == []
