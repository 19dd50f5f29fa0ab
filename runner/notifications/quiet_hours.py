"""Quiet hours of receivers and the time of weekly digests. Pure.

Both use the local time of a time zone: 07:00 is 07:00 in summer and in winter, and an hour that
occurs twice is quiet twice.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_MINUTES_A_DAY = 24 * 60
_TIME = r"([0-9]{2}):([0-9]{2})"
_HOURS = re.compile(rf"(?:([a-z,-]+) )?{_TIME}-{_TIME}")
_WEEKLY = re.compile(rf"([a-z]+) {_TIME}")


class Quiet(StrEnum):
    """The notifications that pass at a time."""

    ALL = "everybody"
    SEVERE = "severe"
    NONE = "nobody"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietHours:
    """Hours that begin on some weekdays (Monday is 0) at `start`, and end at `end`.

    Both in minutes after midnight; an end that is not after the start is that of the next day.
    """

    days: frozenset[int]
    start: int
    end: int

    def __str__(self) -> str:
        """Return the hours as in hud.toml, for the same days in one form."""
        hours = f"{_clock(self.start)}-{_clock(self.end)}"
        return hours if len(self.days) == len(DAYS) else f"{_days_text(self.days)} {hours}"

    def contains(self, local: datetime) -> bool:
        """Return whether the wall clock shows one of these hours."""
        minute = local.hour * 60 + local.minute
        day, day_before = local.weekday(), (local.weekday() - 1) % len(DAYS)
        if self.start < self.end:
            return day in self.days and self.start <= minute < self.end
        begun = day in self.days and minute >= self.start
        return begun or (day_before in self.days and minute < self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuietRule:
    """The quiet hours of a receiver, and whether severe notifications pass."""

    hours: Sequence[QuietHours] = ()
    timezone: str = "UTC"
    severe_any_time: bool = False

    def at(self, moment: datetime) -> Quiet:
        """Return the restriction at `moment`."""
        local = moment.astimezone(ZoneInfo(self.timezone))
        if not any(hours.contains(local) for hours in self.hours):
            return Quiet.ALL
        return Quiet.SEVERE if self.severe_any_time else Quiet.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class WeeklyTime:
    """A weekday (Monday is 0) and minutes after its midnight."""

    day: int
    minute: int

    def __str__(self) -> str:
        """Return the time as in hud.toml."""
        return f"{DAYS[self.day]} {_clock(self.minute)}"

    def last(self, moment: datetime, *, timezone: str) -> datetime:
        """Return the latest such time at or before `moment`."""
        zone = ZoneInfo(timezone)
        date = moment.astimezone(zone).date()
        date -= timedelta(days=(date.weekday() - self.day) % len(DAYS))
        hour, minute = divmod(self.minute, 60)
        time = datetime(date.year, date.month, date.day, hour, minute, tzinfo=zone)
        # The subtraction is in local time: twice a year a week is an hour longer or shorter.
        return time if time <= moment else time - timedelta(days=len(DAYS))


def weekly_time(value: Any) -> WeeklyTime:
    """Return a text such as "mon 09:00" as a time; raise ValueError otherwise."""
    match = _WEEKLY.fullmatch(value) if isinstance(value, str) else None
    minute = None if match is None else _minute(match[2], match[3])
    if match is None or match[1] not in DAYS or minute is None or minute == _MINUTES_A_DAY:
        raise ValueError('a weekday and a time such as "mon 09:00"')
    return WeeklyTime(day=DAYS.index(match[1]), minute=minute)


def parse_hours(value: str) -> QuietHours:
    match = _HOURS.fullmatch(value)
    days = None if match is None else _days(match[1])
    start = None if match is None else _minute(match[2], match[3])
    end = None if match is None else _minute(match[4], match[5])
    if not days or start is None or end is None or start in (end, _MINUTES_A_DAY):
        raise ValueError(
            'hours such as "22:00-07:00", or of some days such as "mon-fri 18:00-08:00" and'
            ' "sat,sun 00:00-24:00"'
        )
    return QuietHours(days=days, start=start, end=end)


def _days(text: str | None) -> frozenset[int]:
    """Return the days that `text` names, every one for None, none where it names another."""
    if text is None:
        return frozenset(range(len(DAYS)))
    days: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        if first not in DAYS or (last or first) not in DAYS:
            return frozenset()
        begin, num_after = DAYS.index(first), DAYS.index(last or first) - DAYS.index(first)
        days |= {(begin + step) % len(DAYS) for step in range(num_after % len(DAYS) + 1)}
    return frozenset(days)


def _minute(hour: str, minute: str) -> int | None:
    total = int(hour) * 60 + int(minute)
    return total if int(minute) < 60 and total <= _MINUTES_A_DAY else None


def _clock(minute: int) -> str:
    return "{:02}:{:02}".format(*divmod(minute, 60))


def _days_text(days: frozenset[int]) -> str:
    """Return weekdays as `mon-fri` or `sat,sun`; two neighbours are no range."""
    runs: list[list[int]] = []
    for day in sorted(days):
        if runs and runs[-1][-1] == day - 1:
            runs[-1].append(day)
        else:
            runs.append([day])
    return ",".join(
        f"{DAYS[run[0]]}-{DAYS[run[-1]]}" if len(run) > 2 else ",".join(DAYS[day] for day in run)
        for run in runs
    )
