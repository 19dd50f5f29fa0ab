from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from compile_hud.runner.analysis.outcomes.cadence import cadence_of, late_from
from compile_hud.runner.config.schedules import Schedule
from compile_hud.runner.scheduling.timetable import make_timetable
from tests.support.records.histories import night

DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("nights", "days"),
    [
        ([0], None),
        ([], None),
        ([0, 7], 7),
        ([0, 1, 2, 3, 4, 5, 6], 1),
        # Monday to Friday.
        ([0, 1, 2, 3, 4, 7, 8, 9, 10, 11, 14], 3),
        # One holiday.
        ([0, 1, 2, 3, 13, 14, 15], 1),
        # What it did before its last ten gaps.
        ([0, 7, 14, *range(15, 26)], 1),
    ],
)
def test_cadence_follows_from_the_gaps(nights: list[int], days: int | None) -> None:
    cadence = cadence_of([night(number) for number in nights])
    assert cadence == (None if days is None else days * DAY)


def test_late_is_half_a_cadence_after_it_was_due() -> None:
    assert late_from([night(0), night(7)]) == night(7) + 10.5 * DAY
    assert late_from([night(0)]) is None


def schedule(cron: str, *, suite: str = "nightly", toolchain: str = "stable") -> Schedule:
    return Schedule(name=cron, cron=cron, timezone="UTC", suite=suite, toolchain=toolchain)


def limit(*schedules: Schedule, last: datetime) -> datetime | None:
    timetable = make_timetable({item.name: item for item in schedules}, machine="box", now=last)
    return timetable.late_from("nightly", "stable", last)


def at(day: int, hour: int, minute: int = 0) -> datetime:
    return datetime(2026, 6, day, hour, minute, tzinfo=timezone.utc)


def test_nightly_suite_is_late_half_a_day_after_its_next_firing() -> None:
    assert limit(schedule("30 2 * * *"), last=at(1, 2, 31)) == at(2, 14, 30)


def test_weekly_suite_is_late_after_a_week_and_a_half() -> None:
    # The first of June 2026 is a Monday.
    assert limit(schedule("0 2 * * mon"), last=at(1, 2)) == at(11, 14)


def test_weekend_of_a_suite_on_weekdays_is_no_lateness() -> None:
    assert limit(schedule("0 2 * * mon-fri"), last=at(5, 2)) == at(8, 14)


def test_first_of_several_schedules_counts() -> None:
    both = (schedule("0 2 * * mon"), schedule("0 2 * * *"))
    assert limit(*both, last=at(1, 2)) == at(2, 14)


def test_other_suites_and_toolchains_have_no_schedule() -> None:
    others = (schedule("0 2 * * *", suite="quick"), schedule("0 3 * * *", toolchain="nightly"))
    assert limit(*others, last=at(1, 2)) is None
