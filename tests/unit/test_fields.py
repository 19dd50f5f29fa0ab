"""What is said of a field that is not as it must be."""

from __future__ import annotations

from typing import Any

import pytest

from db.errors import RecordError
from db.fields import get_list, get_mapping, get_number, get_numbers, get_text


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
def test_a_field_of_another_kind_is_told_in_the_words_of_json(value: Any, kind: str) -> None:
    with pytest.raises(RecordError, match=f"^field 'x' must be a string, got {kind}$"):
        get_text({"x": value}, "x")


@pytest.mark.parametrize("get", [get_list, get_mapping, get_number, get_numbers])
def test_a_string_is_no_other_kind(get: Any) -> None:
    with pytest.raises(RecordError, match=r"^field 'x' must be an? .+, got a string$"):
        get({"x": "1"}, "x")


def test_what_holds_no_fields_is_told_with_the_one_that_is_wanted() -> None:
    with pytest.raises(RecordError, match="^expected an object with field 'x', got a list$"):
        get_text([], "x")


def test_numbers_hold_nothing_but_numbers() -> None:
    with pytest.raises(RecordError, match="^field 'x' must hold numbers only, got null$"):
        get_numbers({"x": [1, None]}, "x")
