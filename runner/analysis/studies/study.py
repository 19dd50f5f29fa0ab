"""A study: a question, the cases that answer it, its tables, and published figures about it.

This module measures nothing. `study_list` has the studies, `study_tables` makes their tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from compile_hud.db.records.results import Case, CaseResult, Outcome, Run, RunState
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.records.summaries import ResultSummary
from compile_hud.runner.analysis.stats.estimates import Estimate

# The suite of the run of a study is this and the study's name.
SUITE_PREFIX = "study-"
# This value replaces a dimension: a column for each of the table's metrics.
BY_METRIC = "metric"
EAGER = "eager"


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyCases:
    """The cases that a study measures on a device: every combination that exists."""

    models: tuple[str, ...]
    variants: tuple[str, ...]
    shapes: tuple[str, ...]
    phases: tuple[str, ...] = ("inference",)
    dtypes: tuple[str, ...] = ("fp32",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A published measurement, and our closest cases.

    A range of ratios, above 1 is faster; without `high` it is "more than `low`", without `low`
    "less than `high`". An empty filter accepts every case. With a `baseline_dtype` the ratio is
    over eager in that dtype. `unlike` has the reason why no number of ours is comparable.
    """

    what: str
    low: float | None
    high: float | None
    device: str
    source: str
    families: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    phases: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    shapes: tuple[str, ...] = ()
    variants: tuple[str, ...] = ()
    baseline_dtype: str = ""
    unlike: str = ""

    @property
    def text(self) -> str:
        """Return the range in words: `1.8x to 2.3x`, `above 3x`, `below 1.1x` or `1.12x`."""
        if self.low is None or self.high is None:
            return f"above {self.low:.3g}x" if self.high is None else f"below {self.high:.3g}x"
        if self.high == self.low:
            return f"{self.low:.3g}x"
        return f"{self.low:.3g}x to {self.high:.3g}x"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSpec:
    """The layout of a table: its rows, its columns and its numbers.

    `rows`, `columns` and the ones in `split` (a table for each combination of their values) are
    fields of a case; columns `metric` are the metrics themselves. Otherwise the numbers are those
    of the first metric. With a `baseline_dtype` they are speedups over eager in that dtype. The
    rows of a ranked table are sorted by their first number, the smallest first.
    """

    title: str
    rows: str
    columns: str = "variant"
    metrics: tuple[str, ...] = ("speedup",)
    split: tuple[str, ...] = ()
    baseline_dtype: str = ""
    total: str = ""
    is_ranked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """One study; `cases` is by kind of device, `chart` the dashboard's chart of its tables."""

    name: str
    title: str
    question: str
    cases: Mapping[str, StudyCases]
    tables: tuple[TableSpec, ...]
    published: tuple[Published, ...] = ()
    chart: str = "intervals"

    @property
    def suite(self) -> str:
        """Return the name of the suite of its runs."""
        return SUITE_PREFIX + self.name


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyResult:
    """The outcome of a case of a study, with its numbers by metric if it is ok.

    `warnings` are those about the quality of the numbers.
    """

    case: Case
    outcome: Outcome
    reason: str = ""
    effective_mode: str = ""
    warnings: tuple[RunWarning, ...] = ()
    values: Mapping[str, Estimate] = field(default_factory=dict)

    @property
    def is_fallback(self) -> bool:
        """Return whether another mode ran than the variant names."""
        return self.effective_mode not in ("", self.case.mode)


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyRun:
    """One run of a study with its results."""

    run: Run
    results: tuple[StudyResult, ...]

    @property
    def cases(self) -> tuple[Case, ...]:
        """Return the planned cases, without the reference cases."""
        return _planned(self.run)

    @property
    def device(self) -> str:
        """Return the kind of device of its cases."""
        return self.run.plan[0].device

    @property
    def device_name(self) -> str:
        return _device_name(self.run)


def results_of_document(results: Iterable[CaseResult]) -> tuple[StudyResult, ...]:
    """Return the results of a run for a study, without the reference cases."""
    return tuple(
        _study_result(
            result,
            values={
                item.metric: Estimate(item.median, *item.interval) for item in result.measurements
            },
        )
        for result in results
        if not result.case.is_reference
    )


def results_of_summaries(results: Iterable[ResultSummary]) -> tuple[StudyResult, ...]:
    """Return the results of a stored run for a study, without the reference cases."""
    return tuple(
        _study_result(
            result,
            values={
                item.metric: Estimate(item.median, item.low, item.high)
                for item in result.measurements.values()
            },
        )
        for result in results
        if not result.case.is_reference
    )


def runs_to_show(study: Study, runs: Iterable[Run]) -> tuple[Run, ...]:
    """Return the most complete of `runs`, newest first, by device and toolchain.

    It is the newest of the ended runs that planned most of the study's current cases. A narrowed or
    interrupted run therefore hides no fuller one. Runs in progress are left out, and those that
    planned nothing but reference cases.
    """
    by_scope: dict[tuple[str, str, str], list[Run]] = {}
    for run in runs:
        if run.state is not RunState.RUNNING and _planned(run):
            scope = (run.plan[0].device, _device_name(run), run.toolchain)
            by_scope.setdefault(scope, []).append(run)
    # `max` returns the first of equal runs, which is the newest.
    return tuple(max(group, key=lambda run: _fullness(study, run)) for group in by_scope.values())


def section_titles(runs: Sequence[Run]) -> tuple[str, ...]:
    """Return the title of each run's section, with its toolchain if there are several."""
    has_several = len({run.toolchain for run in runs}) > 1
    return tuple(
        f"On {_device_name(run)}{f', toolchain {run.toolchain}' if has_several else ''}"
        for run in runs
    )


def _study_result(
    result: CaseResult | ResultSummary, *, values: Mapping[str, Estimate]
) -> StudyResult:
    return StudyResult(
        case=result.case,
        outcome=result.outcome,
        reason=result.reason,
        effective_mode=result.effective_mode,
        warnings=result.warnings,
        values=values,
    )


def _planned(run: Run) -> tuple[Case, ...]:
    return tuple(case for case in run.plan if not case.is_reference)


def _device_name(run: Run) -> str:
    return str(run.environment.get("device_name") or run.plan[0].device)


def _fullness(study: Study, run: Run) -> tuple[bool, int]:
    """Return whether the run finished, and its number of planned models by variant."""
    requested = study.cases[run.plan[0].device]
    measured = {
        (case.model, case.variant)
        for case in run.plan
        if case.model in requested.models and case.variant in requested.variants
    }
    return run.state is RunState.FINISHED, len(measured)
