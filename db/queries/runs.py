"""Queries of runs and their plans, for the runner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, func, not_, select

from compile_hud.db.queries import common as fetch
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.results import Outcome, Run, RunState
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.records.summaries import LastEnding, PlannedRun, Series
from compile_hud.db.rows import columns
from compile_hud.db.rows.mapping import utc, utc_or_none, warnings_of
from compile_hud.db.rows.plans import read_plans, read_runs
from compile_hud.db.schema.tables import CaseResultTable, RunTable, SeriesTable
from compile_hud.db.store import Store

# Not the environment: it is large, and says nothing of what was planned.
_COLUMNS = (
    RunTable.id,
    RunTable.started_at,
    RunTable.revision,
    RunTable.suite,
    RunTable.state,
    RunTable.machine,
    RunTable.toolchain,
    RunTable.fingerprint,
    RunTable.plan_hash,
)


def load_triggered(store: Store, trigger: str) -> tuple[Run, ...]:
    """Return the runs with this trigger, newest first."""
    return tuple(_runs(store, RunTable.trigger == trigger))


def load_runs_beside(store: Store, run: Run) -> tuple[Run, ...]:
    """Return the runs of the plan that `run` is of, itself included, by machine.

    Machines of a cluster that share a plan have a run each, all of which began at one moment.
    """
    beside = (
        (RunTable.started_at == run.started_at)
        & (RunTable.suite == run.suite)
        & (RunTable.toolchain == run.toolchain)
        & (RunTable.trigger == run.trigger)
    )
    return tuple(sorted(_runs(store, beside), key=lambda found: (found.machine, found.id)))


def load_beats(store: Store, run_ids: Iterable[str]) -> Mapping[str, datetime]:
    """Return when these runs last gave a sign of life, by id."""
    wanted = select(RunTable.id, RunTable.heartbeat_at).where(RunTable.id.in_(run_ids))
    with store.read() as connection:
        rows = connection.execute(wanted.where(RunTable.heartbeat_at.is_not(None))).all()
    return {row.id: utc(row.heartbeat_at) for row in rows}


def load_run_ids(store: Store) -> tuple[str, ...]:
    """Return the ids of all runs, oldest first."""
    wanted = select(RunTable.id).order_by(RunTable.started_at, RunTable.id)
    with store.read() as connection:
        return tuple(connection.execute(wanted).scalars())


def load_running(store: Store, *, machine: str) -> tuple[tuple[Run, datetime | None], ...]:
    """Return the runs on `machine` that are not known to have ended, each with its last beat."""
    is_running = (RunTable.state == RunState.RUNNING) & (RunTable.machine == machine)
    wanted = _newest_first(is_running)
    with store.read() as connection:
        runs = read_runs(connection, wanted)
        beats = [row.heartbeat_at for row in connection.execute(wanted)]
    return tuple(zip(runs, map(utc_or_none, beats), strict=True))


def load_runs_of(store: Store, run_ids: Iterable[str]) -> Mapping[str, Run]:
    """Return the runs with these ids, by id; those that are not in the store are left out."""
    found: dict[str, Run] = {}
    for ids in columns.batches(run_ids):
        found |= {run.id: run for run in _runs(store, RunTable.id.in_(ids))}
    return found


def load_last_measured(
    store: Store, *, suite: str, machine: str, toolchain: str
) -> dict[str, datetime]:
    """Return when a run of `suite` last measured each case, by the keys of cases.

    Only runs on `machine` in `toolchain` count; a run that put a case off did not measure it.
    """
    wanted = (
        select(CaseResultTable.case_key, func.max(CaseResultTable.finished_at).label("at"))
        .join(RunTable, RunTable.id == CaseResultTable.run_id)
        .where(
            RunTable.suite == suite,
            RunTable.machine == machine,
            RunTable.toolchain == toolchain,
            not_(fetch.is_deferred(CaseResultTable)),
        )
        .group_by(CaseResultTable.case_key)
    )
    with store.read() as connection:
        return {row.case_key: utc(row.at) for row in connection.execute(wanted)}


def load_suites_of(store: Store, case_key: str, *, toolchain: str) -> tuple[str, ...]:
    """Return the suites whose runs in `toolchain` measured a case, the last one first."""
    newest = func.max(RunTable.started_at)
    wanted = (
        select(RunTable.suite)
        .join(CaseResultTable, RunTable.id == CaseResultTable.run_id)
        .where(CaseResultTable.case_key == case_key, RunTable.toolchain == toolchain)
        .group_by(RunTable.suite)
        .order_by(newest.desc(), RunTable.suite)
    )
    with store.read() as connection:
        return tuple(connection.execute(wanted).scalars())


def load_last_ending(store: Store, alert: Alert) -> LastEnding | None:
    """Return how the case of `alert` ended last in its place, None where no run tried it."""
    untried = (str(Outcome.SKIPPED), str(Outcome.NODE_LOST))
    last = fetch.last_results(
        CaseResultTable.case_key == alert.case.key, CaseResultTable.outcome.not_in(untried)
    )
    wanted = (
        select(last.c.outcome, last.c.reason)
        .join(RunTable, RunTable.id == last.c.run_id)
        .where(RunTable.machine == alert.machine, RunTable.toolchain == alert.toolchain)
        .order_by(*fetch.NEWEST_RUN)
        .limit(1)
    )
    with store.read() as connection:
        row = connection.execute(wanted).one_or_none()
    return None if row is None else LastEnding(outcome=Outcome(row.outcome), reason=row.reason)


def load_warnings(store: Store, result_ids: Iterable[str]) -> Mapping[str, tuple[RunWarning, ...]]:
    """Return the warnings of these results, by result; those not in the store are left out."""
    found: dict[str, tuple[RunWarning, ...]] = {}
    for ids in columns.batches(result_ids):
        wanted = select(CaseResultTable.id, CaseResultTable.warnings)
        with store.read() as connection:
            rows = connection.execute(wanted.where(CaseResultTable.id.in_(ids))).all()
        found |= {row.id: warnings_of(row) for row in rows}
    return found


def load_reasons(store: Store, result_ids: Iterable[str]) -> Mapping[str, str]:
    """Return why these results ended so, by result; those not in the store are left out."""
    found: dict[str, str] = {}
    for ids in columns.batches(result_ids):
        wanted = select(CaseResultTable.id, CaseResultTable.reason)
        with store.read() as connection:
            rows = connection.execute(wanted.where(CaseResultTable.id.in_(ids))).all()
        found |= {row.id: row.reason for row in rows}
    return found


def load_histories_of(store: Store, run: Run, *, metrics: Sequence[str]) -> tuple[Series, ...]:
    """Return the series of `metrics` that `run` has or could have a point in, with all points."""
    planned = {case.key for case in run.plan}
    with store.read() as connection:
        headers = fetch.headers(
            connection,
            SeriesTable.metric.in_(metrics),
            SeriesTable.fingerprint == run.fingerprint,
        )
        ours = [header for header in headers if header.case.key in planned]
        return tuple(fetch.with_points(connection, ours))


def _runs(store: Store, is_wanted: ColumnElement[bool]) -> list[Run]:
    with store.read() as connection:
        return read_runs(connection, _newest_first(is_wanted))


def _newest_first(is_wanted: ColumnElement[bool]) -> Select[Any]:
    return select(RunTable.__table__).where(is_wanted).order_by(*fetch.NEWEST_RUN)


def load_plans(store: Store) -> tuple[PlannedRun, ...]:
    """Return every run with its plan, oldest first."""
    wanted = select(*_COLUMNS).order_by(*fetch.OLDEST_RUN)
    with store.read() as connection:
        rows = connection.execute(wanted).all()
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
