"""The tables, the same on DuckDB and PostgreSQL.

There are no foreign keys, and no keys or indexes on fact tables. On DuckDB they cost a quarter or
more of the file, slow appends forty-fold and speed up nothing (docs/adr). Ingest keeps the tables
consistent by writing a case result with all its rows in one transaction. PostgreSQL, which stores
rows and not columns, gets plain indexes.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Boolean, DateTime, Double, Index, Integer, String, Text
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

UtcTime = DateTime(timezone=True)


class Base(DeclarativeBase):
    """Root of all tables."""


class RunTable(Base):
    """One row a run; `plan_hash` names its row of `plans`, `num_planned` counts the cases there."""

    __tablename__ = "runs"

    id: Mapped[str] = mapped_column(String, primary_key=True)
    state: Mapped[str] = mapped_column(String)
    started_at: Mapped[datetime] = mapped_column(UtcTime)
    finished_at: Mapped[datetime | None] = mapped_column(UtcTime)
    heartbeat_at: Mapped[datetime | None] = mapped_column(UtcTime)
    suite: Mapped[str] = mapped_column(String)
    toolchain: Mapped[str] = mapped_column(String)
    revision: Mapped[str] = mapped_column(String)
    machine: Mapped[str] = mapped_column(String)
    fingerprint: Mapped[str] = mapped_column(String)
    environment: Mapped[dict[str, Any]] = mapped_column(JSON)
    plan_hash: Mapped[str] = mapped_column(String)
    num_planned: Mapped[int] = mapped_column(Integer)
    trigger: Mapped[str] = mapped_column(String)
    is_synthetic: Mapped[bool] = mapped_column(Boolean)


class PlanTable(Base):
    """The plans of runs: cases as a list in JSON, each plan once, since nights repeat it."""

    __tablename__ = "plans"

    hash: Mapped[str] = mapped_column(String, primary_key=True)
    cases: Mapped[list[dict[str, Any]]] = mapped_column(JSON)


class CaseTable(Base):
    """One row a case that was ever planned or measured."""

    __tablename__ = "cases"

    key: Mapped[str] = mapped_column(String, primary_key=True)
    model: Mapped[str] = mapped_column(String)
    family: Mapped[str] = mapped_column(String)
    phase: Mapped[str] = mapped_column(String)
    shape: Mapped[str] = mapped_column(String)
    dtype: Mapped[str] = mapped_column(String)
    mode: Mapped[str] = mapped_column(String)
    variant: Mapped[str] = mapped_column(String)
    backend: Mapped[str] = mapped_column(String)
    device: Mapped[str] = mapped_column(String)


class CaseResultTable(Base):
    """One row a case result; the numbers are in `measurements` and `samples`. The key is id."""

    __tablename__ = "case_results"

    id: Mapped[str] = mapped_column(String)
    run_id: Mapped[str] = mapped_column(String)
    case_key: Mapped[str] = mapped_column(String)
    outcome: Mapped[str] = mapped_column(String)
    reason: Mapped[str] = mapped_column(Text)
    effective_mode: Mapped[str] = mapped_column(String)
    started_at: Mapped[datetime] = mapped_column(UtcTime)
    finished_at: Mapped[datetime] = mapped_column(UtcTime)
    warnings: Mapped[list[dict[str, Any]]] = mapped_column(JSON)
    details: Mapped[dict[str, Any]] = mapped_column(JSON)
    log_tail: Mapped[str] = mapped_column(Text)

    __table_args__ = (Index("ix_case_results_id", "id").ddl_if(dialect="postgresql"),)
    __mapper_args__ = {"primary_key": [id]}


class SupersededTable(Base):
    """Written by ingest: results that no longer count, since the run measured their case again."""

    __tablename__ = "superseded"

    result_id: Mapped[str] = mapped_column(String, primary_key=True)


class MeasurementTable(Base):
    """Fact table: one row a metric of a case result. The key is (result_id, metric).

    `series_key` and `run_started_at` are repeated here so that a trend reads only this table.
    `series_hash` is the number of seven hexadecimal digits that the MD5 of the key begins with:
    numbers are looked up faster than text. `launches` is the number of samples of each fresh
    process, as JSON.
    """

    __tablename__ = "measurements"

    result_id: Mapped[str] = mapped_column(String)
    metric: Mapped[str] = mapped_column(String)
    series_key: Mapped[str] = mapped_column(String)
    run_id: Mapped[str] = mapped_column(String)
    case_key: Mapped[str] = mapped_column(String)
    run_started_at: Mapped[datetime] = mapped_column(UtcTime)
    unit: Mapped[str] = mapped_column(String)
    num_samples: Mapped[int] = mapped_column(Integer)
    median: Mapped[float] = mapped_column(Double)
    low: Mapped[float] = mapped_column(Double)
    high: Mapped[float] = mapped_column(Double)
    method: Mapped[str] = mapped_column(Text)
    launches: Mapped[list[int]] = mapped_column(JSON)
    # Null at first in rows of older releases: DuckDB adds no other column.
    series_hash: Mapped[int | None] = mapped_column(Integer)

    __table_args__ = (
        Index("ix_measurements_result", "result_id").ddl_if(dialect="postgresql"),
        Index("ix_measurements_series", "series_key").ddl_if(dialect="postgresql"),
    )
    # The ORM needs a key; the database gets none.
    __mapper_args__ = {"primary_key": [result_id, metric]}


class ArrangedTable(Base):
    """One row a window of a table in series order (db/maintenance/compaction.py).

    `until` is the start of the last run of the window; the window begins at the end of the previous
    one.
    """

    __tablename__ = "arranged"

    name: Mapped[str] = mapped_column(String, primary_key=True)
    until: Mapped[datetime] = mapped_column(UtcTime, primary_key=True)
    level: Mapped[int] = mapped_column(Integer)


class SampleTable(Base):
    """Fact table: one row a sample. The key is (result_id, metric, is_warmup, position)."""

    __tablename__ = "samples"

    result_id: Mapped[str] = mapped_column(String)
    metric: Mapped[str] = mapped_column(String)
    is_warmup: Mapped[bool] = mapped_column(Boolean)
    position: Mapped[int] = mapped_column(Integer)
    launch: Mapped[int] = mapped_column(Integer)
    value: Mapped[float] = mapped_column(Double)

    __table_args__ = (Index("ix_samples_result", "result_id").ddl_if(dialect="postgresql"),)
    __mapper_args__ = {"primary_key": [result_id, metric, is_warmup, position]}


class KernelTable(Base):
    """Fact table: one row a kernel of a case result, in seconds. The key is (result_id, position).

    `position` is the kernel's index in the result. Unknown numbers are null. `operators`, `config`
    and `launch` are JSON. `source_hash` names a row of `kernel_sources` and `origins_hash` one of
    `kernel_origins`; each may be empty.
    """

    __tablename__ = "kernels"

    result_id: Mapped[str] = mapped_column(String)
    position: Mapped[int] = mapped_column(Integer)
    name: Mapped[str] = mapped_column(Text)
    label: Mapped[str] = mapped_column(Text)
    kind: Mapped[str] = mapped_column(String)
    library: Mapped[str] = mapped_column(String)
    device: Mapped[str] = mapped_column(String)
    count: Mapped[float] = mapped_column(Double)
    total_s: Mapped[float] = mapped_column(Double)
    mean_s: Mapped[float] = mapped_column(Double)
    min_s: Mapped[float] = mapped_column(Double)
    share: Mapped[float] = mapped_column(Double)
    num_bytes: Mapped[float | None] = mapped_column(Double)
    flops: Mapped[float | None] = mapped_column(Double)
    roofline: Mapped[float | None] = mapped_column(Double)
    operators: Mapped[list[str]] = mapped_column(JSON)
    module: Mapped[str] = mapped_column(Text)
    shapes: Mapped[str] = mapped_column(Text)
    source_hash: Mapped[str] = mapped_column(String)
    config: Mapped[dict[str, Any]] = mapped_column(JSON)
    launch: Mapped[dict[str, Any]] = mapped_column(JSON)
    origins_hash: Mapped[str] = mapped_column(String)

    __table_args__ = (Index("ix_kernels_result", "result_id").ddl_if(dialect="postgresql"),)
    __mapper_args__ = {"primary_key": [result_id, position]}


class KernelSourceTable(Base):
    """The generated code of kernels, stored once however many results have it."""

    __tablename__ = "kernel_sources"

    hash: Mapped[str] = mapped_column(String, primary_key=True)
    language: Mapped[str] = mapped_column(String)
    text: Mapped[str] = mapped_column(Text)


class KernelOriginsTable(Base):
    """The nodes of the graph that a kernel computes, as a list in JSON, stored once.

    They repeat night after night, and are long: in `kernels` they were two thirds of the table.
    """

    __tablename__ = "kernel_origins"

    hash: Mapped[str] = mapped_column(String, primary_key=True)
    origins: Mapped[list[dict[str, Any]]] = mapped_column(JSON)


class SeriesTable(Base):
    """Summary written by ingest: one row a series with its latest point.

    `direction` is the better direction as imported records state it (null without one).
    `direction_at` is the start of the last run that stated it.
    """

    __tablename__ = "series"

    key: Mapped[str] = mapped_column(String, primary_key=True)
    case_key: Mapped[str] = mapped_column(String)
    metric: Mapped[str] = mapped_column(String)
    unit: Mapped[str] = mapped_column(String)
    machine: Mapped[str] = mapped_column(String)
    fingerprint: Mapped[str] = mapped_column(String)
    num_points: Mapped[int] = mapped_column(Integer)
    first_at: Mapped[datetime] = mapped_column(UtcTime)
    last_at: Mapped[datetime] = mapped_column(UtcTime)
    last_run_id: Mapped[str] = mapped_column(String)
    last_value: Mapped[float] = mapped_column(Double)
    direction: Mapped[str | None] = mapped_column(String)
    direction_at: Mapped[datetime | None] = mapped_column(UtcTime)


class LatestResultTable(Base):
    """Summary written by ingest: the newest result of each case on each machine in each toolchain.

    A deferred case has no result here. The key is (machine, toolchain, case_key).
    """

    __tablename__ = "latest_results"

    machine: Mapped[str] = mapped_column(String)
    toolchain: Mapped[str] = mapped_column(String)
    case_key: Mapped[str] = mapped_column(String)
    result_id: Mapped[str] = mapped_column(String)
    run_id: Mapped[str] = mapped_column(String)
    run_started_at: Mapped[datetime] = mapped_column(UtcTime)
    revision: Mapped[str] = mapped_column(String)
    fingerprint: Mapped[str] = mapped_column(String)
    outcome: Mapped[str] = mapped_column(String)
    reason: Mapped[str] = mapped_column(Text)
    effective_mode: Mapped[str] = mapped_column(String)
    started_at: Mapped[datetime] = mapped_column(UtcTime)
    finished_at: Mapped[datetime] = mapped_column(UtcTime)
    warnings: Mapped[list[dict[str, Any]]] = mapped_column(JSON)

    __table_args__ = (Index("ix_latest_results_case", "case_key").ddl_if(dialect="postgresql"),)
    __mapper_args__ = {"primary_key": [machine, toolchain, case_key]}


class LatestMeasurementTable(Base):
    """Summary written by ingest: the measurements of the results in `latest_results`.

    The key is (machine, toolchain, case_key, metric).
    """

    __tablename__ = "latest_measurements"

    machine: Mapped[str] = mapped_column(String)
    toolchain: Mapped[str] = mapped_column(String)
    case_key: Mapped[str] = mapped_column(String)
    metric: Mapped[str] = mapped_column(String)
    unit: Mapped[str] = mapped_column(String)
    num_samples: Mapped[int] = mapped_column(Integer)
    median: Mapped[float] = mapped_column(Double)
    low: Mapped[float] = mapped_column(Double)
    high: Mapped[float] = mapped_column(Double)
    method: Mapped[str] = mapped_column(Text)

    __table_args__ = (
        Index("ix_latest_measurements_case", "case_key").ddl_if(dialect="postgresql"),
    )
    __mapper_args__ = {"primary_key": [machine, toolchain, case_key, metric]}


class AlertTable(Base):
    """One row an alert; `last_good_*`, numbers and settings may be null."""

    __tablename__ = "alerts"

    id: Mapped[str] = mapped_column(String, primary_key=True)
    series_key: Mapped[str] = mapped_column(String)
    kind: Mapped[str] = mapped_column(String)
    state: Mapped[str] = mapped_column(String)
    verdict: Mapped[str] = mapped_column(String)
    case_key: Mapped[str] = mapped_column(String)
    metric: Mapped[str] = mapped_column(String)
    unit: Mapped[str] = mapped_column(String)
    machine: Mapped[str] = mapped_column(String)
    toolchain: Mapped[str] = mapped_column(String)
    fingerprint: Mapped[str] = mapped_column(String)
    first_bad_run_id: Mapped[str] = mapped_column(String)
    first_bad_revision: Mapped[str] = mapped_column(String)
    first_bad_at: Mapped[datetime] = mapped_column(UtcTime)
    last_good_run_id: Mapped[str | None] = mapped_column(String)
    last_good_revision: Mapped[str | None] = mapped_column(String)
    last_good_at: Mapped[datetime | None] = mapped_column(UtcTime)
    last_seen: Mapped[datetime] = mapped_column(UtcTime)
    baseline: Mapped[float | None] = mapped_column(Double)
    candidate: Mapped[float | None] = mapped_column(Double)
    change_pct: Mapped[float | None] = mapped_column(Double)
    interval_low_pct: Mapped[float | None] = mapped_column(Double)
    interval_high_pct: Mapped[float | None] = mapped_column(Double)
    is_significant: Mapped[bool] = mapped_column(Boolean)
    is_relevant: Mapped[bool] = mapped_column(Boolean)
    is_confirmed: Mapped[bool | None] = mapped_column(Boolean)
    cause_kind: Mapped[str] = mapped_column(String)
    cause_text: Mapped[str] = mapped_column(Text)
    event_id: Mapped[str | None] = mapped_column(String)
    owner: Mapped[str | None] = mapped_column(String)
    muted_until: Mapped[datetime | None] = mapped_column(UtcTime)
    note: Mapped[str | None] = mapped_column(Text)
    confirmation: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    environment_diff: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))


class AlertChangeTable(Base):
    """One row a change of an alert or of a pattern's settings, never updated.

    It has author, time and reason; `number` counts the changes in the order in which they were
    made.
    """

    __tablename__ = "alert_changes"

    id: Mapped[str] = mapped_column(String, primary_key=True)
    number: Mapped[int] = mapped_column(Integer)
    alert_id: Mapped[str] = mapped_column(String)
    pattern: Mapped[str] = mapped_column(String)
    at: Mapped[datetime] = mapped_column(UtcTime)
    by: Mapped[str] = mapped_column(String)
    field: Mapped[str] = mapped_column(String)
    old: Mapped[str] = mapped_column(Text)
    new: Mapped[str] = mapped_column(Text)
    why: Mapped[str] = mapped_column(Text)


class SeriesSettingsTable(Base):
    """One row a pattern: the settings of the series that match it; null is not set.

    A pattern is the key of a series or a glob of `case#metric`.
    """

    __tablename__ = "series_settings"

    pattern: Mapped[str] = mapped_column(String, primary_key=True)
    floor: Mapped[float | None] = mapped_column(Double)
    muted_until: Mapped[datetime | None] = mapped_column(UtcTime)
    owner: Mapped[str | None] = mapped_column(String)
    baseline_run_id: Mapped[str | None] = mapped_column(String)


class EventTable(Base):
    """One row an event: one change, whatever the number of its alerts."""

    __tablename__ = "events"

    id: Mapped[str] = mapped_column(String, primary_key=True)
    kind: Mapped[str] = mapped_column(String)
    title: Mapped[str] = mapped_column(Text)
    size: Mapped[int] = mapped_column(Integer)


class JudgedTable(Base):
    """The candidates of one case, so that the detector runs again only for cases with new results.

    `stamp` names the results, rules and code behind them; `claims` is a list in JSON.
    """

    __tablename__ = "judged"

    case_key: Mapped[str] = mapped_column(String, primary_key=True)
    stamp: Mapped[str] = mapped_column(String)
    claims: Mapped[str] = mapped_column(Text)


class IngestedTable(Base):
    """The ingested spool files, which make ingest exactly-once. The key is spool_id."""

    __tablename__ = "ingested"

    spool_id: Mapped[str] = mapped_column(String)
    ingested_at: Mapped[datetime] = mapped_column(UtcTime)

    __table_args__ = (Index("ix_ingested_spool_id", "spool_id").ddl_if(dialect="postgresql"),)
    __mapper_args__ = {"primary_key": [spool_id]}


class StoreVersionTable(Base):
    """One row (id 1): a counter that every write raises, for stores without a stamp file.

    On PostgreSQL its row lock is also the lock of writers: one at a time.
    """

    __tablename__ = "generation"

    id: Mapped[int] = mapped_column(Integer, primary_key=True, autoincrement=False)
    value: Mapped[int] = mapped_column(BigInteger)


class JobTable(Base):
    """A queued request for one run; `dedupe_key` keeps a schedule's night from running twice.

    Only the scheduler of `machine` takes it, any scheduler if that is null. `holder` is the process
    that leased it (`host/pid/start`), so that a dead holder is recognised. It is not taken before
    `due_at`; `reason` says why it failed or is tried again.
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
    """The last report of the scheduler of a machine; `process` is `host/pid/start`.

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
    """The last output of the running case of a run; deleted when the run ends.

    `log` is an object in JSON: the case, and its last lines with the bytes before each.
    """

    __tablename__ = "live_logs"

    run_id: Mapped[str] = mapped_column(String, primary_key=True)
    at: Mapped[datetime] = mapped_column(UtcTime)
    log: Mapped[dict[str, Any]] = mapped_column(JSON)


class AnnotationTable(Base):
    """One row an annotation of a date, never deleted: text, series, author and time.

    `pattern` is a glob of `case#metric`. `removed_by` and `removed_at` are null until its removal.
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


