"""What the page that compares two runs is given."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compile_hud.app.data.page_records import MachineMove
from compile_hud.db.records.results import Case, Outcome, Run, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRow:
    """One metric of a case, or its `outcome`, on both sides, and what follows from it.

    `ratio` is candidate / baseline with its interval; None where there is none. The two cases
    differ where variants are compared. `result_id` is that of the candidate, "" without one.
    """

    baseline_case: Case
    candidate_case: Case
    metric: str
    unit: str
    baseline: float | None
    candidate: float | None
    ratio: float | None
    low: float | None
    high: float | None
    verdict: Verdict
    is_significant: bool
    is_relevant: bool
    reason: str
    result_id: str = ""
    has_kernels: bool = False
    is_one_sided: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """The geometric mean of candidate / baseline of a metric over the cases of a variant.

    Over `num_common` of `num_cases`; `least` and `most` are the extremes of the cases.
    """

    variant: str
    metric: str
    ratio: float
    least: float
    most: float
    num_common: int
    num_cases: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """A measurement of a case in one run, with its interval; without one, how the case ended."""

    outcome: Outcome | None
    median: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelPair:
    """One metric of like cases of two runs that do not compare."""

    baseline_case: Case
    candidate_case: Case
    metric: str
    unit: str
    baseline: Level
    candidate: Level


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonTally:
    """What many rows come to: of the cases, by key, and of the rows.

    `by_case` has one row of each, `common` are those that both runs have, `worse` and `better`
    those of them that have a row of that verdict; of all, `num_cases_by_verdict` have one.
    """

    by_case: Mapping[str, ComparedRow]
    common: frozenset[str]
    worse: frozenset[str]
    better: frozenset[str]
    num_by_verdict: Mapping[Verdict, int]
    num_cases_by_verdict: Mapping[Verdict, int]
    metrics: frozenset[str]


# Without slots: what is counted once is kept, as long as the page is.
@dataclass(frozen=True, kw_only=True)
class ComparePage:
    """Everything the page shows of two runs.

    `environment` has what they differ in, name by name as (before, after). `refusal` says why they
    do not compare: then there are no rows and no means, but `levels`. `machine` is what the
    reference cases say, `variants` are all of both runs. The rows are the worst first.
    """

    baseline: Run
    candidate: Run
    environment: Mapping[str, Sequence[Any]]
    variants: tuple[str, ...] = ()
    refusal: str = ""
    rows: tuple[ComparedRow, ...] = ()
    means: tuple[Mean, ...] = ()
    levels: tuple[LevelPair, ...] = ()
    machine: tuple[MachineMove, ...] = ()

    @functools.cached_property
    def tally(self) -> ComparisonTally:
        """Return what the rows come to; of a thousand cases that takes as long as to draw them."""
        by_case: dict[str, ComparedRow] = {}
        common: set[str] = set()
        by_verdict: dict[Verdict, set[str]] = {verdict: set() for verdict in Verdict}
        for row in self.rows:
            key = row.candidate_case.key
            by_case[key] = row
            by_verdict[row.verdict].add(key)
            if not row.is_one_sided:
                common.add(key)
        return ComparisonTally(
            by_case=by_case,
            common=frozenset(common),
            worse=frozenset(common & by_verdict[Verdict.REGRESSION]),
            better=frozenset(common & by_verdict[Verdict.IMPROVEMENT]),
            num_by_verdict=Counter(row.verdict for row in self.rows),
            num_cases_by_verdict={verdict: len(keys) for verdict, keys in by_verdict.items()},
            metrics=frozenset(row.metric for row in self.rows),
        )
