"""Validation of values in hud.toml: a function returns the value or raises ValueError.

The text of the error completes "takes ...".
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from apscheduler.triggers.cron import CronTrigger

from compile_hud.db.records.results import MEASURED_DTYPES, MEASURED_PHASES
from compile_hud.db.shared.trace_paths import is_web_address
from compile_hud.models_zoo.catalog.shapes import AXES
from compile_hud.models_zoo.catalog.spec import ConfigValue, Tolerance
from compile_hud.runner.config.setting import SecretRefused
from compile_hud.runner.protocol.messages import TracePolicy

# Above this, `inf` included, a clock somewhere overflows.
MAX_SECONDS = 7 * 24 * 3600
# A larger number is probably a percentage instead of a share.
MAX_MULTIPLE = 10
DURATION_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}
_DURATION_PATTERN = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(s|min|h)\s*")
# The name of a size is part of a case's key, and precedes the axes in the name of a shape.
_SIZE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
SIZE_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE_PATTERN = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?B?)\s*")


def text(value: Any) -> str:
    """Return `value`, a text that is not empty; raise ValueError otherwise."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError("a text that is not empty")
    return value


def texts(value: Any) -> tuple[str, ...]:
    """Return one text or a list of texts as a tuple; raise ValueError otherwise."""
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not items:
        raise ValueError("a text or a list of texts")
    if not all(isinstance(item, str) and item.strip() for item in items):
        raise ValueError("a text or a list of texts")
    return tuple(items)


def _members(value: Any, kind: Sequence[StrEnum]) -> tuple[str, ...]:
    allowed = [str(member) for member in kind]
    if not all(item in allowed for item in texts(value)):
        raise ValueError(f"one or more of {', '.join(allowed)}")
    return texts(value)


def phases(value: Any) -> tuple[str, ...]:
    """Return one phase or a list of them as a tuple; raise ValueError otherwise."""
    return _members(value, MEASURED_PHASES)


def dtypes(value: Any) -> tuple[str, ...]:
    """Return one dtype or a list of them as a tuple; raise ValueError otherwise."""
    return _members(value, MEASURED_DTYPES)


def tolerances(value: Any) -> Mapping[str, Tolerance]:
    """Return a table of dtypes, each a table of limits, as records; raise ValueError otherwise."""
    names = [item.name for item in fields(Tolerance)]
    problem = (
        f"a table of {', '.join(MEASURED_DTYPES)}, each a table of numbers from 0 up (cosines up"
        f" to 1): {', '.join(names)}; for example {{ bf16 = {{ min_cosine = 0.95 }} }}"
    )
    if not isinstance(value, dict) or not all(dtype in MEASURED_DTYPES for dtype in value):
        raise ValueError(problem)
    for limits in value.values():
        if not isinstance(limits, dict) or not all(name in names for name in limits):
            raise ValueError(problem)
        for name, limit in limits.items():
            is_number = isinstance(limit, int | float) and not isinstance(limit, bool)
            if not is_number or not 0 <= limit < math.inf:
                raise ValueError(problem)
            # A cosine is at most 1, so a larger limit would make every result inaccurate.
            if name.endswith("cosine") and limit > 1:
                raise ValueError(problem)
    return {dtype: Tolerance(**limits) for dtype, limits in value.items()}


def sizes(value: Any) -> Mapping[str, Mapping[str, ConfigValue]]:
    """Return a table of sizes, each a table of its configuration; raise ValueError otherwise."""
    problem = (
        "a table of sizes, each a table of numbers, texts, true or false and lists of whole"
        " numbers, `batch` and lengths from 1; for example { small = { batch = 8, width = 256 } }"
    )
    if not isinstance(value, dict) or not value:
        raise ValueError(problem)
    for name, config in value.items():
        if _SIZE_NAME.fullmatch(name) is None or not isinstance(config, dict):
            raise ValueError(problem)
        if not all(_is_config_value(key, item) for key, item in config.items()):
            raise ValueError(problem)
    return {
        name: {key: tuple(item) if isinstance(item, list) else item for key, item in config.items()}
        for name, config in value.items()
    }


def _is_config_value(key: str, value: Any) -> bool:
    if key in {axis.key for axis in AXES}:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if isinstance(value, list):
        return all(isinstance(item, int) and not isinstance(item, bool) for item in value)
    return isinstance(value, int | float | str)


def trace_policy(value: Any) -> str:
    """Return the name of a policy for logs of the compiler; raise ValueError otherwise."""
    names = [str(policy) for policy in TracePolicy]
    if value not in names:
        raise ValueError(f"one of {', '.join(names)}")
    return str(value)


