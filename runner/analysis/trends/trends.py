"""The trend of each compile mode over the runs of a machine in a toolchain.

A point is the state after a run: the newest result of each case until then, as the overview shows
it. So a run of a single model moves that model only. Means are linked (`linking`); the pass rate is
the share of ok cases among the attempted ones. A missing or overdue case counts as not ok from its
first missing run on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.results import MODES, Case, Outcome
from compile_hud.db.records.summaries import HistoryRun, ResultHistory
from compile_hud.db.records.triage import missing_cases
from compile_hud.runner.analysis.stats.estimates import Estimate
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

# Eager is what the modes are compared with.
TREND_MODES = MODES[1:]
_ALL_MODELS = ""
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
    """The subjects of a group: names, and the column of each mode (row) for each, -1 for none."""

    names: Sequence[str]
    columns: np.ndarray
    all_columns: np.ndarray


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
    marks = trend_marks(
        ordered,
        alerts=alerts,
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
                    metric=metric, mode=mode, points=points[mode], by=selection.by, group=group
                )
                for mode in selection.modes
                if points.get(mode)
            ]
    return tuple(trends)


def newest_values(
    history: ResultHistory, *, alerts: Iterable[Alert], selection: TrendSelection
) -> tuple[ModeValue, ...]:
    """Return the values of the last row of `history`, as the newest points of trends have them."""
    states = _states(history, missing_cases(alerts))
    values: list[ModeValue] = []
    for group, subjects in _groups(history.cases, selection).items():
        for metric in selection.metrics:
            values += _values(history, states, subjects, metric=metric, group=group)
    return tuple(value for value in values if value.mode in selection.modes)


def _values(
    history: ResultHistory, states: _States, subjects: _Subjects, *, metric: str, group: str
) -> Iterator[ModeValue]:
    if metric == PASS_RATE:
        ok, attempted = _passes(states, subjects)
        for number, mode in enumerate(TREND_MODES):
            total, passed = int(attempted[number, -1].sum()), int(ok[number, -1].sum())
            if total:
                yield ModeValue(
                    metric=metric,
                    mode=mode,
                    group=group,
                    value=passed / total,
                    num_counted=passed,
                    num_subjects=total,
                )
        return
    means = linked_means(*_numbers(history, states, subjects, metric=metric)[:, :, -1:])
    num_subjects = int(_num_subjects(states, subjects)[-1])
    for number, mode in enumerate(TREND_MODES):
        if not np.isnan(means.own[number, -1]):
            yield ModeValue(
                metric=metric,
                mode=mode,
                group=group,
                value=float(means.own[number, -1]),
                num_counted=int(means.cohort[number, -1].sum()),
                num_subjects=num_subjects,
            )


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
        values={name: values[:, : num + 1] for name, values in history.values.items()},
        num_before=min(history.num_before, num),
    )


def subject_of(case: Case) -> str:
    """Return the fields that all variants of one case share, its model first."""
    return "/".join((case.model, case.phase, case.shape, case.dtype, case.device))


def change_of(trend: ModeTrend) -> Estimate | None:
    """Return newest over oldest linked value with the interval of both runs, None for one point.

    The difference of a pass rate, which may be 0, is in points of the share.
    """
    points = trend.linked
    if len(points) < 2:
        return None
    first, last = points[0].estimate, points[-1].estimate
    if trend.metric == PASS_RATE:
        difference = last.value - first.value
        return Estimate(difference, difference, difference)
    return ratio_estimate(last, denominator=first)


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


def _groups(cases: Sequence[Case], selection: TrendSelection) -> dict[str, _Subjects]:
    """Return the subjects of each group, by its name."""
    by_group: dict[str, dict[str, dict[str, int]]] = {}
    for column, case in enumerate(cases):
        if selection.fits(case):
            group = str(getattr(case, selection.by)) if selection.by else _ALL_MODELS
            subjects = by_group.setdefault(group, {})
            subjects.setdefault(subject_of(case), {})[case.variant] = column
    return {
        group: _Subjects(
            names=tuple(subjects),
            columns=np.array(
                [[own.get(mode, -1) for own in subjects.values()] for mode in TREND_MODES]
            ),
            all_columns=np.array(
                [[own.get(mode, -1) for own in subjects.values()] for mode in MODES]
            ),
        )
        for group, subjects in sorted(by_group.items())
    }


def _mean_points(
    history: ResultHistory, states: _States, subjects: _Subjects, *, metric: str
) -> dict[str, tuple[ModePoint, ...]]:
    medians, lows, highs = _numbers(history, states, subjects, metric=metric)
    means = linked_means(medians, lows, highs)
    is_measured = _pick(history.outcomes >= 0, subjects.columns, missing=False)
    num_subjects = _num_subjects(states, subjects)
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
                num_counted=int(cohort[row].sum()),
                num_subjects=int(num_subjects[row]),
                num_measured=int((is_measured[number, row] & cohort[row]).sum()),
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
) -> np.ndarray:
    """Return medians and bounds in force after each run, by mode, run and subject."""
    values = history.values[metric]
    in_force = np.take_along_axis(values, np.maximum(states.rows, 0)[None], axis=1)
    in_force = np.where((states.rows < 0) | states.is_missing, np.nan, in_force)
    # A case with the code of another one has the numbers of that one.
    sources = np.take_along_axis(history.sources, np.maximum(states.rows, 0), axis=0)
    is_same = (sources >= 0) & (states.rows >= 0) & ~states.is_missing
    rows, columns = np.nonzero(is_same)
    in_force[:, rows, columns] = in_force[:, rows, sources[rows, columns]]
    return np.stack([_pick(part, subjects.columns, missing=np.nan) for part in in_force])


def _pick(matrix: np.ndarray, columns: np.ndarray, *, missing: float) -> np.ndarray:
    """Return the values by mode, run and subject of a matrix by run and case."""
    if not matrix.shape[1]:
        return np.full((len(columns), len(matrix), columns.shape[1]), missing, dtype=matrix.dtype)
    picked = matrix[:, np.maximum(columns, 0)].transpose(1, 0, 2)
    return np.where(columns[:, None, :] < 0, np.asarray(missing, dtype=matrix.dtype), picked)


def _num_subjects(states: _States, subjects: _Subjects) -> np.ndarray:
    has_result = _pick(states.outcomes >= 0, subjects.all_columns, missing=False)
    return np.asarray(has_result.any(axis=0).sum(axis=1))


def _point_rows(history: ResultHistory, subjects: _Subjects) -> list[int]:
    """Return the rows of the runs of the range that tried a case of the group."""
    is_tried = _pick(history.outcomes >= 0, subjects.columns, missing=False).any(axis=(0, 2))
    return [int(row) for row in np.flatnonzero(is_tried) if row > history.num_before]


def _with_previous(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield each row behind the one of the previous point; the first has none but itself."""
    return zip([*rows[:1], *rows], rows, strict=False)


def _names(subjects: _Subjects, cohort: np.ndarray, *, without: np.ndarray) -> tuple[str, ...]:
    return tuple(subjects.names[int(index)] for index in np.flatnonzero(cohort & ~without))
