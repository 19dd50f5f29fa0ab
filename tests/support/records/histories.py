"""Builders of histories: series and outcomes as the store returns them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import Case, Outcome, RunState, series_key
from compile_hud.db.records.summaries import (
    OutcomeHistory,
    OutcomePoint,
    PlannedRun,
    Point,
    Series,
    SeriesHeader,
)
from tests.support.builders import FINGERPRINT, START, make_case


def night(number: int) -> datetime:
    """Return the start of the run of night `number`."""
    return START + timedelta(days=number)


def make_series(
    values: Sequence[float],
    *,
    case: Case | None = None,
    metric: str = "speedup",
    machine: str = "box",
    toolchain: str = "stable",
    fingerprint: str = FINGERPRINT,
    first_night: int = 0,
) -> Series:
    """Return a series with one point a night; the run of night 3 is `run-3`."""
    case = case or make_case()
    key = series_key(case, metric=metric, fingerprint=fingerprint)
    points = tuple(
        Point(
            series_key=key,
            run_id=f"run-{number}",
            revision=f"2.14.0.dev{number}",
            at=night(number),
            machine=machine,
            toolchain=toolchain,
            fingerprint=fingerprint,
            median=value,
            low=value,
            high=value,
        )
        for number, value in enumerate(values, start=first_night)
    )
    return Series(header=_header(points, key, case, metric), points=points)


def _header(points: Sequence[Point], key: str, case: Case, metric: str) -> SeriesHeader:
    return SeriesHeader(
        key=key,
        case=case,
        metric=metric,
        unit=METRICS[metric].unit if metric in METRICS else "1",
        machine=points[-1].machine,
        fingerprint=points[-1].fingerprint,
        num_points=len(points),
        first_at=points[0].at,
        last_at=points[-1].at,
        last_run_id=points[-1].run_id,
        last_value=points[-1].median,
    )


def joined(one: Series, other: Series) -> Series:
    """Return both as one series, in the order of their nights."""
    points = sorted((*one.points, *other.points), key=lambda point: point.at)
    return dataclasses.replace(one, points=tuple(points))


def make_outcomes(
    plans: Sequence[Mapping[str, Outcome | None]],
    *,
    suite: str = "nightly",
    machine: str = "box",
    toolchain: str = "stable",
    states: Mapping[int, RunState] | None = None,
    suites: Mapping[int, str] | None = None,
    deferred: Mapping[str, Sequence[int]] | None = None,
) -> list[OutcomeHistory]:
    """Return histories from one plan a night, `model -> outcome` (None: planned, no result).

    `deferred` has the nights in which a model was skipped for lack of time.
    """
    points: dict[str, list[OutcomePoint]] = {}
    for number, plan in enumerate(plans):
        for model, outcome in plan.items():
            points.setdefault(model, []).append(
                OutcomePoint(
                    run_id=f"run-{number}",
                    result_id=None if outcome is None else f"result-{number}",
                    revision=f"2.14.0.dev{number}",
                    at=night(number),
                    suite=(suites or {}).get(number, suite),
                    run_state=(states or {}).get(number, RunState.FINISHED),
                    fingerprint=FINGERPRINT,
                    outcome=outcome,
                    is_deferred=number in (deferred or {}).get(model, ()),
                )
            )
    return [
        OutcomeHistory(
            case=make_case(model), machine=machine, toolchain=toolchain, points=tuple(outcomes)
        )
        for model, outcomes in points.items()
    ]


def planned_runs(histories: Sequence[OutcomeHistory]) -> list[PlannedRun]:
    """Return the runs that planned the cases of `histories`, oldest first."""
    plans: dict[tuple[str, str, str], list[tuple[OutcomeHistory, OutcomePoint]]] = {}
    for history in histories:
        for point in history.points:
            key = (history.machine, history.toolchain, point.run_id)
            plans.setdefault(key, []).append((history, point))
    runs = [
        PlannedRun(
            id=run_id,
            at=cells[0][1].at,
            revision=cells[0][1].revision,
            suite=cells[0][1].suite,
            state=cells[0][1].run_state,
            machine=machine,
            toolchain=toolchain,
            fingerprint=cells[0][1].fingerprint,
            plan=tuple(history.case for history, _ in cells),
        )
        for (machine, toolchain, run_id), cells in plans.items()
    ]
    return sorted(runs, key=lambda run: run.at)
