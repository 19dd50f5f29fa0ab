"""Queries of runs and their plans."""

from __future__ import annotations

import difflib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, case, extract, func, not_, select
from sqlalchemy.engine import Connection

from compile_hud.db.errors import NotFoundError
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.results import Outcome, Run, RunState, worked_seconds
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.records.summaries import LastEnding, PlannedRun, RunSummary
from compile_hud.db.rows.batches import batches
from compile_hud.db.rows.mapping import run_record, utc, utc_or_none, warnings_of
from compile_hud.db.rows.plans import read_plans, read_runs
from compile_hud.db.rows.sql_expressions import (
    NEWEST_RUN,
    OLDEST_RUN,
    is_deferred,
    is_of_runs,
    last_results,
)
from compile_hud.db.schema.tables import CaseResultTable, RunTable
from compile_hud.db.store import Store

# A misspelt id is compared with the newest runs only; an old run is rarely meant.
_MAX_COMPARED = 1000
_MIN_SIMILARITY = 0.75
# Without the environment, which is large and no part of the plan.
_COLUMNS = (
    RunTable.c.id,
    RunTable.c.started_at,
    RunTable.c.revision,
    RunTable.c.suite,
    RunTable.c.state,
    RunTable.c.machine,
    RunTable.c.toolchain,
    RunTable.c.fingerprint,
    RunTable.c.plan_hash,
)


def load_triggered(store: Store, trigger: str) -> tuple[Run, ...]:
    """Return the runs with this trigger, newest first."""
    return tuple(_runs(store, RunTable.c.trigger == trigger))


def load_runs_of_plan(store: Store, run: Run) -> tuple[Run, ...]:
    """Return the runs of the plan of `run`, itself included, by machine.

    Nodes of a cluster that share a plan have a run each, all of which began at one moment.
    """
    is_of_plan = (
        (RunTable.c.started_at == run.started_at)
        & (RunTable.c.suite == run.suite)
        & (RunTable.c.toolchain == run.toolchain)
        & (RunTable.c.trigger == run.trigger)
    )
    return tuple(sorted(_runs(store, is_of_plan), key=lambda item: (item.machine, item.id)))


def load_heartbeats(store: Store, run_ids: Iterable[str]) -> Mapping[str, datetime]:
    """Return the last heartbeat of these runs, by id."""
    query = select(RunTable.c.id, RunTable.c.heartbeat_at).where(RunTable.c.id.in_(run_ids))
    with store.read() as connection:
        rows = connection.execute(query.where(RunTable.c.heartbeat_at.is_not(None))).all()
    return {row.id: utc(row.heartbeat_at) for row in rows}


def load_run_ids(store: Store) -> tuple[str, ...]:
    """Return the ids of all runs, oldest first."""
    query = select(RunTable.c.id).order_by(RunTable.c.started_at, RunTable.c.id)
    with store.read() as connection:
        return tuple(connection.execute(query).scalars())


def load_running(store: Store, *, machine: str) -> tuple[tuple[Run, datetime | None], ...]:
    """Return the runs on `machine` that may still be running, each with its last heartbeat."""
    is_running = (RunTable.c.state == RunState.RUNNING) & (RunTable.c.machine == machine)
    query = _newest_first(is_running)
    with store.read() as connection:
        runs = read_runs(connection, query)
        beats = [row.heartbeat_at for row in connection.execute(query)]
    return tuple(zip(runs, map(utc_or_none, beats), strict=True))


def load_runs_of(store: Store, run_ids: Iterable[str]) -> Mapping[str, Run]:
    """Return the runs with these ids, by id, without unknown ones."""
    runs: dict[str, Run] = {}
    for ids in batches(run_ids):
        runs |= {run.id: run for run in _runs(store, RunTable.c.id.in_(ids))}
    return runs


def load_last_measured(
    store: Store, *, suite: str, machine: str, toolchain: str
) -> dict[str, datetime]:
    """Return the start of the run of `suite` that measured each case last, by the keys of cases.

    Only runs on `machine` in `toolchain` count; a run that deferred a case did not measure it.
    """
    query = (
        select(CaseResultTable.c.case_key, func.max(CaseResultTable.c.finished_at).label("at"))
        .join(RunTable, RunTable.c.id == CaseResultTable.c.run_id)
        .where(
            RunTable.c.suite == suite,
            RunTable.c.machine == machine,
            RunTable.c.toolchain == toolchain,
            not_(is_deferred(CaseResultTable)),
        )
        .group_by(CaseResultTable.c.case_key)
    )
    with store.read() as connection:
        return {row.case_key: utc(row.at) for row in connection.execute(query)}