class OutboxTable(Base):
    """One row a notification, written in the transaction of its alerts.

    `id` is its idempotency key, `number` its position in the order, `alert_ids` a list in JSON.
    `delivery_id` names the delivery that sends it, and `holder` the process.
    """

    __tablename__ = "outbox"

    id: Mapped[str] = mapped_column(String, primary_key=True)
    number: Mapped[int] = mapped_column(Integer)
    receiver: Mapped[str] = mapped_column(String)
    subject: Mapped[str] = mapped_column(String)
    kind: Mapped[str] = mapped_column(String)
    severity: Mapped[str] = mapped_column(String)
    title: Mapped[str] = mapped_column(Text)
    alert_ids: Mapped[list[str]] = mapped_column(JSON)
    created_at: Mapped[datetime] = mapped_column(UtcTime)
    due_at: Mapped[datetime] = mapped_column(UtcTime)
    state: Mapped[str] = mapped_column(String)
    num_attempts: Mapped[int] = mapped_column(Integer)
    num_together: Mapped[int] = mapped_column(Integer)
    delivery_id: Mapped[str] = mapped_column(String)
    holder: Mapped[str] = mapped_column(String)
    attempted_at: Mapped[datetime | None] = mapped_column(UtcTime)
    last_error: Mapped[str] = mapped_column(Text)


