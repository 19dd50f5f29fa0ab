"""The trend of each compile mode over the runs of a machine in a toolchain.

A point is the state after a run: the newest result of each case until then, as the overview shows
it. So a run of a single model moves that model only. A trend is of one phase on one device. Means
are linked (`linking`); the pass rate is the share of ok cases among the attempted ones. A missing
or overdue case counts as not ok from its first missing run on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.results import MODES, Case, Outcome, Phase
from compile_hud.db.records.summaries import HistoryRun, ResultHistory
from compile_hud.db.records.triage import missing_cases
from compile_hud.runner.analysis.stats.estimates import Estimate, robust_sd, student_quantile
from compile_hud.runner.analysis.stats.model_means import OWN, count_models, model_numbers
from compile_hud.runner.analysis.studies.tables import ratio_estimate
from compile_hud.runner.analysis.trends.linking import linked_means
from compile_hud.runner.analysis.trends.marks import Remark, trend_marks
from compile_hud.runner.analysis.trends.records import (
    PASS_RATE,
    TREND_METRICS,
    ModePoint,
    ModeTrend,
    ModeTrends,
    ModeValue,
)

# Eager, the first one, is what the modes are compared with.
TREND_MODES = MODES[1:]
# Fewer nights do not show how much nights vary: one step is more than a seventh of the differences.
MIN_NIGHTS = 9
# Efficiency of the median absolute deviation under a normal distribution (Rousseeuw and Croux, JASA
# 1993).
_MAD_EFFICIENCY = 0.37
# These hold over machines and environments.
_RATIOS = ("speedup",)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendSelection:
    """The metrics, modes and cases of trends, and the dimension `by` that separates them.

    The modes select trends only: a cohort is common to all modes.
    """

    metrics: Sequence[str] = TREND_METRICS
    modes: Sequence[str] = TREND_MODES
    by: str = ""
    fits: Callable[[Case], bool] = lambda _: True


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _States:
    """The newest state of each case after each run; rows are runs, columns cases.

    `rows` is the row of the newest result, -1 before the first one. `is_missing` marks cases that
    no longer report.
    """

    rows: np.ndarray
    outcomes: np.ndarray
    is_missing: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Subjects:
    """The subjects of a group: names, models, and the column of each mode (row), -1 for none."""

    names: Sequence[str]
    models: np.ndarray
    columns: np.ndarray


@dataclass(frozen=True, slots=True, kw_only=True)
class _TrendGroup:
    """A value of the dimension of trends in one phase on one device, with the words for it."""

    value: str
    phase: str
    device: str
    label: str


def trends_with_marks(
    history: ResultHistory,
    *,
    alerts: Sequence[Alert],
    remarks: Iterable[Remark],
    environments: Mapping[str, Mapping[str, Any]],
    selection: TrendSelection,
) -> ModeTrends:
    """Return the selected trends with their runs and marks.

    `alerts` are those of the machine and toolchain; `environments` has the facts of the two runs
    at each change of the environment.
    """
    trends = mode_trends(history, alerts=alerts, selection=selection)
    runs = {point.run.id: point.run for trend in trends for point in trend.points}
    ordered = tuple(sorted(runs.values(), key=lambda run: (run.at, run.id)))
    others = set(TREND_MODES) - set(selection.modes)
    marks = trend_marks(
        ordered,
        alerts=[alert for alert in alerts if alert.case.variant not in others],
        remarks=remarks,
        environments=environments,
        cases=history.cases,
        is_selected=selection.fits,
    )
    return ModeTrends(
        machine=history.machine,
        toolchain=history.toolchain,
        runs=ordered,
        trends=trends,
        marks=marks,
    )


def mode_trends(
    history: ResultHistory, *, alerts: Iterable[Alert], selection: TrendSelection
) -> tuple[ModeTrend, ...]:
    """Return the trends of the selected metrics, modes and groups that have points, in this order.

    `alerts` are those of the machine and toolchain of `history`.
    """
    states = _states(history, missing_cases(alerts))
    groups = _groups(history.cases, selection)
    trends: list[ModeTrend] = []
    for metric in selection.metrics:
        for group, subjects in groups.items():
            if metric == PASS_RATE:
                points = _pass_points(history, states, subjects)
            else:
                points = _mean_points(history, states, subjects, metric=metric)
            trends += [
                ModeTrend(
                    metric=metric,
                    mode=mode,
                    points=points[mode],
                    by=selection.by,
                    group=group.value,
                    phase=group.phase,
                    device=group.device,
                    label=group.label,
                )
                for mode in selection.modes
                if points.get(mode)
            ]
    return tuple(trends)


def newest_values(history: ResultHistory, *, alerts: Iterable[Alert]) -> tuple[ModeValue, ...]:
    """Return the values of the last row of `history`, as the newest points of trends have them."""
    states = _states(history, missing_cases(alerts))
    return tuple(
        value
        for group, subjects in _groups(history.cases, TrendSelection()).items()
        for metric in TREND_METRICS
        for value in _values(history, states, subjects, metric=metric, group=group)
    )


def _values(
    history: ResultHistory, states: _States, subjects: _Subjects, *, metric: str, group: _TrendGroup
) -> Iterator[ModeValue]:
    for mode, value, num_counted, num_subjects in (
        _newest_rates(states, subjects)
        if metric == PASS_RATE
        else _newest_means(history, states, subjects, metric=metric)
    ):
        yield ModeValue(
            metric=metric,
            mode=mode,
            phase=group.phase,
            device=group.device,
            value=value,
            num_counted=num_counted,
            num_subjects=num_subjects,
        )


def _newest_rates(states: _States, subjects: _Subjects) -> Iterator[tuple[str, float, int, int]]:
    ok, attempted = _passes(states, subjects)
    for number, mode in enumerate(TREND_MODES):
        total, passed = int(attempted[number, -1].sum()), int(ok[number, -1].sum())
        if total:
            yield mode, passed / total, passed, total


def _newest_means(
    history: ResultHistory, states: _States, subjects: _Subjects, *, metric: str
) -> Iterator[tuple[str, float, int, int]]:
    numbers, sources = _numbers(history, states, subjects, metric=metric)
    means = linked_means(numbers[:, :, -1:], sources=sources[:, -1:], models=subjects.models)
    counts = count_models(means.cohort[:, -1], subjects.models)
    num_models = int(_num_models(states, subjects)[-1])
    for number, mode in enumerate(TREND_MODES):
        if not np.isnan(means.own[number, -1]):
            yield mode, float(means.own[number, -1]), int(counts[number]), num_models


def range_start(now: datetime, *, num_days: int) -> datetime:
    """Return the first moment of a range of whole days until now."""
    return (now - timedelta(days=num_days)).replace(hour=0, minute=0, second=0, microsecond=0)


def until(history: ResultHistory, end: datetime) -> ResultHistory:
    """Return `history` without the runs after `end`."""
    num = sum(run.at <= end for run in history.runs)
    return replace(
        history,
        runs=history.runs[:num],
        outcomes=history.outcomes[: num + 1],
        sources=history.sources[: num + 1],
        fallbacks=history.fallbacks[: num + 1],
        values={name: values[:, : num + 1] for name, values in history.values.items()},
        num_before=min(history.num_before, num),
    )


def subject_of(case: Case) -> str:
    """Return the fields that all variants of one case share, its model first."""
    return "/".join((case.model, case.phase, case.shape, case.dtype, case.device))


def change_of(trend: ModeTrend) -> Estimate | None:
    """Return newest over oldest linked value with its interval, None for one point.

    The interval is that of both runs, or that of two nights where nights vary more than launches of
    one run do. The difference of a pass rate, which may be 0, is in points of the share.
    """
    points = trend.linked
    if len(points) < 2:
        return None
    first, last = points[0].estimate, points[-1].estimate
    if trend.metric == PASS_RATE:
        difference = last.value - first.value
        return Estimate(difference, difference, difference)
    ratio = ratio_estimate(last, denominator=first)
    factor = math.exp(_night_margin(points))
    low, high = ratio.value / factor, ratio.value * factor
    return Estimate(ratio.value, min(ratio.low, low), max(ratio.high, high))


def _night_margin(points: Sequence[ModePoint]) -> float:
    """Return the 95 % margin of the log ratio of two nights of the same code, 0 if unknown.

    Method: the robust standard deviation of differences of successive points, on the logarithmic
    scale. A step or an outlier moves one or two of many differences. Assumptions: nights are
    independent, and the spread is steady. Limit: a slow drift is part of the change.
    """
    logs = [math.log(point.value) for point in points if point.num_measured]
    if len(logs) < MIN_NIGHTS:
        return 0.0
    differences = np.diff(logs)
    degrees = _MAD_EFFICIENCY * len(differences)
    return robust_sd(differences) * student_quantile(0.975, degrees=degrees)


def _states(history: ResultHistory, missing: Mapping[str, Alert]) -> _States:
    numbers = np.arange(len(history.runs) + 1)[:, None]
    rows = np.maximum.accumulate(np.where(history.outcomes >= 0, numbers, -1), axis=0)
    outcomes = np.take_along_axis(history.outcomes, np.maximum(rows, 0), axis=0)
    is_missing = np.zeros(rows.shape, dtype=bool)
    for column, case in enumerate(history.cases):
        if alert := missing.get(case.key):
            since = sum(run.at < alert.first_bad.at for run in history.runs) + 1
            # Without runs the only row is the present state.
            is_missing[since if history.runs else 0 :, column] = True
    return _States(rows=rows, outcomes=np.where(rows < 0, -1, outcomes), is_missing=is_missing)


def _groups(cases: Sequence[Case], selection: TrendSelection) -> dict[_TrendGroup, _Subjects]:
    """Return the subjects of each group, in order; phases and devices are never mixed."""
    by_group: dict[tuple[str, ...], dict[str, dict[str, int]]] = {}
    for column, case in enumerate(cases):
        if selection.fits(case) and case.variant in TREND_MODES:
            value = str(getattr(case, selection.by)) if selection.by else ""
            subjects = by_group.setdefault((value, case.phase, case.device), {})
            subjects.setdefault(subject_of(case), {})[case.variant] = column
    phases = [str(phase) for phase in Phase]
    keys = sorted(by_group, key=lambda key: (key[0], phases.index(key[1]), key[2]))
    varied = {
        name
        for index, name in ((1, "phase"), (2, "device"))
        if name != selection.by and len({key[index] for key in keys}) > 1
    }
    return {_group(key, varied): _subjects(by_group[key], cases) for key in keys}


def _group(key: tuple[str, ...], varied: Collection[str]) -> _TrendGroup:
    value, phase, device = key
    names = (value, phase if "phase" in varied else "", device if "device" in varied else "")
    label = " ".join(name for name in names if name)
    return _TrendGroup(value=value, phase=phase, device=device, label=label)


def _subjects(columns: Mapping[str, Mapping[str, int]], cases: Sequence[Case]) -> _Subjects:
    firsts = [next(iter(own.values())) for own in columns.values()]
    return _Subjects(
        names=tuple(columns),
        models=model_numbers([cases[column].model for column in firsts]),
        columns=np.array([[own.get(mode, -1) for own in columns.values()] for mode in TREND_MODES]),
    )


def _mean_points(
    history: ResultHistory, states: _States, subjects: _Subjects, *, metric: str
) -> dict[str, tuple[ModePoint, ...]]:
    numbers, sources = _numbers(history, states, subjects, metric=metric)
    means = linked_means(numbers, sources=sources, models=subjects.models)
    is_measured = _pick(history.outcomes >= 0, subjects.columns, missing=False)
    num_models = _num_models(states, subjects)
    num_counted = count_models(means.cohort, subjects.models)
    num_measured = count_models(means.cohort & is_measured, subjects.models)
    environments = _environments(history.runs, metric=metric)
    points: dict[str, tuple[ModePoint, ...]] = {}
    for number, mode in enumerate(TREND_MODES):
        cohort = means.cohort[number]
        rows = [
            row for row in _point_rows(history, subjects) if not np.isnan(means.values[number, row])
        ]
        points[mode] = tuple(
            ModePoint(
                run=history.runs[row - 1],
                value=float(means.values[number, row]),
                low=float(means.lows[number, row]),
                high=float(means.highs[number, row]),
                own=float(means.own[number, row]),
                num_counted=int(num_counted[number, row]),
                num_subjects=int(num_models[row]),
                num_measured=int(num_measured[number, row]),
                joined=_names(subjects, cohort[row], without=cohort[before]),
                left=_names(subjects, cohort[before], without=cohort[row]),
                segment=int(means.segments[number, row]) + environments[row - 1],
            )
            for before, row in _with_previous(rows)
        )
    return points


def _environments(runs: Sequence[HistoryRun], *, metric: str) -> list[int]:
    """Return the number of changes of the environment after each run that end a comparison.

    A speedup compares two numbers of one process; other metrics are those of the machine.
    """
    numbers = [0] * len(runs)
    for index in reversed(range(len(runs) - 1)):
        is_new = runs[index].fingerprint != runs[index + 1].fingerprint
        numbers[index] = numbers[index + 1] + (is_new and metric not in _RATIOS)
    return numbers


def _pass_points(
    history: ResultHistory, states: _States, subjects: _Subjects
) -> dict[str, tuple[ModePoint, ...]]:
    ok, attempted = _passes(states, subjects)
    measured = _pick(history.outcomes >= 0, subjects.columns, missing=False)
    points: dict[str, tuple[ModePoint, ...]] = {}
    for number, mode in enumerate(TREND_MODES):
        total = attempted[number].sum(axis=1)
        passed = ok[number].sum(axis=1)
        rows = [row for row in _point_rows(history, subjects) if total[row]]
        points[mode] = tuple(
            ModePoint(
                run=history.runs[row - 1],
                value=float(passed[row] / total[row]),
                low=float(passed[row] / total[row]),
                high=float(passed[row] / total[row]),
                own=float(passed[row] / total[row]),
                num_counted=int(passed[row]),
                num_subjects=int(total[row]),
                num_measured=int((measured & attempted)[number, row].sum()),
                joined=_names(subjects, attempted[number, row], without=attempted[number, before]),
                left=_names(subjects, attempted[number, before], without=attempted[number, row]),
            )
            for before, row in _with_previous(rows)
        )
    return points


def _passes(states: _States, subjects: _Subjects) -> tuple[np.ndarray, np.ndarray]:
    """Return the ok and the attempted cases, by mode, run and subject."""
    every = list(Outcome)
    is_ok = np.array([outcome.is_success for outcome in every] + [False])
    is_attempted = np.array([outcome.is_attempted for outcome in every] + [False])
    ok = _pick(is_ok[states.outcomes] & ~states.is_missing, subjects.columns, missing=False)
    has_result = states.outcomes >= 0
    attempted = is_attempted[states.outcomes] | (states.is_missing & has_result)
    attempted = _pick(attempted, subjects.columns, missing=False)
    return ok & attempted, attempted


def _numbers(
    history: ResultHistory, states: _States, subjects: _Subjects, *, metric: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return the numbers in force after each run, and the modes that ran for others.

    The numbers are medians, lower and upper bounds by mode, run and subject.
    """
    rows = np.maximum(states.rows, 0)
    is_valid = (states.rows >= 0) & ~states.is_missing
    in_force = np.take_along_axis(history.values[metric], rows[None], axis=1)
    in_force = np.where(is_valid, in_force, np.nan)
    # A case with the code of another one has the numbers of that one.
    sources = np.take_along_axis(history.sources, rows, axis=0)
    runs, columns = np.nonzero((sources >= 0) & is_valid)
    in_force[:, runs, columns] = in_force[:, runs, sources[runs, columns]]
    modes = np.array([*map(_mode_number, (case.variant for case in history.cases)), OWN])
    fallbacks = np.take_along_axis(history.fallbacks, rows, axis=0)
    ran = np.where(sources >= 0, modes[sources], fallbacks)
    ran = _pick(np.where(is_valid, ran, OWN), subjects.columns, missing=OWN)
    numbers = [_pick(part, subjects.columns, missing=np.nan) for part in in_force]
    return np.stack(numbers), ran


