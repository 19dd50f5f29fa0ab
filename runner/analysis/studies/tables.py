"""The tables of a study: geometric means over the common cohort, each with its interval.

Method: the geometric mean over the models that are ok in every column of a row (`aggregate`). Its
interval is that of measuring these very models again. Their 95 % intervals are independent. Their
distances from the point, on logarithms, therefore add up in squares, and are divided by the number
of models. The least and the largest ratio show how far the models differ. The speedup over eager in
another dtype is the paired speedup times the unpaired ratio of eager in the two dtypes; the
distances of the factors add up in squares as well.
Assumptions: every model weighs the same. Models outside of the cohort are not considered.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from compile_hud.db.records.results import Case, Outcome
from compile_hud.db.shared.text import first_line
from compile_hud.runner.analysis.stats.cohort import common_cohort, geometric_mean
from compile_hud.runner.analysis.stats.estimates import Estimate
from compile_hud.runner.analysis.studies.study import (
    BY_METRIC,
    EAGER,
    Published,
    Study,
    StudyCases,
    StudyResult,
    StudyRun,
    TableSpec,
)

_SUBJECT = ("model", "phase", "shape", "dtype", "device", "variant")
# The less noisy clock comes first: other load does not affect it. Only a CPU has it.
_LATENCIES = ("latency_cpu_s", "latency_s")
_OVER_EAGER = "speedup"
_ONE = Estimate(1.0, 1.0, 1.0)
# This replaces an outcome where there is no result.
_ABSENT = "absent"

Value = Callable[[StudyResult], Estimate | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyCell:
    """A number over `num_common` of `num_subjects` models, or the reason of its absence.

    `least` and `most` are the extremes of the models; `why` is empty if there is a number. `ran_as`
    counts the results that ran in another mode, by that mode.
    """

    estimate: Estimate | None = None
    least: float | None = None
    most: float | None = None
    num_common: int = 0
    num_subjects: int = 0
    ran_as: tuple[tuple[str, int], ...] = ()
    why: str = ""
    cases: tuple[Case, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyTable:
    """A table with a row for each value of a dimension; `metrics` is that of each column.

    `value` is the value of the split dimensions, if the study has a table for each.
    """

    spec: TableSpec
    value: str
    columns: tuple[str, ...]
    metrics: tuple[str, ...]
    rows: Mapping[str, tuple[StudyCell, ...]]

    @property
    def title(self) -> str:
        """Return the title of the table, with its clock and its value: `Latency: bf16`."""
        clock = " (CPU time)" if self.metrics[:1] == _LATENCIES[:1] else ""
        title = self.spec.title + clock
        return f"{title}: {self.value}" if self.value else title


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedComparison:
    """A published figure with ours under each variant that it may be about."""

    published: Published
    ours: Mapping[str, StudyCell]


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingNumber:
    """A requested variant without a number: the reason, and the number of cases by models.

    A model that the run omitted in all variants is a gap without a variant.
    """

    variant: str
    outcome: str
    reason: str
    num_cases: int = 0
    models: tuple[str, ...] = ()


def study_tables(study: Study, results: Sequence[StudyResult]) -> tuple[StudyTable, ...]:
    """Return the tables of `study` for the results of one run, without empty tables."""
    return tuple(
        _table(spec, value=", ".join(values), results=part, others=results)
        for spec in study.tables
        for values, part in _parts(results, spec.split).items()
        # In its own dtype the less noisy number is the speedup over eager.
        if ("dtype", spec.baseline_dtype) not in zip(spec.split, values, strict=True)
    )


def compare_published(
    study: Study, results: Sequence[StudyResult]
) -> tuple[PublishedComparison, ...]:
    """Return each published figure of `study` with the comparable number of this run."""
    return tuple(_compare_published(figure, results) for figure in study.published)


def gaps(study: Study, run: StudyRun) -> tuple[MissingNumber, ...]:
    """Return the variants that `study` requests on the run's device and that have no number."""
    missing: dict[tuple[str, str, str], list[str]] = {}
    for item in run.results:
        if item.outcome is not Outcome.OK:
            why = (item.case.variant, str(item.outcome), first_line(item.reason))
            missing.setdefault(why, []).append(item.case.model)
    has_result = {item.case.key for item in run.results}
    for case in run.cases:
        if case.key not in has_result:
            why = (case.variant, _ABSENT, f"no result: the run is {run.run.state}")
            missing.setdefault(why, []).append(case.model)
    omissions = [
        MissingNumber(
            variant=variant,
            outcome=outcome,
            reason=reason,
            num_cases=len(models),
            models=tuple(dict.fromkeys(models)),
        )
        for (variant, outcome, reason), models in sorted(missing.items())
    ]
    return (*omissions, *_not_planned(study.cases[run.device], run.cases))


