"""Text for terminals, and the format of changes."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.shared.text import (
    counted,
    counted_of,
    listed,
    none_of,
    one_line,
    percent_interval,
    plain,
    printable,
    ratio_interval,
    signed,
    signed_percent,
)


@pytest.mark.parametrize("sign", ["\x1b", "\x07", "\r", "\x9b", "\u202e", "\0"])
def test_a_sign_that_steers_a_terminal_is_replaced(sign: str) -> None:
    assert printable(f"a{sign}[31mb") == "a?[31mb"


@pytest.mark.parametrize(
    "text", ["bert", "two\nlines", "a [b] & c", "\u00e4\u4e2d", "B\u00fcro\u00a01"]
)
def test_text_stays(text: str) -> None:
    assert printable(text) == text


def test_signs_that_a_caller_does_not_keep_are_replaced() -> None:
    assert printable("two\nlines", allowed="") == "two?lines"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("  ada \r\n lovelace\t", "ada lovelace"),
        ("\x1b[31mred\x1b[0m\udcff", "?[31mred?[0m?"),
        ("\u00e4\u4e2d [b]", "\u00e4\u4e2d [b]"),
        (" \n", ""),
    ],
)
def test_typed_text_becomes_one_line(text: str, line: str) -> None:
    assert one_line(text) == line


@pytest.mark.parametrize(
    ("change", "text"),
    [(0.2134, "+21.3 %"), (-0.03, "-3.0 %"), (-0.0004, "0.0 %"), (4e-4, "0.0 %")],
)
def test_what_rounds_to_zero_has_no_sign(change: float, text: str) -> None:
    assert signed_percent(change) == text


def test_the_interval_of_a_change_carries_signs() -> None:
    assert percent_interval((-1.26, 4.0)) == "[-1.3, +4.0] %"


def test_a_ratio_has_an_interval_where_its_ends_differ() -> None:
    assert ratio_interval(1.198, 1.229) == "[+19.8, +22.9] %"
    assert ratio_interval(1.2, 1.2) == ""
    assert ratio_interval(None, 1.2) == ratio_interval(1.2, None) == ""


def test_decimals_say_where_it_is_rounded() -> None:
    assert (signed(-0.4, decimals=0), signed(-0.04, decimals=2)) == ("0", "-0.04")


@pytest.mark.parametrize(
    ("number", "noun", "text"),
    [
        (1, "run", "1 run"),
        (0, "run", "no runs"),
        (2, "launch", "2 launches"),
        (3, "other process", "3 other processes"),
        (2, "entry", "2 entries"),
        (2, "day", "2 days"),
    ],
)
def test_a_noun_agrees_with_its_number(number: int, noun: str, text: str) -> None:
    assert counted(number, noun) == text


def test_a_part_is_counted_in_the_noun_of_the_whole() -> None:
    assert counted_of(1, 3, "case") == "1 of 3 cases"
    assert counted_of(0, 0, "case") == "0 of 0 cases"
    assert counted_of(0, 1, "case") == "0 of 1 case"


def test_a_sentence_on_no_thing_is_right_for_one_and_for_many(
    words: SnapshotAssertion,
) -> None:
    assert [none_of(number, "row") for number in (1, 1234)] == words
    assert [none_of(number, "model", where="here", verb="contain") for number in (1, 2)] == words


def test_names_beyond_the_limit_are_counted() -> None:
    assert listed(("a", "b"), limit=2) == "a, b"
    assert listed(["a", "b", "c", "d"], limit=2) == "a, b and 2 more"
    assert listed([], limit=2) == ""


@pytest.mark.parametrize(
    ("value", "text"),
    [(1_000_000, "1000000"), (12_345_678.0, "12345678"), (0.25, "0.25"), (float("inf"), "inf")],
)
def test_a_count_is_shown_in_full(value: float, text: str) -> None:
    assert plain(value) == text
