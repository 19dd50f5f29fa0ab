"""Weekly times are those of the clock on the wall."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.notifications.weekly_time import weekly_time
from tests.support.errors import value_error_of

BERLIN = "Europe/Berlin"


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


@pytest.mark.parametrize(
    "value",
    ["", "mon", "09:00", "monday 09:00", "mon 24:00", "mon 09:60", "mon 9:00", "mon 09:0\uff11", 3],
)
def test_an_invalid_weekly_time_is_refused(value: object, words: SnapshotAssertion) -> None:
    assert str(value_error_of(weekly_time, value)) == words


def test_the_last_time_of_a_week() -> None:
    monday = weekly_time("mon 09:00")
    texts = [
        monday.last(utc(at), timezone="UTC").strftime("%m-%d %H:%M")
        for at in ("2026-01-05 08:59", "2026-01-05 09:00", "2026-01-11 23:00")
    ]
    assert texts == ["12-29 09:00", "01-05 09:00", "01-05 09:00"]


@given(st.integers(0, 400 * 24 * 4), st.sampled_from(["mon 09:00", "sun 02:30", "wed 00:00"]))
def test_each_week_has_one_time_in_every_zone(quarters: int, text: str) -> None:
    at = utc("2026-01-01") + timedelta(minutes=15 * quarters)
    last = weekly_time(text).last(at, timezone=BERLIN)
    assert at - timedelta(days=7, hours=1) <= last <= at
    assert last.strftime("%a %H:%M").lower() == text
    before = weekly_time(text).last(last - timedelta(hours=2), timezone=BERLIN)
    assert (last.date() - before.date()).days == 7


def test_a_weekly_time_as_text_is_that_of_hud_toml() -> None:
    for text in ("mon 09:00", "sun 23:59"):
        assert str(weekly_time(text)) == text