def geometric_mean_estimate(estimates: Sequence[Estimate]) -> Estimate:
    """Return the geometric mean of `estimates`, all above 0, with the interval of the module."""
    if len(estimates) == 1:
        # A detour over logarithms would round an exact value.
        return estimates[0]
    value = geometric_mean(item.value for item in estimates)
    below = math.hypot(*(math.log(item.value / item.low) for item in estimates))
    above = math.hypot(*(math.log(item.high / item.value) for item in estimates))
    number = len(estimates)
    return Estimate(value, value * math.exp(-below / number), value * math.exp(above / number))


def ratio_estimate(numerator: Estimate, *, denominator: Estimate) -> Estimate:
    """Return the ratio of two independent estimates, all above 0."""
    inverse = Estimate(1 / denominator.value, 1 / denominator.high, 1 / denominator.low)
    return product_estimate(numerator, inverse)


def product_estimate(first: Estimate, right: Estimate) -> Estimate:
    """Return the product of two independent estimates, all above 0."""
    value = first.value * right.value
    below = math.hypot(math.log(first.value / first.low), math.log(right.value / right.low))
    above = math.hypot(math.log(first.high / first.value), math.log(right.high / right.value))
    return Estimate(value, value * math.exp(-below), value * math.exp(above))


def _not_planned(requested: StudyCases, cases: Sequence[Case]) -> Iterator[MissingNumber]:
    why = "not in the plan of this run"
    for variant in _omitted(requested.variants, cases, "variant"):
        yield MissingNumber(variant=variant, outcome=_ABSENT, reason=why)
    if models := _omitted(requested.models, cases, "model"):
        yield MissingNumber(variant="", outcome=_ABSENT, reason=why, models=models)
    for dimension, values in (
        ("phase", requested.phases),
        ("dtype", requested.dtypes),
        ("shape", requested.shapes),
    ):
        if names := _omitted(values, cases, dimension):
            reason = f"{dimension} {', '.join(names)}: {why}"
            yield MissingNumber(variant="", outcome=_ABSENT, reason=reason)


def _omitted(requested: Sequence[str], cases: Sequence[Case], dimension: str) -> tuple[str, ...]:
    planned = {_of(case, dimension) for case in cases}
    return tuple(name for name in requested if name not in planned)


def _parts(
    results: Sequence[StudyResult], split: Sequence[str]
) -> dict[tuple[str, ...], list[StudyResult]]:
    parts: dict[tuple[str, ...], list[StudyResult]] = {}
    for item in results:
        parts.setdefault(tuple(_of(item.case, name) for name in split), []).append(item)
    return parts


def _table(
    spec: TableSpec, *, value: str, results: Sequence[StudyResult], others: Sequence[StudyResult]
) -> StudyTable:
    by_row: dict[str, list[StudyResult]] = {}
    for item in results:
        by_row.setdefault(_of(item.case, spec.rows), []).append(item)
    if spec.total and len(by_row) > 1:
        by_row[spec.total] = list(results)
    metrics = tuple(_least_noisy_metric(name, results) for name in spec.metrics)
    if spec.columns == BY_METRIC:
        columns = metrics
        rows = {name: _metric_cells(part, metrics) for name, part in by_row.items()}
    else:
        read = _reader(metrics[0], baseline_dtype=spec.baseline_dtype, results=others)
        columns = _columns(spec, results, read=read)
        metrics = metrics[:1] * len(columns)
        rows = {
            name: tuple(_cells(part, columns, read=read, dimension=spec.columns).values())
            for name, part in by_row.items()
        }
    if spec.is_ranked:
        rows = dict(sorted(rows.items(), key=_rank))
    return StudyTable(spec=spec, value=value, columns=columns, metrics=metrics, rows=rows)


def _columns(spec: TableSpec, results: Sequence[StudyResult], *, read: Value) -> tuple[str, ...]:
    """Return the values of the columns' dimension; eager only where it has such a number."""
    names = dict.fromkeys(_of(item.case, spec.columns) for item in results)
    eager = [item for item in results if item.case.variant == EAGER and item.outcome is Outcome.OK]
    is_numberless = bool(eager) and all(read(item) is None for item in eager)
    return tuple(name for name in names if not (is_numberless and name == EAGER))


def _least_noisy_metric(metric: str, results: Sequence[StudyResult]) -> str:
    """Return the clock to show for `latency_s`: CPU time where all that is ok has it."""
    ok = [item for item in results if item.outcome is Outcome.OK]
    if metric != _LATENCIES[-1] or not ok:
        return metric
    return next((name for name in _LATENCIES if all(name in item.values for item in ok)), metric)


def _rank(row: tuple[str, tuple[StudyCell, ...]]) -> float:
    estimate = row[1][0].estimate
    return math.inf if estimate is None else estimate.value


