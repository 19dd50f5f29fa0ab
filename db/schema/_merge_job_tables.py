"""The tables of what is to be done, who does it and what is said of it.

`db.schema.tables` says what all tables share.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, Integer, String, Text
from sqlalchemy.orm import Mapped, mapped_column

from compile_hud.db.schema.tables import Base, UtcTime


class JobTable(Base):
    """A queued request for one run; `dedupe_key` keeps a schedule's night from running twice.

    `machine` is whose scheduler is to take it, null for any. `holder` is the process that leased it
    (`host/pid/start`), so that a dead holder is recognised. It is not taken before `due_at`;
    `reason` says why it failed or is tried again.
    """

    __tablename__ = "jobs"

    id: Mapped[str] = mapped_column(String, primary_key=True)
    dedupe_key: Mapped[str] = mapped_column(String)
    suite: Mapped[str] = mapped_column(String)
    toolchain: Mapped[str] = mapped_column(String)
    trigger: Mapped[str] = mapped_column(String)
    state: Mapped[str] = mapped_column(String)
    enqueued_at: Mapped[datetime] = mapped_column(UtcTime)
    leased_at: Mapped[datetime | None] = mapped_column(UtcTime)
    holder: Mapped[str | None] = mapped_column(String)
    num_attempts: Mapped[int] = mapped_column(Integer)
    run_id: Mapped[str | None] = mapped_column(String)
    due_at: Mapped[datetime | None] = mapped_column(UtcTime)
    reason: Mapped[str | None] = mapped_column(Text)
    machine: Mapped[str | None] = mapped_column(String)


class SchedulerTable(Base):
    """What the scheduler of a machine said of itself last; `process` is `host/pid/start`.

    `doing` is empty while it waits. `schedules`, `devices` and `disks` are lists as JSON;
    `num_waiting` and `num_broken` count the files of its spool.
    """

    __tablename__ = "schedulers"

    machine: Mapped[str] = mapped_column(String, primary_key=True)
    process: Mapped[str] = mapped_column(String)
    version: Mapped[str] = mapped_column(String)
    started_at: Mapped[datetime] = mapped_column(UtcTime)
    heartbeat_at: Mapped[datetime] = mapped_column(UtcTime)
    doing: Mapped[str] = mapped_column(Text)
    schedules: Mapped[list[dict[str, Any]]] = mapped_column(JSON)
    devices: Mapped[list[dict[str, Any]]] = mapped_column(JSON)
    disks: Mapped[list[dict[str, Any]]] = mapped_column(JSON)
    num_waiting: Mapped[int] = mapped_column(Integer)
    num_broken: Mapped[int] = mapped_column(Integer)


class LiveLogTable(Base):
    """What the running case of a run has printed last; gone when the run ends.

    `log` is an object in JSON: the case, and its last lines with the bytes before each.
    """

    __tablename__ = "live_logs"

    run_id: Mapped[str] = mapped_column(String, primary_key=True)
    at: Mapped[datetime] = mapped_column(UtcTime)
    log: Mapped[dict[str, Any]] = mapped_column(JSON)


class AnnotationTable(Base):
    """One row an annotation of a date, never deleted: what, for which series, who said so when.

    `pattern` is a glob of `case#metric`. `removed_by` and `removed_at` are null while it is shown.
    """

    __tablename__ = "annotations"

    id: Mapped[str] = mapped_column(String, primary_key=True)
    at: Mapped[datetime] = mapped_column(UtcTime)
    pattern: Mapped[str] = mapped_column(String)
    text: Mapped[str] = mapped_column(Text)
    by: Mapped[str] = mapped_column(String)
    made_at: Mapped[datetime] = mapped_column(UtcTime)
    removed_by: Mapped[str | None] = mapped_column(String)
    removed_at: Mapped[datetime | None] = mapped_column(UtcTime)
