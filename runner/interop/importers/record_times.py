"""Times of records: seconds or milliseconds since 1970, or a date with a time of day."""

from __future__ import annotations

import contextlib
import re
from datetime import datetime, timezone
from typing import Any

from compile_hud.db.errors import RecordError
from compile_hud.db.shared.text import quoted

# Seconds up to the year 5138; as milliseconds that is 1973, before there was anything to measure.
_MAX_SECONDS = 1e11
# Until the year 2286.
_MAX_TIME_S = 1e10
# A time as text; none has more digits.
_DIGITS = re.compile(r"[0-9]{1,20}")
# Google Benchmark wrote this form before it wrote ISO 8601.
_OLD_DATE = re.compile(r"(\d{4})/(\d\d)/(\d\d)-(\d\d:\d\d:\d\d)")


def time_s(value: Any, *, name: str = "timestamp") -> float | None:
    """Return a time in seconds or milliseconds as seconds, None where there is none."""
    if isinstance(value, str) and _DIGITS.fullmatch(value.strip()):
        value = int(value)
    if value is None or value in ("", 0):
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RecordError(
            f"{name} must be seconds or milliseconds since 1970, got {quoted(value)}",
            field=name,
            value=value,
            problem="kind",
        )
    # An integer of hundreds of digits has no quotient.
    is_time = 0 < value < 1000 * _MAX_TIME_S
    seconds = value / 1000 if value > _MAX_SECONDS and is_time else value
    if not is_time or seconds >= _MAX_TIME_S:
        raise RecordError(
            f"{name} {quoted(value)} is neither seconds nor milliseconds since 1970",
            field=name,
            value=value,
            problem="range",
        )
    return float(seconds)


def date_s(value: Any, *, name: str) -> float | None:
    """Return a date with a time of day as seconds since 1970, None where there is none.

    One without a time zone is UTC.
    """
    if value is None or value == "":
        return None
    at = _parsed(value) if isinstance(value, str) else None
    if at is None:
        raise RecordError(
            f"{name} must be a date such as 2026-01-31T02:30:00+00:00, got {quoted(value)}",
            field=name,
            value=value,
            problem="kind",
        )
    return time_s((at if at.tzinfo else at.replace(tzinfo=timezone.utc)).timestamp(), name=name)


def _parsed(text: str) -> datetime | None:
    iso = _OLD_DATE.sub(r"\1-\2-\3T\4", text.strip())
    with contextlib.suppress(ValueError, OverflowError):
        return datetime.fromisoformat(iso)
    return None