def _cells(
    results: Sequence[StudyResult], columns: Iterable[str], *, read: Value, dimension: str
) -> dict[str, StudyCell]:
    """Return the cell of each column, all over the common cohort of columns with a number."""
    parts = {
        name: {
            _subject(item.case, dimension): item
            for item in results
            if _of(item.case, dimension) == name
        }
        for name in columns
    }
    values = {name: _values(part, read) for name, part in parts.items()}
    subjects = {subject for part in parts.values() for subject in part}
    points = {
        name: {subject: item.value for subject, item in column.items()}
        for name, column in values.items()
        if column
    }
    cohort = common_cohort(points)
    return {
        name: _cell(part, values[name], cohort=cohort, num_subjects=len(subjects))
        for name, part in parts.items()
    }


def _metric_cells(results: Sequence[StudyResult], metrics: Sequence[str]) -> tuple[StudyCell, ...]:
    part = {item.case.key: item for item in results}
    columns = [_values(part, _reader(metric)) for metric in metrics]
    return tuple(
        _cell(part, values, cohort=sorted(values), num_subjects=len(part)) for values in columns
    )


def _values(results: Mapping[str, StudyResult], read: Value) -> dict[str, Estimate]:
    return {key: value for key, item in results.items() if (value := read(item)) is not None}


def _cell(
    results: Mapping[str, StudyResult],
    values: Mapping[str, Estimate],
    *,
    cohort: Iterable[str],
    num_subjects: int,
) -> StudyCell:
    used = [subject for subject in cohort if subject in values]
    cases = tuple(item.case for item in results.values())
    if not used:
        why = _empty_reason(tuple(results.values()), has_values=bool(values))
        return StudyCell(num_subjects=num_subjects, why=why, cases=cases)
    estimates = [values[subject] for subject in used]
    points = [item.value for item in estimates]
    modes = Counter(results[name].effective_mode for name in used if results[name].is_fallback)
    return StudyCell(
        estimate=geometric_mean_estimate(estimates),
        least=min(points),
        most=max(points),
        num_common=len(estimates),
        num_subjects=num_subjects,
        ran_as=tuple(modes.items()),
        cases=cases,
    )


def _empty_reason(results: Sequence[StudyResult], *, has_values: bool) -> str:
    if has_values:
        return "no model is ok in every column"
    counts = Counter(str(item.outcome) for item in results if item.outcome is not Outcome.OK)
    if counts:
        return ", ".join(f"{number} {name}" for name, number in counts.items()).replace("_", " ")
    return "ok, but without this number" if results else "not measured"


def _reader(metric: str, *, baseline_dtype: str = "", results: Sequence[StudyResult] = ()) -> Value:
    if not baseline_dtype:
        return lambda item: _positive(item.values.get(metric))
    eager = {
        (_workload(item.case), str(item.case.dtype)): item
        for item in results
        if item.case.variant == EAGER
    }

    def over_baseline(item: StudyResult) -> Estimate | None:
        workload = _workload(item.case)
        slow = eager.get((workload, baseline_dtype))
        fast = eager.get((workload, str(item.case.dtype)))
        between = None if slow is None or fast is None else _between(slow, fast)
        own = _ONE if item.case.variant == EAGER else _positive(item.values.get(_OVER_EAGER))
        return None if between is None or own is None else product_estimate(between, own)

    return over_baseline


def _between(slow: StudyResult, fast: StudyResult) -> Estimate | None:
    """Return the speedup of one eager case over another."""
    if slow is fast:
        return _ONE
    for metric in _LATENCIES:
        before, after = (_positive(side.values.get(metric)) for side in (slow, fast))
        if before is not None and after is not None:
            return ratio_estimate(before, denominator=after)
    return None


def _positive(estimate: Estimate | None) -> Estimate | None:
    return estimate if estimate is not None and estimate.low > 0 else None


def _compare_published(figure: Published, results: Sequence[StudyResult]) -> PublishedComparison:
    if figure.unlike:
        return PublishedComparison(published=figure, ours={})
    fitting = [item for item in results if _fits(figure, item.case)]
    names = tuple(
        name
        for name in dict.fromkeys(item.case.variant for item in fitting)
        if name != EAGER or EAGER in figure.variants
    )
    read = _reader(_OVER_EAGER, baseline_dtype=figure.baseline_dtype, results=results)
    return PublishedComparison(
        published=figure, ours=_cells(fitting, names, read=read, dimension="variant")
    )


def _fits(figure: Published, case: Case) -> bool:
    conditions = (
        (figure.families, case.family),
        (figure.models, case.model),
        (figure.phases, case.phase),
        (figure.dtypes, case.dtype),
        (figure.shapes, case.shape),
        (figure.variants, case.variant),
    )
    return all(not allowed or str(value) in allowed for allowed, value in conditions)


def _of(case: Case, dimension: str) -> str:
    return str(getattr(case, dimension))


def _subject(case: Case, column: str) -> str:
    return "/".join(_of(case, name) for name in _SUBJECT if name != column)


def _workload(case: Case) -> str:
    return "/".join((case.model, case.phase, case.shape, case.device))
