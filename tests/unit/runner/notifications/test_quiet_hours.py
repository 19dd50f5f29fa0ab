"""Quiet hours and weekly times are those of the clock on the wall."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.config.notifications import quiet_hours
from compile_hud.runner.notifications.quiet_hours import DAYS, Quiet, QuietRule, weekly_time
from tests.support.errors import value_error_of

BERLIN = "Europe/Berlin"


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


def is_quiet(hours: str | list[str], at: str, *, zone: str = "UTC") -> bool:
    rule = QuietRule(hours=quiet_hours(hours), timezone=zone)
    return rule.at(utc(at)) is Quiet.NONE


def test_hours_over_midnight_begin_in_the_evening_and_end_in_the_morning() -> None:
    are_quiet = [
        is_quiet("22:00-07:00", f"2026-01-05 {time}")
        for time in ("21:59", "22:00", "00:00", "06:59", "07:00")
    ]
    assert are_quiet == [False, True, True, True, False]


def test_hours_of_a_day_end_on_it() -> None:
    are_quiet = [
        is_quiet("12:00-13:00", f"2026-01-05 {time}") for time in ("11:59", "12:00", "13:00")
    ]
    assert are_quiet == [False, True, False]


def test_a_night_belongs_to_the_day_on_which_it_begins() -> None:
    # 2026-01-09 is a Friday.
    assert is_quiet("fri 22:00-07:00", "2026-01-10 06:00")
    assert not is_quiet("fri 22:00-07:00", "2026-01-09 06:00")
    assert is_quiet("sun 22:00-07:00", "2026-01-12 06:00")


def test_days_are_listed_or_run_from_one_to_another_past_sunday_too() -> None:
    days = [f"2026-01-{5 + number:02} 12:00" for number in range(7)]
    assert [is_quiet("sat,sun 00:00-24:00", day) for day in days] == [False] * 5 + [True] * 2
    assert [is_quiet("sat-mon 00:00-24:00", day) for day in days] == [True] + [False] * 4 + [
        True
    ] * 2
    both = ["mon-fri 18:00-08:00", "sat,sun 00:00-24:00"]
    assert [is_quiet(both, day) for day in days] == [False] * 5 + [True] * 2


def test_the_clock_on_the_wall_counts_in_summer_and_in_winter() -> None:
    assert is_quiet("22:00-07:00", "2026-01-05 05:59", zone=BERLIN)
    assert not is_quiet("22:00-07:00", "2026-01-05 06:00", zone=BERLIN)
    assert is_quiet("22:00-07:00", "2026-07-05 04:59", zone=BERLIN)
    assert not is_quiet("22:00-07:00", "2026-07-05 05:00", zone=BERLIN)


def test_an_hour_that_there_is_twice_is_quiet_twice_and_one_that_is_not_there_never() -> None:
    # 02:00 to 03:00 in Berlin: twice on 2026-10-25, never on 2026-03-29.
    twice = [is_quiet("02:00-03:00", f"2026-10-25 {h:02}:30", zone=BERLIN) for h in range(4)]
    assert twice == [True, True, False, False]
    never = [is_quiet("02:00-03:00", f"2026-03-29 {h:02}:30", zone=BERLIN) for h in range(4)]
    assert never == [False] * 4


def test_what_is_severe_comes_through_by_setting() -> None:
    rule = QuietRule(hours=quiet_hours("22:00-07:00"), severe_any_time=True)
    assert rule.at(utc("2026-01-05 23:00")) is Quiet.SEVERE
    assert rule.at(utc("2026-01-05 12:00")) is Quiet.ALL
    assert QuietRule().at(utc("2026-01-05 12:00")) is Quiet.ALL


@pytest.mark.parametrize(
    "value",
    ["", "22:00", "22:00-22:00", "24:00-07:00", "22:60-07:00", "25:00-07:00", "abc 22:00-07:00",
     "mon- 22:00-07:00,", ["22:00-07:00", "x"], 22, "mon-xyz 22:00-07:00", "22:00-07:00\n",
     "22:00-07:0\uff11"],
)  # fmt: skip
def test_invalid_quiet_hours_are_refused(value: object, words: SnapshotAssertion) -> None:
    assert str(value_error_of(quiet_hours, value)) == words


@pytest.mark.parametrize(
    "value", ["", "mon", "09:00", "monday 09:00", "mon 24:00", "mon 9:00", "mon 09:0\uff11", 3]
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


@given(
    days=st.sets(st.sampled_from(DAYS), min_size=1),
    start=st.integers(0, 1439),
    end=st.integers(0, 1440),
)
def test_hours_as_text_are_the_same_hours(days: set[str], start: int, end: int) -> None:
    assume(start != end)
    times = [f"{minute // 60:02}:{minute % 60:02}" for minute in (start, end)]
    (hours,) = quiet_hours(f"{','.join(days)} {'-'.join(times)}")
    assert quiet_hours(str(hours)) == (hours,)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("mon-fri 18:00-08:00", "mon-fri 18:00-08:00"),
        ("sun,sat 00:00-24:00", "sat,sun 00:00-24:00"),
        ("mon-sun 22:00-07:00", "22:00-07:00"),
        ("fri,mon-wed 01:05-02:00", "mon-wed,fri 01:05-02:00"),
    ],
)
def test_days_as_text_are_ranges_or_a_list(value: str, text: str) -> None:
    assert [str(item) for item in quiet_hours(value)] == [text]


def test_a_weekly_time_as_text_is_that_of_hud_toml() -> None:
    for text in ("mon 09:00", "sun 23:59"):
        assert str(weekly_time(text)) == text
