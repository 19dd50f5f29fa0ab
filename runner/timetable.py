"""What the schedules say about when suites should run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from apscheduler.triggers.cron import CronTrigger

from runner.analysis.cadence import Timetable
from runner.config import Schedule
from runner.wiring import Workplace


def timetable_of(workplace: Workplace) -> Timetable:
    """Return when the scheduled suites are late on this machine, and the present time."""
    config = workplace.config
    return make_timetable(config.schedules, machine=config.machine, now=workplace.seams.now())


def make_timetable(schedules: Mapping[str, Schedule], *, machine: str, now: datetime) -> Timetable:
    """Return when the scheduled suites are late on `machine`.

    A suite is late half a cadence after it should have begun again: a run waits for its turn, and
    a night that was missed is measured as soon as the machine is up. With several schedules of one
    suite and toolchain the first to fire counts.
    """

    def late_from(suite: str, toolchain: str, last: datetime) -> datetime | None:
        limits = [
            _limit(schedule, last=last)
            for schedule in schedules.values()
            if (schedule.suite, schedule.toolchain) == (suite, toolchain)
        ]
        return min(limits, default=None)

    return Timetable(machine=machine, now=now, late_from=late_from)


def _limit(schedule: Schedule, *, last: datetime) -> datetime:
    trigger = CronTrigger.from_crontab(schedule.cron, timezone=schedule.timezone)
    due = trigger.get_next_fire_time(None, last + timedelta(seconds=1))
    after = trigger.get_next_fire_time(due, due + timedelta(seconds=1))
    limit: datetime = due + (after - due) / 2
    return limit
