"""Typed fields of a JSON object; RecordError names the field that is missing or ill-typed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from compile_hud.db.errors import RecordError
from compile_hud.db.shared.quantities import LARGEST, RANGE_TEXT, is_quantity
from compile_hud.db.shared.text import is_storable, quoted

# 1: first version.
SCHEMA_VERSION = 1

_MISSING = object()
# The name that JSON has for each kind of value.
_KINDS: Mapping[type, str] = {
    dict: "an object",
    list: "a list",
    tuple: "a list",
    str: "a string",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def kind_of(value: Any) -> str:
    """Return the JSON name for the kind of `value`: `a number`, `null`; else Python's name."""
    return _KINDS.get(type(value), type(value).__name__)


def get_value(document: Any, name: str, *, default: Any = _MISSING) -> Any:
    """Return the field unchanged, `default` if it is missing."""
    # The check of an abstract class takes longer than everything else here.
    if type(document) is not dict and not isinstance(document, Mapping):
        raise RecordError(
            f"expected an object with field {name!r}, got {kind_of(document)}",
            field=name,
            expected="an object",
            got=kind_of(document),
        )
    value = document.get(name, default)
    if value is _MISSING:
        raise RecordError(f"field {name!r} is missing", field=name, problem="missing")
    return value


def get_text(document: Any, name: str, *, default: Any = _MISSING) -> str:
    """Return the field, which must be a string."""
    value = get_value(document, name, default=default)
    if not isinstance(value, str):
        raise RecordError(
            f"field {name!r} must be a string, got {kind_of(value)}",
            field=name,
            expected="a string",
            got=kind_of(value),
        )
    return value


def get_name(document: Any, name: str, *, default: Any = _MISSING) -> str:
    """Return the field, which must be a string that the store can save and look up unchanged."""
    text = get_text(document, name, default=default)
    if not is_storable(text):
        raise RecordError(
            f"field {name!r} is {quoted(text)}: no name has a NUL character, or half of one (a lone"
            " surrogate)",
            field=name,
            value=text,
            problem="not-storable",
        )
    return text


