"""The errors of invalid fields."""

from __future__ import annotations

import math
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.errors import RecordError
from compile_hud.db.records.json_fields import (
    get_bounds,
    get_counts,
    get_list,
    get_mapping,
    get_name,
    get_number,
    get_numbers,
    get_quantities,
    get_quantity,
    get_text,
    get_time,
    get_value,
)
from tests.support.errors import error_of


def parameters_of(get: Any, document: Any) -> dict[str, object]:
    """Return the parameters of the RecordError about field `x`."""
    with pytest.raises(RecordError) as caught:
        get(document, "x")
    return caught.value.parameters


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
    assert parameters_of(get_text, {"x": value}) == {
        "field": "x",
        "expected": "a string",
        "got": kind,
    }


@pytest.mark.parametrize(
    ("get", "expected"),
    [
        (get_list, "a list"),
        (get_mapping, "an object"),
        (get_number, "a number"),
        (get_numbers, "a list of numbers"),
    ],
)
def test_a_string_is_no_other_kind(get: Any, expected: str) -> None:
    assert parameters_of(get, {"x": "1"}) == {"field": "x", "expected": expected, "got": "a string"}


def test_a_list_has_no_fields() -> None:
    assert parameters_of(get_text, []) == {"field": "x", "expected": "an object", "got": "a list"}


def test_a_field_without_a_default_is_required() -> None:
    assert parameters_of(get_value, {}) == {"field": "x", "problem": "missing"}
    assert get_value({}, "x", default=1) == 1


def test_numbers_hold_nothing_but_numbers() -> None:
    assert parameters_of(get_numbers, {"x": [1, None]}) == {
        "field": "x",
        "expected": "numbers",
        "got": "null",
    }


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "\udfffb"])
def test_a_name_stays_as_it_is_or_is_refused(text: str) -> None:
    assert parameters_of(get_name, {"x": text}) == {
        "field": "x",
        "value": text,
        "problem": "not-storable",
    }
    assert get_text({"x": text}, "x") == text
    assert get_name({"x": "\U0001f525 \n\t"}, "x") == "\U0001f525 \n\t"


def test_a_number_that_no_float_has_is_refused() -> None:
    for get, value in ((get_number, 10**400), (get_numbers, [1, 10**400])):
        assert parameters_of(get, {"x": value}) == {
            "field": "x",
            "value": 10**400,
            "problem": "too-large",
        }


def test_counts_are_whole_numbers() -> None:
    assert get_counts({"x": [0, 3, 2.0]}, "x") == (0, 3, 2)
    assert get_counts({}, "x") == ()
    for wrong in (-1, 1.5, math.nan, math.inf, True, "1", None):
        parameters = parameters_of(get_counts, {"x": [1, wrong]})
        assert (parameters["expected"], repr(parameters["got"])) == ("counts", repr(wrong))


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00+05:00", "9999-12-31T23:59:59-05:00"])
def test_a_time_outside_the_years_of_utc_is_refused(text: str) -> None:
    assert parameters_of(get_time, {"x": text}) == {
        "field": "x",
        "value": text,
        "problem": "out-of-range",
    }


@pytest.mark.parametrize(
    ("text", "problem"), [("yesterday", "no-time"), ("2026-01-01T00:00:00", "no-time-zone")]
)
def test_a_time_is_iso_8601_with_a_time_zone(text: str, problem: str) -> None:
    assert parameters_of(get_time, {"x": text})["problem"] == problem


def test_messages_name_the_field_and_quote_its_value(words: SnapshotAssertion) -> None:
    calls: list[tuple[Any, Any]] = [
        (get_value, []),
        (get_value, {}),
        (get_text, {"x": 1}),
        (get_name, {"x": "a\0b"}),
        (get_number, {"x": "1"}),
        (get_number, {"x": 10**400}),
        (get_list, {"x": "1"}),
        (get_mapping, {"x": "1"}),
        (get_numbers, {"x": "1"}),
        (get_numbers, {"x": [1, None]}),
        (get_counts, {"x": [1, -1]}),
        (get_time, {"x": "yesterday"}),
        (get_time, {"x": "2026-01-01T00:00:00"}),
        (get_time, {"x": "9999-12-31T23:59:59-05:00"}),
    ]
    assert [str(error_of(get, document, "x")) for get, document in calls] == words


@pytest.mark.parametrize("value", [4e-315, -2e-200, 7e150, -1e308])
def test_a_number_that_no_measurement_can_have_is_refused_with_its_place(value: float) -> None:
    assert parameters_of(get_quantity, {"x": value}) == {
        "location": "field 'x'",
        "value": value,
        "problem": "out-of-range",
    }
    assert parameters_of(get_quantities, {"x": [0, 1.5, value]}) == {
        "location": "number 3 of field 'x'",
        "value": value,
        "problem": "out-of-range",
    }


def test_an_interval_may_begin_next_to_zero_and_not_end_beyond_all_quantities() -> None:
    assert get_bounds({"x": [-1e-300, 2.5]}, "x") == (-1e-300, 2.5)
    assert parameters_of(get_bounds, {"x": [0.5, 3e250]})["value"] == 3e250
    assert parameters_of(get_bounds, {"x": [0.5]})["got"] == 1
