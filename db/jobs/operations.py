"""The counts and times of the store for operators: runs, jobs, notifications."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, false, func, not_, select

from compile_hud.db.alerts.outbox import count_outbox
from compile_hud.db.jobs.health import Health, load_health
from compile_hud.db.records.alerts import AlertState
from compile_hud.db.records.notifications import NotificationState
from compile_hud.db.records.results import RunState, Verdict
from compile_hud.db.rows.mapping import utc
from compile_hud.db.schema.tables import AlertTable, RunTable
from compile_hud.db.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """The start of the newest finished run of a suite in a toolchain on a machine."""

    machine: str
    suite: str
    toolchain: str
    started_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Operations:
    """Figures of schedulers and jobs, and the numbers of alerts and notifications by kind.

    Muted alerts are in `num_muted_alerts` only.
    """

    store_version: int
    health: Health
    last_runs: tuple[LastRun, ...]
    num_alerts: Mapping[tuple[AlertState, Verdict], int]
    num_muted_alerts: Mapping[tuple[AlertState, Verdict], int]
    num_notifications: Mapping[tuple[str, NotificationState], int]


def load_operations(store: Store, *, now: datetime) -> Operations:
    """Return the figures at `now`, by short reads one after the other."""
    is_muted = func.coalesce(AlertTable.c.muted_until > now, false())
    return Operations(
        store_version=store.store_version(),
        health=load_health(store, num_ended=0),
        last_runs=_last_runs(store),
        num_alerts=_count_alerts(store, not_(is_muted)),
        num_muted_alerts=_count_alerts(store, is_muted),
        num_notifications=count_outbox(store),
    )


def _last_runs(store: Store) -> tuple[LastRun, ...]:
    group = (RunTable.c.machine, RunTable.c.suite, RunTable.c.toolchain)
    query = (
        select(*group, func.max(RunTable.c.started_at).label("started_at"))
        .where(RunTable.c.state == RunState.FINISHED)
        .group_by(*group)
        .order_by(*group)
    )
    with store.read() as connection:
        return tuple(
            LastRun(
                machine=row.machine,
                suite=row.suite,
                toolchain=row.toolchain,
                started_at=utc(row.started_at),
            )
            for row in connection.execute(query)
        )


def _count_alerts(
    store: Store, condition: ColumnElement[bool]
) -> dict[tuple[AlertState, Verdict], int]:
    kind = (AlertTable.c.state, AlertTable.c.verdict)
    with store.read() as connection:
        return {
            (AlertState(state), Verdict(verdict)): number
            for state, verdict, number in connection.execute(
                select(*kind, func.count()).where(condition).group_by(*kind)
            )
        }
