"""One number for many cases, over the common cohort of all compared columns.

Method: the geometric mean, the only mean of ratios that does not depend on the reference side
(Fleming and Wallace, How Not to Lie with Statistics, CACM 1986), over the subjects that every
column has: a mode that fails on the hard models must not look faster for it.
A column with values of less than half of the subjects does not shrink the cohort of the others. Its
mean is that of its own part of their cohort.
Assumptions: every subject weighs the same.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from compile_hud.db.records.results import Outcome

# A column with numbers of fewer of the subjects says too little of them.
MIN_SHARE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class CohortMeans:
    """The geometric mean of each column over `num_common` of `num_subjects` subjects.

    A column has no mean when nothing is common to all.
    """

    means: Mapping[str, float]
    num_common: int
    num_subjects: int


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


def sparse_columns(columns: Mapping[str, Collection[str]]) -> dict[str, int]:
    """Return the columns with less than MIN_SHARE of all subjects, and how many each has.

    An empty column is none of them.
    """
    subjects = {subject for column in columns.values() for subject in column}
    return {
        name: len(column)
        for name, column in columns.items()
        if column and len(column) < MIN_SHARE * len(subjects)
    }


def cohort_means(columns: Mapping[str, Mapping[str, float]]) -> CohortMeans:
    """Return the geometric mean of each column over the common cohort.

    The cohort is that of the columns that are not sparse.
    """
    sparse = sparse_columns(columns)
    cohort = common_cohort({name: columns[name] for name in columns if name not in sparse})
    subjects = {subject for column in columns.values() for subject in column}
    parts = {
        name: [column[subject] for subject in cohort if column.get(subject, 0) > 0]
        for name, column in columns.items()
    }
    means = {name: geometric_mean(values) for name, values in parts.items() if values}
    return CohortMeans(means=means, num_common=len(cohort), num_subjects=len(subjects))


def pass_rate(outcomes: Iterable[Outcome]) -> PassRate:
    """Return the pass rate of the attempted `outcomes`."""
    attempted = [outcome for outcome in outcomes if outcome.is_attempted]
    return PassRate(
        num_ok=sum(outcome.is_success for outcome in attempted), num_attempted=len(attempted)
    )