def count(value: Any) -> int:
    """Return `value`, a whole number of at least 1; raise ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("a whole number, 1 or more")
    return value


def count_or_zero(value: Any) -> int:
    """Return `value`, a whole number of at least 0; raise ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError("a whole number, 0 or more")
    return value


def counts(value: Any) -> int | tuple[int, ...]:
    """Return one count as it is, a list of different counts as a tuple; raise ValueError."""
    if not isinstance(value, list):
        return count(value)
    if not value or len(set(value)) < len(value):
        raise ValueError("a whole number, 1 or more, or a list of different ones")
    return tuple(count(item) for item in value)


def flag(value: Any) -> bool:
    """Return `value`, true or false; raise ValueError otherwise."""
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def share(value: Any) -> float:
    """Return `value`, a number from 0 up to but not 1; raise ValueError otherwise."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value < 1:
        raise ValueError("a share from 0 up to but not 1, such as 0.02 for 2 %")
    return float(value)


def multiple(value: Any) -> float:
    """Return `value`, a number from 0 to MAX_MULTIPLE; raise ValueError otherwise."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= MAX_MULTIPLE:
        raise ValueError(f"a number from 0 to {MAX_MULTIPLE}, such as 0.2 for 20 %")
    return float(value)


def seconds(value: Any) -> float:
    """Return `value`, a number of seconds, at most a week; raise ValueError otherwise."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 < value <= MAX_SECONDS:
        raise ValueError(f"a number of seconds above 0, at most {MAX_SECONDS} (a week)")
    return float(value)


def duration(value: Any) -> float:
    """Return a number of seconds, or a text such as "2 h", as seconds; raise ValueError."""
    match = _DURATION_PATTERN.fullmatch(value) if isinstance(value, str) else None
    number = float(match[1]) * DURATION_UNITS[match[2]] if match else value
    try:
        return seconds(number)
    except ValueError as error:
        raise ValueError(f'{error}, or a text such as "90 min" or "2 h"') from None


def waiting(value: Any) -> float:
    """Return a wait in seconds, as `duration` does, or 0; raise ValueError otherwise."""
    if value == 0 and not isinstance(value, bool):
        return 0.0
    try:
        return duration(value)
    except ValueError as error:
        raise ValueError(f"0, {error}") from None


def size_bytes(value: Any) -> int:
    """Return a number of bytes, or a text such as "8 GB", as bytes; raise ValueError otherwise."""
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    match = _SIZE_PATTERN.fullmatch(value.upper()) if isinstance(value, str) else None
    if match is None or float(match[1]) == 0:
        raise ValueError('a number of bytes above 0 or a text such as "8 GB"')
    unit = match[2] if match[2].endswith("B") or not match[2] else f"{match[2]}B"
    return int(float(match[1]) * SIZE_UNITS.get(unit, 1))


def web_address(value: Any) -> str:
    """Return `value`, an address of a page; raise ValueError, with a user in it SecretRefused."""
    if not isinstance(value, str) or not is_web_address(value):
        problem = 'an address such as "https://name.example.org", without a user or a query'
        # A password may precede the sign.
        raise SecretRefused(problem) if "@" in str(value) else ValueError(problem)
    return value


def port(value: Any) -> int:
    """Return `value`, a TCP port; raise ValueError otherwise."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 65535:
        raise ValueError("a port, 0 to 65535 (0 takes a free one)")
    return value


def cron(value: Any) -> str:
    """Return `value`, five cron fields; raise ValueError otherwise.

    Weekdays must be names: APScheduler counts them from Monday, cron itself from Sunday, so the
    same digit would mean another day than its author expects.
    """
    problem = 'five cron fields such as "30 2 * * *" (minute hour day month weekday)'
    if not isinstance(value, str) or len(value.split()) != 5:
        raise ValueError(problem)
    if re.search(r"\d", value.split()[4]):
        raise ValueError('a cron text with weekdays as names, such as "30 2 * * mon-fri"')
    try:
        CronTrigger.from_crontab(value, timezone="UTC")
    except ValueError as error:
        raise ValueError(f"{problem}; {error}") from None
    return value


def timezone_name(value: Any) -> str:
    """Return `value`, the name of a time zone; raise ValueError otherwise."""
    try:
        ZoneInfo(text(value))
    except (ValueError, ZoneInfoNotFoundError, OSError):
        raise ValueError('a time zone such as "Europe/Berlin" or "UTC"') from None
    return str(value)
