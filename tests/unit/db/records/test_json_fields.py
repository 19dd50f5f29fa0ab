"""The errors of invalid fields."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

from compile_hud.db.errors import RecordError
from compile_hud.db.records.json_fields import (
    get_counts,
    get_list,
    get_mapping,
    get_name,
    get_number,
    get_numbers,
    get_text,
    get_time,
)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1, "a number"),
        (1.5, "a number"),
        (True, "true or false"),
        (None, "null"),
        ([1], "a list"),
        ({}, "an object"),
    ],
)
def test_a_field_of_another_kind_is_reported_by_its_json_name(value: Any, kind: str) -> None:
    with pytest.raises(RecordError, match=f"^field 'x' must be a string, got {kind}$"):
        get_text({"x": value}, "x")


@pytest.mark.parametrize("get", [get_list, get_mapping, get_number, get_numbers])
def test_a_string_is_no_other_kind(get: Any) -> None:
    with pytest.raises(RecordError, match=r"^field 'x' must be an? .+, got a string$"):
        get({"x": "1"}, "x")


def test_what_holds_no_fields_is_reported_with_the_one_that_is_required() -> None:
    with pytest.raises(RecordError, match="^expected an object with field 'x', got a list$"):
        get_text([], "x")


def test_numbers_hold_nothing_but_numbers() -> None:
    with pytest.raises(RecordError, match="^field 'x' must hold numbers only, got null$"):
        get_numbers({"x": [1, None]}, "x")


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "\udfffb"])
def test_a_name_stays_as_it_is_or_is_refused(text: str) -> None:
    message = rf"^field 'x' is {re.escape(repr(text))}: no name has a NUL character, or half of one"
    with pytest.raises(RecordError, match=message):
        get_name({"x": text}, "x")
    assert get_text({"x": text}, "x") == text
    assert get_name({"x": "\U0001f525 \n\t"}, "x") == "\U0001f525 \n\t"


def test_a_number_that_no_float_has_is_refused() -> None:
    for get, value in ((get_number, 10**400), (get_numbers, [1, 10**400])):
        with pytest.raises(RecordError, match=r"^field 'x' is too large a number: 1000+\.\.\.$"):
            get({"x": value}, "x")


def test_counts_are_whole_numbers() -> None:
    assert get_counts({"x": [0, 3, 2.0]}, "x") == (0, 3, 2)
    assert get_counts({}, "x") == ()
    for wrong in (-1, 1.5, math.nan, math.inf, True, "1", None):
        with pytest.raises(RecordError, match=rf"^field 'x' must hold counts only, got {wrong!r}$"):
            get_counts({"x": [1, wrong]}, "x")


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00"])
def test_a_time_that_is_none_in_utc_is_refused(text: str) -> None:
    with pytest.raises(RecordError, match="^field 'x' is '.+', in UTC beyond any year$"):
        get_time({"x": text}, "x")
