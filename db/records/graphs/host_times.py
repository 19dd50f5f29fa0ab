"""The host's time between compiled graphs and in fallbacks, on a CPU.

Only the standard library is needed, on Python 3.10 or newer. All times are medians of iterations
without the profiler, but the operators and guards inside of gaps, which only a trace shows.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from compile_hud.db.errors import RecordError
from compile_hud.db.records.json_fields import get_list, get_quantity, get_text, get_value

# The key of the document in the details of a result.
HOST_TIMES = "host_times"


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackCalls:
    """The calls of one operator from generated code, and their seconds an iteration.

    `operator` is a name of a trace, such as `aten::sort`. `is_complex` says whether an input or the
    output has complex numbers.
    """

    operator: str
    is_complex: bool
    count: float
    total_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HostTimes:
    """The seconds of an iteration in gaps between compiled graphs, and in fallbacks.

    `gap_operators_s` and `gap_guards_s` are the parts of `gap_s` in operators that run eagerly and
    in Dynamo's look-ups; None if no trace shows them.
    """

    num_gaps: int
    gap_s: float
    gap_operators_s: float | None = None
    gap_guards_s: float | None = None
    fallbacks: tuple[FallbackCalls, ...] = ()


def host_times_of(details: Mapping[str, Any]) -> HostTimes | None:
    """Return the times among the `details` of a result, None without; raise RecordError."""
    document = details.get(HOST_TIMES)
    if document is None:
        return None
    return HostTimes(
        num_gaps=round(get_quantity(document, "num_gaps")),
        gap_s=_median(document, "gaps_s") or 0.0,
        gap_operators_s=_median(document, "gap_operators_s"),
        gap_guards_s=_median(document, "gap_guards_s"),
        fallbacks=tuple(map(_fallback, get_list(document, "fallbacks"))),
    )


def _fallback(document: Any) -> FallbackCalls:
    return FallbackCalls(
        operator=get_text(document, "operator"),
        is_complex=get_value(document, "is_complex", default=False) is True,
        count=get_quantity(document, "count"),
        total_s=_median(document, "samples_s") or 0.0,
    )


def _is_time(value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and math.isfinite(value) and value >= 0


def _median(document: Any, field: str) -> float | None:
    """Return the median of the numbers in a list, None if it is missing or empty."""
    values = get_list(document, field)
    if not all(map(_is_time, values)):
        raise RecordError(
            f"field {field!r} must be a list of numbers from 0 on",
            field=field,
            expected="a list of numbers from 0 on",
            got=values,
        )
    return statistics.median(values) if values else None