def _mode_number(mode: str) -> int:
    return TREND_MODES.index(mode) if mode in TREND_MODES else len(TREND_MODES)


def _pick(matrix: np.ndarray, columns: np.ndarray, *, missing: float) -> np.ndarray:
    """Return the values by mode, run and subject of a matrix by run and case."""
    if not matrix.shape[1]:
        return np.full((len(columns), len(matrix), columns.shape[1]), missing, dtype=matrix.dtype)
    picked = matrix[:, np.maximum(columns, 0)].transpose(1, 0, 2)
    return np.where(columns[:, None, :] < 0, np.asarray(missing, dtype=matrix.dtype), picked)


def _num_models(states: _States, subjects: _Subjects) -> np.ndarray:
    """Return the number of models with a result in a mode after each run."""
    has_result = _pick(states.outcomes >= 0, subjects.columns, missing=False)
    return count_models(np.asarray(has_result.any(axis=0)), subjects.models)


def _point_rows(history: ResultHistory, subjects: _Subjects) -> list[int]:
    """Return the rows of the runs of the range that tried a case of the group."""
    is_tried = _pick(history.outcomes >= 0, subjects.columns, missing=False).any(axis=(0, 2))
    return [int(row) for row in np.flatnonzero(is_tried) if row > history.num_before]


def _with_previous(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield each row behind the one of the previous point; the first has none but itself."""
    return zip([*rows[:1], *rows], rows, strict=False)


def _names(subjects: _Subjects, cohort: np.ndarray, *, without: np.ndarray) -> tuple[str, ...]:
    return tuple(subjects.names[int(index)] for index in np.flatnonzero(cohort & ~without))