def load_suites_of(store: Store, case_key: str, *, toolchain: str) -> tuple[str, ...]:
    """Return the suites whose runs in `toolchain` measured a case, the last one first."""
    newest = func.max(RunTable.c.started_at)
    query = (
        select(RunTable.c.suite)
        .join(CaseResultTable, RunTable.c.id == CaseResultTable.c.run_id)
        .where(CaseResultTable.c.case_key == case_key, RunTable.c.toolchain == toolchain)
        .group_by(RunTable.c.suite)
        .order_by(newest.desc(), RunTable.c.suite)
    )
    with store.read() as connection:
        return tuple(connection.execute(query).scalars())


def load_last_ending(store: Store, alert: Alert) -> LastEnding | None:
    """Return the last outcome of the case of `alert` in its scope, None if no run tried it."""
    untried = [str(outcome) for outcome in Outcome if not outcome.is_attempted]
    last = last_results(
        CaseResultTable.c.case_key == alert.case.key, CaseResultTable.c.outcome.not_in(untried)
    )
    query = (
        select(last.c.outcome, last.c.reason)
        .join(RunTable, RunTable.c.id == last.c.run_id)
        .where(RunTable.c.machine == alert.machine, RunTable.c.toolchain == alert.toolchain)
        .order_by(*NEWEST_RUN)
        .limit(1)
    )
    with store.read() as connection:
        row = connection.execute(query).one_or_none()
    return None if row is None else LastEnding(outcome=Outcome(row.outcome), reason=row.reason)


def load_warnings(store: Store, result_ids: Iterable[str]) -> Mapping[str, tuple[RunWarning, ...]]:
    """Return the warnings of these results, by result, without unknown ones."""
    warnings: dict[str, tuple[RunWarning, ...]] = {}
    for ids in batches(result_ids):
        query = select(CaseResultTable.c.id, CaseResultTable.c.warnings)
        with store.read() as connection:
            rows = connection.execute(query.where(CaseResultTable.c.id.in_(ids))).all()
        warnings |= {row.id: warnings_of(row) for row in rows}
    return warnings


def load_configs(store: Store, result_ids: Iterable[str]) -> Mapping[str, Mapping[str, Any]]:
    """Return the configuration of these results, by result, without unknown ones.

    It is that of the model, and the settings of the variant below `variant.`.
    """
    # The details have profiles as well: the store extracts the configuration.
    workload = CaseResultTable.c.details["workload"]
    configs: dict[str, Mapping[str, Any]] = {}
    for ids in batches(result_ids):
        query = select(
            CaseResultTable.c.id,
            workload["config"].as_json().label("config"),
            workload["variant"].as_json().label("variant"),
        )
        with store.read() as connection:
            rows = connection.execute(query.where(CaseResultTable.c.id.in_(ids))).all()
        for row in rows:
            if isinstance(row.config, Mapping):
                settings = {f"variant.{key}": value for key, value in (row.variant or {}).items()}
                configs[row.id] = {**row.config, **settings}
    return configs


def load_reasons(store: Store, result_ids: Iterable[str]) -> Mapping[str, str]:
    """Return the reasons of the outcomes of these results, by result, without unknown ones."""
    reasons: dict[str, str] = {}
    for ids in batches(result_ids):
        query = select(CaseResultTable.c.id, CaseResultTable.c.reason)
        with store.read() as connection:
            rows = connection.execute(query.where(CaseResultTable.c.id.in_(ids))).all()
        reasons |= {row.id: row.reason for row in rows}
    return reasons


def _runs(store: Store, condition: ColumnElement[bool]) -> list[Run]:
    with store.read() as connection:
        return read_runs(connection, _newest_first(condition))


def _newest_first(condition: ColumnElement[bool]) -> Select[Any]:
    return select(RunTable).where(condition).order_by(*NEWEST_RUN)


def load_plans(store: Store) -> tuple[PlannedRun, ...]:
    """Return every run with its plan, oldest first."""
    query = select(*_COLUMNS).order_by(*OLDEST_RUN)
    with store.read() as connection:
        rows = connection.execute(query).all()
        plans = read_plans(connection, {row.plan_hash for row in rows})
    return tuple(
        PlannedRun(
            id=row.id,
            at=utc(row.started_at),
            revision=row.revision,
            suite=row.suite,
            state=RunState(row.state),
            machine=row.machine,
            toolchain=row.toolchain,
            fingerprint=row.fingerprint,
            plan=plans[row.plan_hash],
        )
        for row in rows
    )