def get_number(document: Any, name: str) -> float:
    """Return the field, which must be a number, as a float."""
    value = get_value(document, name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise RecordError(
            f"field {name!r} must be a number, got {kind_of(value)}",
            field=name,
            expected="a number",
            got=kind_of(value),
        )
    return _as_float(value, name=name)


def get_quantity(document: Any, name: str) -> float:
    """Return the field as `get_number` does, which must be a number that a measurement can have."""
    number = get_number(document, name)
    _check_quantity(number, location=f"field {name!r}")
    return number


def get_count(document: Any, name: str) -> int:
    """Return the field, a whole number from 0 on."""
    value = get_value(document, name)
    # Some writers have counts as floats.
    if type(value) not in (int, float) or not value % 1 == 0 <= value:
        raise RecordError(
            f"field {name!r} must be a whole number from 0 on, got {quoted(value)}",
            field=name,
            expected="a whole number from 0 on",
            got=value,
        )
    return int(value)


def get_flag(document: Any, name: str) -> bool:
    """Return the field, true or false."""
    value = get_value(document, name)
    if not isinstance(value, bool):
        raise RecordError(
            f"field {name!r} must be true or false, got {kind_of(value)}",
            field=name,
            expected="true or false",
            got=kind_of(value),
        )
    return value


def get_whole_numbers(document: Any, name: str) -> tuple[int, ...]:
    """Return the field, a list of whole numbers of either sign; an empty one if it is missing."""
    values = get_list(document, name)
    if not all(type(item) is int for item in values):
        raise RecordError(
            f"field {name!r} must hold whole numbers only, got {quoted(values)}",
            field=name,
            expected="whole numbers",
            got=values,
        )
    return tuple(values)


def get_texts(document: Any, name: str) -> tuple[str, ...]:
    """Return the field, a list of strings; an empty one if it is missing."""
    values = get_list(document, name)
    if not all(isinstance(item, str) for item in values):
        raise RecordError(
            f"field {name!r} must be a list of text, got {quoted(values)}",
            field=name,
            expected="a list of text",
            got=values,
        )
    return tuple(values)


def get_list(document: Any, name: str) -> list[Any]:
    """Return the field, which must be a list; an empty one if it is missing."""
    value = get_value(document, name, default=[])
    if not isinstance(value, list):
        raise RecordError(
            f"field {name!r} must be a list, got {kind_of(value)}",
            field=name,
            expected="a list",
            got=kind_of(value),
        )
    return value


def get_mapping(document: Any, name: str) -> Mapping[str, Any]:
    """Return the field, which must be an object; an empty one if it is missing."""
    # An import reads a million fields: the usual kinds are not worth a call and a check.
    if type(document) is dict:
        value = document.get(name)
        if type(value) is dict or (value is None and name not in document):
            return value or {}
    value = get_value(document, name, default={})
    if type(value) is not dict and not isinstance(value, Mapping):
        raise RecordError(
            f"field {name!r} must be an object, got {kind_of(value)}",
            field=name,
            expected="an object",
            got=kind_of(value),
        )
    return value


def get_numbers(document: Any, name: str, *, default: Any = _MISSING) -> tuple[float, ...]:
    """Return the field, which must be a list of numbers, as floats."""
    value = get_value(document, name, default=default)
    if not isinstance(value, list | tuple):
        raise RecordError(
            f"field {name!r} must be a list of numbers, got {kind_of(value)}",
            field=name,
            expected="a list of numbers",
            got=kind_of(value),
        )
    for item in value:
        if isinstance(item, bool) or not isinstance(item, int | float):
            raise RecordError(
                f"field {name!r} must hold numbers only, got {kind_of(item)}",
                field=name,
                expected="numbers",
                got=kind_of(item),
            )
    return tuple(_as_float(item, name=name) for item in value)


def get_quantities(document: Any, name: str, *, default: Any = _MISSING) -> tuple[float, ...]:
    """Return the field as `get_numbers` does; a measurement must be able to have each number."""
    numbers = get_numbers(document, name, default=default)
    for index, number in enumerate(numbers, start=1):
        _check_quantity(number, location=f"number {index} of field {name!r}")
    return numbers


def get_bounds(document: Any, name: str) -> tuple[float, float]:
    """Return the field, the two numbers of an interval; both may be as near to 0 as they like."""
    bounds = get_numbers(document, name)
    if len(bounds) != 2:
        raise RecordError(
            f"field {name!r} must have 2 numbers, got {len(bounds)}",
            field=name,
            expected="2 numbers",
            got=len(bounds),
        )
    for bound in bounds:
        if abs(bound) > LARGEST:
            _check_quantity(bound, location=f"field {name!r}")
    return bounds[0], bounds[1]


def _check_quantity(number: float, *, location: str) -> None:
    # A number that is not finite has an error of its own.
    if math.isfinite(number) and not is_quantity(number):
        raise RecordError(
            f"{location} is {number:g}, which no measurement can be: allowed are {RANGE_TEXT}",
            location=location,
            value=number,
            problem="out-of-range",
        )


def get_counts(document: Any, name: str) -> tuple[int, ...]:
    """Return the field, a list of whole numbers from 0 on; an empty one if it is missing."""
    values = get_list(document, name)
    # Some writers have counts as floats.
    is_count = [type(item) in (int, float) and item % 1 == 0 <= item for item in values]
    if not all(is_count):
        wrong = values[is_count.index(False)]
        raise RecordError(
            f"field {name!r} must hold counts only, got {quoted(wrong)}",
            field=name,
            expected="counts",
            got=wrong,
        )
    return tuple(map(int, values))


def _as_float(value: int | float, *, name: str) -> float:
    try:
        return float(value)
    except OverflowError:
        raise RecordError(
            f"field {name!r} is too large a number: {quoted(value)}",
            field=name,
            value=value,
            problem="too-large",
        ) from None


def get_member(document: Any, name: str, kind: type[Any]) -> Any:
    """Return the field as a member of the closed set `kind`."""
    value = get_value(document, name)
    try:
        return kind(value)
    except ValueError:
        allowed = ", ".join(str(member) for member in kind)
        raise RecordError(
            f"field {name!r} is {quoted(value)}; allowed: {allowed}",
            field=name,
            value=value,
            allowed=tuple(str(member) for member in kind),
        ) from None


def get_time(document: Any, name: str) -> datetime:
    """Return the field, which must be an ISO 8601 time with a time zone, in UTC."""
    text = get_text(document, name)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise RecordError(
            f"field {name!r} is {quoted(text)}, not an ISO 8601 time",
            field=name,
            value=text,
            problem="no-time",
        ) from None
    if moment.tzinfo is None:
        raise RecordError(
            f"field {name!r} is {quoted(text)}: the time zone is missing",
            field=name,
            value=text,
            problem="no-time-zone",
        )
    try:
        return moment.astimezone(timezone.utc)
    except OverflowError:
        raise RecordError(
            f"field {name!r} is {quoted(text)}, in UTC beyond any year",
            field=name,
            value=text,
            problem="out-of-range",
        ) from None


def get_time_or_none(document: Any, name: str) -> datetime | None:
    """Return the field as `get_time` does, None if it is missing or null."""
    return None if get_value(document, name, default=None) is None else get_time(document, name)


def time_to_json(moment: datetime) -> str:
    """Return `moment` as ISO 8601 in UTC; raise RecordError when it has no time zone."""
    if moment.tzinfo is None:
        raise RecordError(
            f"time {moment.isoformat()} has no time zone", value=moment, problem="no-time-zone"
        )
    return moment.astimezone(timezone.utc).isoformat()


def check_schema_version(document: Any) -> None:
    """Raise RecordError unless this code can read `document`'s schema_version."""
    version = get_value(document, "schema_version")
    if not isinstance(version, int) or not 1 <= version <= SCHEMA_VERSION:
        raise RecordError(
            f"schema_version is {quoted(version)}; this Compile HUD reads 1 to {SCHEMA_VERSION}."
            " Upgrade Compile HUD to read newer documents",
            field="schema_version",
            value=version,
            newest=SCHEMA_VERSION,
        )
