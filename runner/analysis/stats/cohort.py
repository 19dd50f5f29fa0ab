"""The common cohort of compared columns, the geometric mean and the pass rate.

Method: the geometric mean is the only mean of ratios that does not depend on the reference side
(Fleming and Wallace, How Not to Lie with Statistics, CACM 1986).
Assumptions: every subject weighs the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from compile_hud.db.records.results import Outcome

# A column with numbers of fewer of the subjects says too little of them.
MIN_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRate:
    """The number of attempted cases, and of ok ones among them; skipped ones were not attempted."""

    num_ok: int
    num_attempted: int

    @property
    def share(self) -> float | None:
        """Return the share that ended ok, None when none was tried."""
        return self.num_ok / self.num_attempted if self.num_attempted else None


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean; raise ValueError on no values or one that is not above 0."""
    numbers = list(values)
    if not numbers or min(numbers) <= 0:
        raise ValueError("a geometric mean needs at least one value, and all of them above 0")
    return math.exp(math.fsum(map(math.log, numbers)) / len(numbers))


def common_cohort(columns: Mapping[str, Mapping[str, float]]) -> tuple[str, ...]:
    """Return the subjects that every column has a value above 0 for, in order of their names.

    `columns` is variant -> subject -> value, a value only where the case is ok.
    """
    names = [{name for name, value in column.items() if value > 0} for column in columns.values()]
    return tuple(sorted(set.intersection(*names))) if names else ()


def pass_rate(outcomes: Iterable[Outcome]) -> PassRate:
    """Return the pass rate of the attempted `outcomes`."""
    attempted = [outcome for outcome in outcomes if outcome.is_attempted]
    return PassRate(
        num_ok=sum(outcome.is_success for outcome in attempted), num_attempted=len(attempted)
    )
