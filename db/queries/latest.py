"""Queries of the newest results: their cells, scopes, last points and last success."""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import func, select
from sqlalchemy.engine import Connection

from compile_hud.db.records.results import (
    ALONE_S,
    REFERENCE_FAMILY,
    TURNS,
    WAITED_S,
    Outcome,
    seconds_of_result,
)
from compile_hud.db.records.summaries import (
    CaseSeconds,
    LatestCell,
    MeasurementSummary,
    Outline,
    Scope,
)
from compile_hud.db.rows.batches import batches
from compile_hud.db.rows.columns import read_rows
from compile_hud.db.rows.mapping import utc
from compile_hud.db.rows.sql_expressions import CASE_COLUMNS, NEWEST_RUN
from compile_hud.db.rows.summaries import measurement_summary, outline_fields
from compile_hud.db.schema.tables import (
    CaseResultTable,
    CaseTable,
    LatestMeasurementTable,
    LatestResultTable,
    MeasurementTable,
    RunTable,
)
from compile_hud.db.shared.model_code import MODEL_COMMITS, revision_of
from compile_hud.db.store import Store

Recent = dict[tuple[str, str], tuple[float, ...]]
_SCOPE_ORDER: Final = ("machine", "toolchain", "case_key")


def load_recent(
    store: Store,
    *,
    metrics: Sequence[str],
    machine: str,
    toolchain: str,
    num_runs: int,
    case_keys: Collection[str] | None = None,
) -> Recent:
    """Return the medians of each case, or of `case_keys`, by its key and metric, oldest first.

    They are of the newest `num_runs` on `machine` in `toolchain`. A case that was measured more
    than once in a run has one of its medians.
    """
    newest = (
        select(RunTable.c.id, RunTable.c.started_at)
        .where(RunTable.c.machine == machine, RunTable.c.toolchain == toolchain)
        .order_by(*NEWEST_RUN)
        .limit(num_runs)
    )
    medians_by_case: defaultdict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    with store.read() as connection:
        runs = connection.execute(newest).all()
        if not runs:
            return {}
        rows = connection.execute(
            select(
                MeasurementTable.c.case_key,
                MeasurementTable.c.metric,
                MeasurementTable.c.run_id,
                MeasurementTable.c.median,
            ).where(
                MeasurementTable.c.metric.in_(metrics),
                # Rows are sorted by time, so DuckDB skips nearly all of them for this condition.
                MeasurementTable.c.run_started_at >= min(run.started_at for run in runs),
                MeasurementTable.c.run_id.in_([run.id for run in runs]),
                *([] if case_keys is None else [MeasurementTable.c.case_key.in_(case_keys)]),
            )
        )
        for row in rows:
            medians_by_case[row.case_key, row.metric][row.run_id] = row.median
    order = [run.id for run in reversed(runs)]
    return {
        key: tuple(medians[run_id] for run_id in order if run_id in medians)
        for key, medians in medians_by_case.items()
    }


def load_scopes(store: Store) -> tuple[Scope, ...]:
    """Return every machine and toolchain that has newest results, sorted by name."""
    is_reference = (CaseTable.c.family == REFERENCE_FAMILY).label("is_reference")
    query = (
        select(
            LatestResultTable.c.machine,
            LatestResultTable.c.toolchain,
            LatestResultTable.c.run_started_at,
            LatestResultTable.c.run_id,
            is_reference,
        )
        .join(CaseTable, CaseTable.c.key == LatestResultTable.c.case_key)
        .distinct()
        .order_by(LatestResultTable.c.run_started_at, LatestResultTable.c.run_id)
    )
    # The newest of each kind stays.
    runs: defaultdict[tuple[str, str], dict[bool, Any]] = defaultdict(dict)
    with store.read() as connection:
        for row in read_rows(connection, query):
            runs[row.machine, row.toolchain][row.is_reference] = row
    return tuple(
        Scope(
            machine=machine,
            toolchain=toolchain,
            newest_at=max(row.run_started_at for row in newest_runs.values()),
            has_cases=False in newest_runs,
            reference_run_id=newest_runs[True].run_id if True in newest_runs else "",
        )
        for (machine, toolchain), newest_runs in sorted(runs.items())
    )


