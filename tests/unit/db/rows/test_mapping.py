"""Only values that no database stores are replaced."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from hypothesis import given

from compile_hud.db.rows.mapping import clean_json, clean_text, utc, utc_or_none
from tests.support.builders import START
from tests.support.strategies import JSON_OBJECTS, TEXT


def test_nul_and_lone_surrogates_are_replaced() -> None:
    assert clean_text("a\0b\udcffc") == "a\ufffdb?c"


@given(text=TEXT)
def test_other_text_stays(text: str) -> None:
    assert clean_text(text) == text


@given(value=JSON_OBJECTS)
def test_other_json_stays(value: dict[str, object]) -> None:
    assert clean_json(value) == value


def test_json_is_cleaned_at_every_depth() -> None:
    assert clean_json({"a\0": [{1: ("\0", float("inf"))}]}) == {
        "a\ufffd": [{"1": ["\ufffd", "inf"]}]
    }


def test_times_are_given_in_utc() -> None:
    elsewhere = START.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert utc(elsewhere).tzinfo is timezone.utc
    assert utc(elsewhere) == utc_or_none(elsewhere) == START
    assert utc_or_none(None) is None
    assert isinstance(utc(elsewhere), datetime)
