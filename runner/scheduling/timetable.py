"""When scheduled suites are due and overdue."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta, timezone

from apscheduler.triggers.cron import CronTrigger

from compile_hud.runner.analysis.outcomes.cadence import Timetable
from compile_hud.runner.config.schedules import Schedule
from compile_hud.runner.workspace import Workspace


def timetable_of(workspace: Workspace) -> Timetable:
    """Return when the scheduled suites are overdue on this machine, and the present time."""
    config = workspace.config
    return make_timetable(
        config.schedules, machine=config.machine, now=workspace.dependencies.now()
    )


def make_timetable(schedules: Mapping[str, Schedule], *, machine: str, now: datetime) -> Timetable:
    """Return when the scheduled suites are overdue on `machine`.

    A suite is overdue half a cadence after its due time: a run waits for its turn, and a missed
    night is measured once the machine is up. Of several schedules of one suite and toolchain, the
    first to fire counts.
    """

    def late_from(suite: str, toolchain: str, last: datetime) -> datetime | None:
        limits = [
            _limit(schedule, last=last)
            for schedule in schedules.values()
            # A run that a change triggers is never overdue.
            if schedule.cron and (schedule.suite, schedule.toolchain) == (suite, toolchain)
        ]
        return min(limits, default=None)

    return Timetable(machine=machine, now=now, late_from=late_from)


def _limit(schedule: Schedule, *, last: datetime) -> datetime:
    due, after = itertools.islice(fire_times(schedule, after=last), 2)
    return due + (after - due) / 2


def fire_times(schedule: Schedule, *, after: datetime) -> Iterator[datetime]:
    """Yield, in UTC, the endless times at which `schedule` fires from a second after `after` on.

    A time that occurs twice in a night when clocks go back counts once: both have one key in the
    queue.
    """
    trigger = CronTrigger.from_crontab(schedule.cron, timezone=schedule.timezone)
    at = after
    while True:
        # The step is in UTC: after clocks go back, a second later can be an hour earlier in local
        # time.
        at = at.astimezone(timezone.utc) + timedelta(seconds=1)
        fire_time: datetime = trigger.get_next_fire_time(None, at)
        at = fire_time
        if not fire_time.fold:
            yield fire_time.astimezone(timezone.utc)