def read_run(connection: Connection, run_id: str, *, store: str) -> Run:
    """Return the run with this id or unique start of an id, or the newest for `latest`."""
    runs = select(RunTable)
    if run_id == "latest":
        newest = read_runs(connection, runs.order_by(*NEWEST_RUN).limit(1))
        if not newest:
            raise NotFoundError(
                f"no run in the store {store} yet. `hud run` makes one", run=run_id, store=store
            )
        return newest[0]
    is_other = case((RunTable.c.id == run_id, 0), else_=1)
    fits = select(RunTable.c.id).where(RunTable.c.id.startswith(run_id, autoescape=True))
    ids = connection.execute(fits.order_by(is_other, *NEWEST_RUN).limit(3)).scalars().all()
    if len(ids) == 1 or (ids and ids[0] == run_id):
        return read_runs(connection, runs.where(RunTable.c.id == ids[0]))[0]
    if ids:
        names = ", ".join(ids)
        raise NotFoundError(
            f"more than one run starts with {run_id!r}: {names}, ... Name one whole",
            run=run_id,
            candidates=tuple(ids),
        )
    newest_ids = select(RunTable.c.id).order_by(*NEWEST_RUN).limit(_MAX_COMPARED)
    known = ["latest", *connection.execute(newest_ids).scalars()]
    near = " or ".join(difflib.get_close_matches(run_id, known, n=2, cutoff=_MIN_SIMILARITY))
    hint = f" Did you mean {near}?" if near else ""
    raise NotFoundError(
        f"no run {run_id!r} in the store {store}.{hint} `hud runs` lists them",
        run=run_id,
        store=store,
        near=near,
    )


def load_runs(
    store: Store,
    *,
    limit: int = 50,
    machine: str | None = None,
    suite: str | None = None,
    toolchain: str | None = None,
) -> list[RunSummary]:
    """Return the newest `limit` runs of a machine, suite and toolchain, newest first."""
    fields = {
        RunTable.c.machine: machine,
        RunTable.c.suite: suite,
        RunTable.c.toolchain: toolchain,
    }
    of_these = [column == value for column, value in fields.items() if value is not None]
    newest = select(RunTable).where(*of_these).order_by(*NEWEST_RUN).limit(limit)
    with store.read() as connection:
        rows = connection.execute(newest).all()
        plans = read_plans(connection, {row.plan_hash for row in rows})
        last = last_results(is_of_runs([(row.id, row.started_at) for row in rows]))
        took_s = extract("epoch", last.c.finished_at) - extract("epoch", last.c.started_at)
        counts = connection.execute(
            select(
                last.c.run_id,
                last.c.outcome,
                func.count().label("num"),
                func.sum(took_s).label("took_s"),
                func.max(last.c.finished_at).label("last_at"),
            ).group_by(last.c.run_id, last.c.outcome)
        ).all()
    by_run: dict[str, dict[Outcome, int]] = defaultdict(dict)
    took: dict[str, float] = defaultdict(float)
    last_at: dict[str, datetime] = {}
    for count in counts:
        by_run[count.run_id][Outcome(count.outcome)] = count.num
        took[count.run_id] += float(count.took_s)
        at = utc(count.last_at)
        last_at[count.run_id] = max(at, last_at.get(count.run_id, at))
    runs = [run_record(row, plan=plans[row.plan_hash]) for row in rows]
    return [
        RunSummary(
            run=run,
            num_by_outcome=by_run.get(row.id, {}),
            worked_s=worked_seconds(
                run, took_s=took[row.id], last_at=last_at.get(row.id, run.started_at)
            ),
            heartbeat_at=utc_or_none(row.heartbeat_at),
        )
        for row, run in zip(rows, runs, strict=True)
    ]


def load_suite_runs(store: Store, suite: str) -> tuple[Run, ...]:
    """Return all runs of the suite called `suite`, newest first."""
    query = select(RunTable).where(RunTable.c.suite == suite)
    with store.read() as connection:
        return tuple(read_runs(connection, query.order_by(*NEWEST_RUN)))


def load_run(store: Store, run_id: str) -> Run:
    """Return the run with this id or unique start of an id, or the newest for `latest`.

    Raises NotFoundError when there is none, or more than one.
    """
    with store.read() as connection:
        return read_run(connection, run_id, store=store.name)