class ReceiverTable(Base):
    """One row a receiver of notifications that failed: failures in a row, and the end of its pause.

    Only hud.toml has its address and secret.
    """

    __tablename__ = "receivers"

    receiver: Mapped[str] = mapped_column(String, primary_key=True)
    num_failures: Mapped[int] = mapped_column(Integer)
    held_until: Mapped[datetime | None] = mapped_column(UtcTime)


class MessageTable(Base):
    """One row a message that its receiver can change: the receiver's name for it, and its subject.

    `notification_ids` is a list in JSON. A failed update is tried again at `due_at`.
    """

    __tablename__ = "messages"

    receiver: Mapped[str] = mapped_column(String, primary_key=True)
    reference: Mapped[str] = mapped_column(String, primary_key=True)
    notification_ids: Mapped[list[str]] = mapped_column(JSON)
    sent_at: Mapped[datetime] = mapped_column(UtcTime)
    num_failures: Mapped[int] = mapped_column(Integer)
    due_at: Mapped[datetime | None] = mapped_column(UtcTime)


class MessageAlertTable(Base):
    """One row an alert of such a message: the state that the message reports."""

    __tablename__ = "message_alerts"

    receiver: Mapped[str] = mapped_column(String, primary_key=True)
    reference: Mapped[str] = mapped_column(String, primary_key=True)
    alert_id: Mapped[str] = mapped_column(String, primary_key=True)
    state: Mapped[str] = mapped_column(String)
