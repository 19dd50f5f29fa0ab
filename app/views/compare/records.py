"""The data of the page that compares two runs."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compile_hud.app.data.page_records import MachineMove
from compile_hud.db.records.results import Case, Outcome, Run, Verdict
from compile_hud.db.shared.model_sources import ModelCodeDiff


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRow:
    """One metric of a case, or its `outcome`, on both sides, and their comparison.

    `ratio` is candidate / baseline with its interval; None without one. It leaves out
    `machine_ratio`, the ratio of the machine's own times, if there is one. The two cases differ if
    variants are compared. `result_id` is that of the candidate, "" without one.
    """

    baseline_case: Case
    candidate_case: Case
    metric: str
    unit: str
    baseline: float | None
    candidate: float | None
    ratio: float | None
    machine_ratio: float | None
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
    """A measurement of a case in one run, with its interval; else the outcome of the case."""

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
class RevisionChoice:
    """The revisions of a machine, by name, with the runs that stand for the two to compare.

    A side without a run is None. `labels` describe each revision in one line.
    """

    machine: str
    machines: tuple[str, ...]
    toolchains: tuple[str, ...]
    labels: Mapping[str, str]
    baseline: str
    candidate: str
    baseline_run: Run | None
    candidate_run: Run | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonTally:
    """Counts over the rows of a comparison, by case and by verdict.

    `by_case` has one row of each case. `common` are the keys of cases that both runs have; `worse`
    and `better` are those of them with a row of that verdict. `num_cases_by_verdict` counts cases
    with a row of each verdict.
    """

    by_case: Mapping[str, ComparedRow]
    common: frozenset[str]
    worse: frozenset[str]
    better: frozenset[str]
    num_by_verdict: Mapping[Verdict, int]
    num_cases_by_verdict: Mapping[Verdict, int]
    metrics: frozenset[str]


# Without slots: the cached property below is stored as long as the page is.
@dataclass(frozen=True, kw_only=True)
class ComparePage:
    """Everything the page shows of two runs.

    `environment` has the facts that differ, name by name as (before, after), `code_changes` the
    models with other code. `refusal` is the
    reason why they do not compare: then there are no rows and no means, but `levels`. `machine` has
    the reference cases, `variants` are all of both runs. The rows are the worst first. `noise` says
    what the noise was learnt from, `resolution` has the sentences about undecided rows.
    """

    baseline: Run
    candidate: Run
    environment: Mapping[str, Sequence[Any]]
    code_changes: tuple[ModelCodeDiff, ...] = ()
    variants: tuple[str, ...] = ()
    refusal: str = ""
    rows: tuple[ComparedRow, ...] = ()
    means: tuple[Mean, ...] = ()
    levels: tuple[LevelPair, ...] = ()
    machine: tuple[MachineMove, ...] = ()
    noise: str = ""
    resolution: tuple[str, ...] = ()

    @functools.cached_property
    def tally(self) -> ComparisonTally:
        """Return the counts over the rows; for a thousand cases that is as slow as drawing them."""
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
