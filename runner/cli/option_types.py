"""Parameter types: the values of options and arguments."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from typing import Any, TypeVar

import click

from compile_hud.db.shared.text import printable, quoted, shortened
from compile_hud.models_zoo.catalog.spec import near_names

NONE = "none"
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}
_SHORT_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_SHORT_DURATION = re.compile(r"([0-9]{1,6})([smhd])")
_DATE = re.compile(r"\d{4}-?\d{2}-?\d{2}")
_DURATION = re.compile(r"([0-9]+)([hdw])")
# Enough of a duration to recognise it.
_SHOWN_DIGITS = 40
_Value = TypeVar("_Value")


class NearestChoice(click.Choice[str]):
    """One of some names; an error suggests those that are like the typed one."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        """Return the message of click with a suggestion."""
        text = super().get_invalid_choice_message(value, ctx)
        near = near_names(str(value), self.choices)
        return f"{text} Did you mean {near}?" if near else text


class StoredText(click.ParamType[str]):
    """A text that is stored and shown later: a terminal would follow its control characters."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return `value` if it is printable; a value in no UTF-8 is refused with the others."""
        text = value.encode(errors="ignore").decode()
        if printable(text, allowed="\n\t") != text:
            self.fail(f"{quoted(value)} has control characters", param, ctx)
        return str(value)


class Percentage(click.ParamType[float]):
    """`5%` or `0.05`."""

    name = "percentage"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the fraction that `value` stands for."""
        if isinstance(value, float):
            return value
        text = str(value).strip()
        try:
            number = float(text.rstrip("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            number = -1.0
        if not 0 < number < 1:
            self.fail(f"{value!r} is neither like 5% nor like 0.05", param, ctx)
        return number


class DateTimeType(click.ParamType[datetime]):
    """A time as ISO 8601 writes it; without a time zone it is UTC."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """Return the time that `value` stands for, in UTC."""
        if isinstance(value, datetime):
            return value
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is no time like 2026-01-31 or 2026-01-31T02:30", param, ctx)
        if moment.tzinfo is None:
            return moment.replace(tzinfo=timezone.utc)
        return moment.astimezone(timezone.utc)


class Duration(click.ParamType[timedelta]):
    """A length of time such as `90s`, `12m` or `8h`, above 0."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        """Return the length of time that `value` stands for."""
        if isinstance(value, timedelta):
            return value
        match = _SHORT_DURATION.fullmatch(str(value).strip())
        length = (
            timedelta() if match is None else timedelta(**{_SHORT_UNITS[match[2]]: int(match[1])})
        )
        if length <= timedelta():
            self.fail(f"{value!r} is no length of time like 90s, 12m or 8h", param, ctx)
        return length


class TimeOrDuration(click.ParamType[datetime | timedelta]):
    """A time, or a duration from now such as `12h`, `3d` or `2w`."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime | timedelta:
        """Return the time or the duration that `value` stands for."""
        if isinstance(value, timedelta):
            return value
        match = _DURATION.fullmatch(str(value))
        if match is None:
            try:
                return DateTimeType().convert(value, param, ctx)
            except click.BadParameter as error:
                self.fail(f"{error.message}, nor a duration like 3d", param, ctx)
        try:
            return timedelta(**{_UNITS[match[2]]: int(match[1])})
        # Python reads no number of thousands of digits, which is a ValueError.
        except (OverflowError, ValueError):
            text = shortened(str(value), limit=_SHOWN_DIGITS)
            self.fail(f"{text!r} is too long; give a date, or fewer days such as 30d", param, ctx)


class LastMoment(TimeOrDuration):
    """The end of a range: a time, a duration before now, or a date, which is in it whole."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime | timedelta:
        """Return the time or the duration that `value` stands for."""
        moment = super().convert(value, param, ctx)
        if not isinstance(moment, datetime) or _DATE.fullmatch(str(value)) is None:
            return moment
        try:
            return moment + timedelta(days=1, microseconds=-1)
        except OverflowError:
            self.fail(f"{value!r} is too late", param, ctx)


class OrNone(click.ParamType[_Value | str]):
    """The values of `kind`, or `none`."""

    def __init__(self, kind: click.ParamType[_Value]) -> None:
        """Parse every value except `none` with `kind`."""
        self.name = kind.name
        self._kind = kind

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> _Value | str:
        """Return the value, or NONE."""
        if value == NONE:
            return NONE
        try:
            return self._kind.convert(value, param, ctx)
        except click.BadParameter as error:
            self.fail(f"{error.message}, nor is it {NONE!r}", param, ctx)
