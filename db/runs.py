"""Find the runs that the runner has to do with, however many there are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, select

from db import fetch
from db.records import Run, RunState
from db.rows import run_record, utc_or_none
from db.store import Store
from db.tables import RunTable


def load_triggered(store: Store, trigger: str) -> tuple[Run, ...]:
    """Return the runs with this trigger, newest first."""
    return tuple(run_record(row) for row in _rows(store, RunTable.trigger == trigger))


def load_running(store: Store, *, machine: str) -> tuple[tuple[Run, datetime | None], ...]:
    """Return the runs on `machine` that are not known to have ended, each with its last beat."""
    is_running = (RunTable.state == RunState.RUNNING) & (RunTable.machine == machine)
    rows = _rows(store, is_running)
    return tuple((run_record(row), utc_or_none(row.heartbeat_at)) for row in rows)


def _rows(store: Store, is_wanted: ColumnElement[bool]) -> Sequence[Row[Any]]:
    wanted = select(RunTable.__table__).where(is_wanted).order_by(*fetch.NEWEST_RUN)
    with store.read() as connection:
        return connection.execute(wanted).all()
