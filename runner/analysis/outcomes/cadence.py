"""The cadence of a case, and the time from which on it is overdue.

Method: with a schedule of its suite, a case is due with the run after the next firing. Otherwise
its own gaps decide: of the last ten the second largest. One holiday is then not its cadence, and
the weekend of a suite that runs on weekdays is. With fewer than five gaps it is the largest, which
for two points is their only gap. A case is overdue half a cadence after its due time.
Assumptions: a case that was planned once has no cadence, and is never overdue.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

# Gaps between the points of a case that show its cadence: the second largest of them.
NUM_GAPS = 10
# With fewer gaps the largest is the cadence.
MIN_GAPS_WITH_HOLIDAY = 5
# Cadences after which a case is overdue: a weekly one after ten and a half days, a nightly one
# after a day and a half.
LATE_AFTER_CADENCES = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Timetable:
    """The schedule of the suites of `machine`, and the current time.

    `late_from` returns the time from which on a suite in a toolchain is overdue, given its last
    run; None without a schedule.
    """

    machine: str
    now: datetime
    late_from: Callable[[str, str, datetime], datetime | None]


def cadence_of(times: Sequence[datetime]) -> timedelta | None:
    """Return the cadence of the events at `times`, oldest first; None for fewer than two."""
    gaps = sorted(after - before for before, after in pairwise(times[-NUM_GAPS - 1 :]))
    if not gaps:
        return None
    return gaps[-2] if len(gaps) >= MIN_GAPS_WITH_HOLIDAY else gaps[-1]


def late_from(times: Sequence[datetime]) -> datetime | None:
    """Return the time from which on the next event is overdue, None without a cadence."""
    cadence = cadence_of(times)
    return None if cadence is None else times[-1] + LATE_AFTER_CADENCES * cadence
