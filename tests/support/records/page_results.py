"""Builders of query results, for the tests of the dashboard's pure parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from compile_hud.app.data.page_records import EnvironmentChange, RunPage, SeriesPage
from compile_hud.db.alerts.annotations import Annotation
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import Case, Outcome, Run, RunState
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.records.summaries import (
    LatestCell,
    MeasurementSummary,
    OutcomePoint,
    ResultSummary,
    SeriesHeader,
    TrendPoint,
)
from tests.support.builders import FINGERPRINT, START, make_case, make_run


def summary_of(metric: str, median: float) -> MeasurementSummary:
    """Return a measurement with an interval of one per cent to either side."""
    definition = METRICS.get(metric)
    return MeasurementSummary(
        metric=metric,
        unit=definition.unit if definition else "1",
        num_samples=24,
        median=median,
        low=median * 0.99,
        high=median * 1.01,
        method="median",
    )


def result_summary(
    case: Case | None = None,
    *,
    id: str = "result-1",
    run_id: str = "run-1",
    outcome: Outcome = Outcome.OK,
    values: Mapping[str, float] | None = None,
    effective_mode: str | None = None,
    reason: str = "",
    warnings: Sequence[RunWarning] = (),
    details: Mapping[str, Any] | None = None,
) -> ResultSummary:
    """Return a result; `values` are its medians by metric."""
    case = case or make_case()
    if values is None:
        values = {"latency_s": 0.012} if outcome is Outcome.OK else {}
    return ResultSummary(
        id=id,
        run_id=run_id,
        case=case,
        outcome=outcome,
        reason=reason,
        effective_mode=case.mode if effective_mode is None else effective_mode,
        started_at=START,
        finished_at=START + timedelta(seconds=75),
        warnings=tuple(warnings),
        details=details or {},
        log_tail="",
        measurements={name: summary_of(name, value) for name, value in values.items()},
    )


def latest(
    case: Case | None = None,
    *,
    at: datetime = START,
    toolchain: str = "stable",
    revision: str = "2.13.0+abc1234",
    model_revision: str = "",
    **values: Any,
) -> LatestCell:
    """Return the newest result of a case on machine `box`."""
    return LatestCell(
        summary=result_summary(case, **values),
        run_id="run-1",
        run_started_at=at,
        revision=revision,
        toolchain=toolchain,
        machine="box",
        fingerprint=FINGERPRINT,
        model_revision=model_revision,
    )


def point(
    number: int, median: float = 0.010, *, fingerprint: str = "a" * 64, revision: str | None = None
) -> TrendPoint:
    """Return the point of a night."""
    return TrendPoint(
        series_key=f"bert@{fingerprint[:4]}",
        run_id=f"run-{number}",
        result_id=f"result-{number}",
        revision=f"rev-{number}" if revision is None else revision,
        at=START + timedelta(days=number),
        machine="box",
        toolchain="stable",
        fingerprint=fingerprint,
        median=median,
        low=median * 0.99,
        high=median * 1.01,
        num_samples=24,
    )


def outcome_point(
    number: int,
    outcome: Outcome | None,
    *,
    run_state: RunState = RunState.FINISHED,
) -> OutcomePoint:
    """Return the outcome of the case in a night."""
    return OutcomePoint(
        run_id=f"run-{number}",
        result_id=None if outcome is None else f"result-{number}",
        revision=f"rev-{number}",
        at=START + timedelta(days=number),
        suite="nightly",
        run_state=run_state,
        fingerprint="a" * 64,
        outcome=outcome,
    )


def header(case: Case | None = None, *, metric: str = "latency_s", **values: Any) -> SeriesHeader:
    """Return a series' header."""
    fields: dict[str, Any] = {
        "key": "key",
        "case": case or make_case(),
        "metric": metric,
        "unit": METRICS[metric].unit if metric in METRICS else "widgets",
        "machine": "box",
        "fingerprint": "a" * 64,
        "num_points": 3,
        "first_at": START,
        "last_at": START,
        "last_run_id": "run-2",
        "last_value": 0.012,
        **values,
    }
    return SeriesHeader(**fields)


def series_page(
    points: Sequence[TrendPoint] = (),
    *,
    normalised: Sequence[TrendPoint] = (),
    case: Case | None = None,
    headers: Sequence[SeriesHeader] = (),
    siblings: Sequence[SeriesHeader] = (),
    outcomes: Sequence[OutcomePoint] = (),
    environment_changes: Sequence[EnvironmentChange] = (),
    alerts: Sequence[Alert] = (),
    annotations: Sequence[Annotation] = (),
) -> SeriesPage:
    """Return the data of the series page."""
    return SeriesPage(
        case=case or make_case(),
        machine="box",
        toolchain="stable",
        toolchains=("stable",),
        headers=tuple(headers),
        siblings=tuple(siblings),
        points=tuple(points),
        normalised=tuple(normalised),
        bands=(),
        outcomes=tuple(outcomes),
        environment_changes=tuple(environment_changes),
        alerts=tuple(alerts),
        annotations=tuple(annotations),
    )


def run_page(
    results: Sequence[ResultSummary], *, run: Run | None = None, alerts: Sequence[Alert] = ()
) -> RunPage:
    """Return the data of the run page."""
    run = run or make_run(plan=[result.case for result in results])
    return RunPage(run=run, results=tuple(results), alerts=tuple(alerts))