def load_model_places(store: Store) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return the machines and toolchains with a result of each model, the newest result first."""
    newest = func.max(LatestResultTable.c.run_started_at)
    columns = (CaseTable.c.model, LatestResultTable.c.machine, LatestResultTable.c.toolchain)
    query = (
        select(*columns)
        .join(CaseTable, CaseTable.c.key == LatestResultTable.c.case_key)
        .where(CaseTable.c.family != REFERENCE_FAMILY)
        .group_by(*columns)
        .order_by(newest.desc(), *columns)
    )
    places: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    with store.read() as connection:
        for row in connection.execute(query):
            places[row.model].append((row.machine, row.toolchain))
    return {model: tuple(own) for model, own in places.items()}


def load_last_ok(store: Store, *, machine: str, toolchain: str) -> dict[str, datetime]:
    """Return the start of the newest run in which each case was ok, by case key."""
    query = (
        select(CaseResultTable.c.case_key, func.max(RunTable.c.started_at).label("at"))
        .join(RunTable, RunTable.c.id == CaseResultTable.c.run_id)
        .where(
            RunTable.c.machine == machine,
            RunTable.c.toolchain == toolchain,
            CaseResultTable.c.outcome == Outcome.OK,
        )
        .group_by(CaseResultTable.c.case_key)
    )
    with store.read() as connection:
        return {row.case_key: utc(row.at) for row in connection.execute(query)}


def load_model_summaries(store: Store, result_ids: Iterable[str]) -> dict[str, str]:
    """Return the catalog's summary of the model at the time of each result, by result id.

    Results without such a text are left out.
    """
    # The details have profiles as well: the store extracts a single text.
    summary = CaseResultTable.c.details["workload"]["summary"].as_string()
    summaries: dict[str, str] = {}
    with store.read() as connection:
        for ids in batches(result_ids):
            query = select(CaseResultTable.c.id, summary.label("summary"))
            rows = connection.execute(query.where(CaseResultTable.c.id.in_(ids)))
            summaries |= {row.id: row.summary for row in rows if row.summary}
    return summaries


def read_latest(
    connection: Connection, filters: Mapping[str, str], *, metrics: Collection[str] | None
) -> tuple[LatestCell, ...]:
    """Return the newest results in the order of machine, toolchain and case.

    `filters` are values by column; `metrics` selects measurements.
    """
    results, measured = LatestResultTable.c, LatestMeasurementTable.c
    cells = (
        select(*results, *CASE_COLUMNS)
        .join(CaseTable, CaseTable.c.key == results.case_key)
        .where(*(results[name] == value for name, value in filters.items()))
        .order_by(*(results[name] for name in _SCOPE_ORDER))
    )
    numbers = select(*measured).where(*(measured[name] == value for name, value in filters.items()))
    if metrics is not None:
        numbers = numbers.where(measured.metric.in_(metrics))
    summaries: dict[tuple[str, ...], dict[str, MeasurementSummary]] = defaultdict(dict)
    for row in read_rows(connection, numbers):
        summaries[row.machine, row.toolchain, row.case_key][row.metric] = measurement_summary(row)
    rows = list(read_rows(connection, cells))
    commits = _model_commits(connection, {row.run_id for row in rows})
    return tuple(
        LatestCell(
            summary=Outline(
                **outline_fields(row),
                measurements=summaries.get((row.machine, row.toolchain, row.case_key), {}),
            ),
            run_id=row.run_id,
            run_started_at=row.run_started_at,
            revision=row.revision,
            toolchain=row.toolchain,
            machine=row.machine,
            fingerprint=row.fingerprint,
            model_revision=revision_of(commits.get(row.run_id, {}), row.model),
        )
        for row in rows
    )


def _model_commits(connection: Connection, run_ids: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    """Return the revisions of the models' code in these runs, by run, without runs of others."""
    # The environment has a hundred facts: the store extracts a single one.
    fact = RunTable.c.environment[MODEL_COMMITS].as_string().label("commits")
    commits: dict[str, Mapping[str, Any]] = {}
    for ids in batches(run_ids):
        query = select(RunTable.c.id, fact).where(RunTable.c.id.in_(ids))
        for row in connection.execute(query):
            # An import may have any text there.
            with contextlib.suppress(ValueError):
                known = json.loads(row.commits or "null")
                if isinstance(known, dict):
                    commits[row.id] = known
    return commits


def load_latest(
    store: Store,
    *,
    machine: str | None = None,
    toolchain: str | None = None,
    metrics: Collection[str] | None = None,
) -> tuple[LatestCell, ...]:
    """Return the newest result of every case on every machine in every toolchain.

    A deferral leaves the previous result in force; a case that was only deferred is missing.
    `machine`, `toolchain` and `metrics` restrict the results and measurements.
    """
    arguments = {"machine": machine, "toolchain": toolchain}
    filters = {name: value for name, value in arguments.items() if value is not None}
    with store.read() as connection:
        return read_latest(connection, filters, metrics=metrics)


def load_case_seconds(store: Store, *, machine: str, toolchain: str) -> dict[str, CaseSeconds]:
    """Return the duration of the latest result of each case, by the keys of cases."""
    latest = LatestResultTable.c
    # The details have profiles as well: the store extracts two numbers.
    turns = CaseResultTable.c.details[TURNS]
    query = (
        select(
            latest.case_key,
            latest.started_at,
            latest.finished_at,
            turns[WAITED_S].as_float().label("waited_s"),
            turns[ALONE_S].as_float().label("alone_s"),
        )
        .join(CaseResultTable, CaseResultTable.c.id == latest.result_id)
        .where(latest.machine == machine, latest.toolchain == toolchain)
    )
    with store.read() as connection:
        rows = connection.execute(query).all()
    return {
        row.case_key: CaseSeconds(
            took_s=seconds_of_result(
                row.started_at, row.finished_at, details={TURNS: {WAITED_S: row.waited_s}}
            ),
            alone_s=row.alone_s,
        )
        for row in rows
    }


def load_compile_seconds(store: Store, *, machine: str, toolchain: str) -> dict[str, float]:
    """Return the latest cold compile time of each case in seconds, by the keys of cases."""
    measured = LatestMeasurementTable.c
    query = select(measured.case_key, measured.median).where(
        measured.machine == machine,
        measured.toolchain == toolchain,
        measured.metric == "compile_cold_s",
    )
    with store.read() as connection:
        return {row.case_key: row.median for row in connection.execute(query)}
