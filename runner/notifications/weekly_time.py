"""The time of weekly digests in a time zone: 07:00 is 07:00 in summer and in winter. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WEEKLY = re.compile(r"([a-z]+) ([0-9]{2}):([0-9]{2})")


@dataclass(frozen=True, slots=True, kw_only=True)
class WeeklyTime:
    """A weekday (Monday is 0) and minutes after its midnight."""

    day: int
    minute: int

    def __str__(self) -> str:
        """Return the time as in hud.toml."""
        hour, minute = divmod(self.minute, 60)
        return f"{DAYS[self.day]} {hour:02}:{minute:02}"

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
    if match is not None and match[1] in DAYS and match[2] < "24" and match[3] < "60":
        return WeeklyTime(day=DAYS.index(match[1]), minute=60 * int(match[2]) + int(match[3]))
    raise ValueError('a weekday and a time such as "mon 09:00"')
