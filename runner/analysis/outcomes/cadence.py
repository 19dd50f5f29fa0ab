"""How often a case is measured, and from when on it is late.

Method: where a schedule says when its suite runs, the case is due with the run after the next
firing. Elsewhere its own gaps tell: of the last ten the second largest, so that one holiday is not
its cadence and the weekend of a suite that runs on weekdays is; of fewer than five the largest,
which for two points is their only gap. It is late half a cadence after it was due.
Assumptions: a case that was planned once has no cadence, and is never late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

NUM_GAPS = 10
# With fewer gaps the largest may be the cadence itself.
MIN_GAPS_WITH_HOLIDAY = 5
# A weekly case is late after ten and a half days, a nightly one after a day and a half.
LATE_AFTER_CADENCES = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Timetable:
    """When the suites of `machine` should run, and what time it is.

    `late_from` returns from when on a suite in a toolchain is late that ran last at a time, None
    where nothing schedules it.
    """

    machine: str
    now: datetime
    late_from: Callable[[str, str, datetime], datetime | None]


def cadence_of(times: Sequence[datetime]) -> timedelta | None:
    """Return the cadence of what happened at `times`, oldest first; None for fewer than two."""
    gaps = sorted(after - before for before, after in pairwise(times[-NUM_GAPS - 1 :]))
    if not gaps:
        return None
    return gaps[-2] if len(gaps) >= MIN_GAPS_WITH_HOLIDAY else gaps[-1]


def late_from(times: Sequence[datetime]) -> datetime | None:
    """Return from when on what happened at `times` is late, None where it has no cadence."""
    cadence = cadence_of(times)
    return None if cadence is None else times[-1] + LATE_AFTER_CADENCES * cadence
