"""The types of values in hud.toml, each with the text that errors have after "takes"."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Annotated, Any, TypeVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)

from compile_hud.db.records.results import MEASURED_DTYPES, MEASURED_PHASES
from compile_hud.db.shared.text import is_printable
from compile_hud.db.shared.trace_paths import is_web_address
from compile_hud.runner.config.section import SecretRefused, Unit

# Above this, `inf` included, a clock somewhere overflows.
MAX_SECONDS = 7 * 24 * 3600
# A larger number is probably a percentage instead of a share.
MAX_MULTIPLE = 10
DURATION_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0}
SIZE_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_DURATION_PATTERN = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(s|min|h)\s*")
_SIZE_PATTERN = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?B?)\s*")
_T = TypeVar("_T")


def takes(text: str, *, error: type[ValueError] = ValueError) -> WrapValidator:
    """Return a validator that refuses a value with `text` instead of the message of pydantic."""

    def check(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        try:
            return handler(value)
        except ValidationError:
            raise error(text) from None

    return WrapValidator(check)


def one_of(members: Iterable[_T]) -> PlainValidator:
    """Return a validator that takes the text of one of `members`."""
    allowed = list(members)

    def check(value: Any) -> _T:
        if value not in allowed:
            raise ValueError(f"one of {', '.join(map(str, allowed))}")
        return allowed[allowed.index(value)]

    return PlainValidator(check)


def some_of(members: Iterable[_T]) -> PlainValidator:
    """Return a validator that takes the text of one of `members` or a list of such texts."""
    allowed = list(members)

    def check(value: Any) -> tuple[_T, ...]:
        items = value if isinstance(value, list) else [value]
        if not items or not all(item in allowed for item in items):
            raise ValueError(f"one or more of {', '.join(map(str, allowed))}")
        return tuple(allowed[allowed.index(item)] for item in items)

    return PlainValidator(check)


def as_tuple(value: Any) -> Any:
    """Return a list as a tuple; a text stands for a list of itself."""
    items = [value] if isinstance(value, str) else value
    return tuple(items) if isinstance(items, list) else items


def _counts(value: Any) -> int | tuple[int, ...]:
    items = value if isinstance(value, list) else [value]
    if not all(type(item) is int and item >= 1 for item in items):
        raise ValueError("a whole number, 1 or more")
    if not items or len(set(items)) < len(items):
        raise ValueError("a whole number, 1 or more, or a list of different ones")
    return tuple(items) if isinstance(value, list) else value


def _printable(text: str) -> str:
    if not is_printable(text):
        raise ValueError(text)
    return text


def _in_seconds(value: Any) -> Any:
    match = _DURATION_PATTERN.fullmatch(value) if isinstance(value, str) else None
    return float(match[1]) * DURATION_UNITS[match[2]] if match else value


def _in_bytes(value: Any) -> Any:
    match = _SIZE_PATTERN.fullmatch(value.upper()) if isinstance(value, str) else None
    if match is None:
        return value
    unit = match[2] if match[2].endswith("B") or not match[2] else f"{match[2]}B"
    num_bytes = float(match[1]) * SIZE_UNITS.get(unit, 1)
    return int(num_bytes) if math.isfinite(num_bytes) else value


def _web_address(value: Any) -> str:
    if not isinstance(value, str) or not is_web_address(value):
        problem = 'an address such as "https://name.example.org", without a user or a query'
        # A password may precede the sign.
        raise SecretRefused(problem) if "@" in str(value) else ValueError(problem)
    return value


def _timezone_name(value: str) -> str:
    try:
        ZoneInfo(value)
    except (ZoneInfoNotFoundError, OSError) as error:
        raise ValueError(str(error)) from None
    return value


_SECONDS = f"a number of seconds above 0, at most {MAX_SECONDS} (a week)"
_DURATION = f'{_SECONDS}, or a text such as "90 min" or "2 h"'

Scalar = bool | int | float | str
Flag = Annotated[bool, takes("true or false")]
Text = Annotated[
    str,
    Field(pattern=r"\S"),
    AfterValidator(_printable),
    takes("a text that is not empty and has no control characters"),
]
Texts = Annotated[
    tuple[Text, ...],
    Field(min_length=1),
    BeforeValidator(as_tuple),
    takes("a text or a list of texts, without control characters"),
]
Phases = Annotated[tuple[str, ...], some_of(map(str, MEASURED_PHASES))]
Dtypes = Annotated[tuple[str, ...], some_of(map(str, MEASURED_DTYPES))]
Count = Annotated[int, Field(ge=1), takes("a whole number, 1 or more")]
CountOrZero = Annotated[int, Field(ge=0), takes("a whole number, 0 or more")]
Counts = Annotated[int | tuple[int, ...], PlainValidator(_counts)]
Port = Annotated[int, Field(ge=0, le=65535), takes("a port, 0 to 65535 (0 takes a free one)")]
Share = Annotated[
    float,
    Field(ge=0, lt=1),
    takes("a share from 0 up to but not 1, such as 0.02 for 2 %"),
    Unit("%"),
]
Multiple = Annotated[
    float,
    Field(ge=0, le=MAX_MULTIPLE),
    takes(f"a number from 0 to {MAX_MULTIPLE}, such as 0.2 for 20 %"),
    Unit("%"),
]
Seconds = Annotated[float, Field(gt=0, le=MAX_SECONDS), takes(_SECONDS), Unit("s")]
Duration = Annotated[
    float, Field(gt=0, le=MAX_SECONDS), BeforeValidator(_in_seconds), takes(_DURATION), Unit("s")
]
Waiting = Annotated[
    float,
    Field(ge=0, le=MAX_SECONDS),
    BeforeValidator(_in_seconds),
    takes(f"0, {_DURATION}"),
    Unit("s"),
]
SizeBytes = Annotated[
    int,
    Field(gt=0),
    BeforeValidator(_in_bytes),
    takes('a number of bytes above 0 or a text such as "8 GB"'),
    Unit("B"),
]
WebAddress = Annotated[str, PlainValidator(_web_address)]
TimezoneName = Annotated[
    str,
    AfterValidator(_timezone_name),
    takes('a time zone such as "Europe/Berlin" or "UTC"'),
]
Interpreter = Annotated[
    str,
    Field(pattern=r"\S"),
    # No path is a secret, but the message has no value either.
    takes("the path of a Python interpreter", error=SecretRefused),
]
