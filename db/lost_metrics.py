"""Metrics that ok results of a case no longer have: of those that every result should have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sqlalchemy import Select, exists, func, select
from sqlalchemy.sql.selectable import Exists, Subquery

from db import fetch
from db.records import Case, Outcome
from db.store import Store
from db.summaries import MetricHistory, OutcomePoint, PlannedRun
from db.tables import CaseResultTable, MeasurementTable, RunTable, SeriesTable

# A result without them says little; sizes and counts may come and go with what a host can measure.
HEADLINE_METRICS: Final = ("latency_s", "speedup")


def load_lost_metrics(
    store: Store, *, runs: Sequence[PlannedRun], num_lost: int
) -> tuple[MetricHistory, ...]:
    """Return which ok results of a case have a headline metric, where `num_lost` or more have not.

    Histories are apart by machine, toolchain, case and metric, and have a point for each of `runs`
    (all runs, oldest first) with an ok result. Cases that never had the metric are left out.
    """
    found: list[MetricHistory] = []
    for metric in HEADLINE_METRICS:
        with store.read() as connection:
            losing = connection.execute(_losing(metric, num_lost=num_lost))
            keys = {row.case_key for row in losing}
        for batch in fetch.batches(sorted(keys)):
            with store.read() as connection:
                rows = connection.execute(_ok_results(metric, batch)).all()
            has_metric = {(row.run_id, row.case_key): bool(row.has_metric) for row in rows}
            found += _histories(metric, has_metric, runs=runs)
    return tuple(found)


def _losing(metric: str, *, num_lost: int) -> Select[tuple[str]]:
    """Return the query of the cases with so many ok results in a place that lack `metric`."""
    last = _ok()
    was_measured = select(SeriesTable.case_key).where(SeriesTable.metric == metric)
    return (
        select(last.c.case_key)
        .select_from(last)
        .join(RunTable, RunTable.id == last.c.run_id)
        .where(last.c.case_key.in_(was_measured), ~_has(metric, last))
        .group_by(last.c.case_key, RunTable.machine, RunTable.toolchain)
        .having(func.count() >= num_lost)
    )


def _ok_results(metric: str, case_keys: Sequence[str]) -> Select[tuple[str, str, bool]]:
    last = _ok(case_keys)
    return select(last.c.run_id, last.c.case_key, _has(metric, last).label("has_metric"))


def _ok(case_keys: Sequence[str] | None = None) -> Subquery:
    wanted = [CaseResultTable.outcome == str(Outcome.OK)]
    if case_keys is not None:
        wanted.append(CaseResultTable.case_key.in_(case_keys))
    return fetch.last_results(*wanted)


def _has(metric: str, last: Subquery) -> Exists:
    return exists().where(
        MeasurementTable.result_id == last.c.id, MeasurementTable.metric == metric
    )


def _histories(
    metric: str, has_metric: Mapping[tuple[str, str], bool], *, runs: Sequence[PlannedRun]
) -> Iterable[MetricHistory]:
    cases: dict[str, Case] = {}
    points: dict[tuple[str, str, str], list[tuple[OutcomePoint, bool]]] = defaultdict(list)
    wanted = {key for _, key in has_metric}
    for run in runs:
        for case in run.plan:
            if case.key in wanted and (run.id, case.key) in has_metric:
                cases[case.key] = case
                point = run.point(outcome=Outcome.OK)
                place = (run.machine, run.toolchain, case.key)
                points[place].append((point, has_metric[run.id, case.key]))
    for (machine, toolchain, key), found in points.items():
        yield MetricHistory(
            case=cases[key],
            metric=metric,
            machine=machine,
            toolchain=toolchain,
            points=tuple(point for point, _ in found),
            has_metric=tuple(has for _, has in found),
        )
