"""The tables, the same on DuckDB and PostgreSQL.

There are no foreign keys, and no keys or indexes on fact tables. On DuckDB they cost a quarter or
more of the file, slow appends forty-fold and speed up nothing (docs/adr). Ingest keeps the tables
consistent by writing a case result with all its rows in one transaction. PostgreSQL, which stores
rows and not columns, gets plain indexes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    DateTime,
    Double,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypedColumns,
)

UtcTime = DateTime(timezone=True)
METADATA: Final = MetaData()
_Columns = TypeVar("_Columns", bound=TypedColumns)


def _table(
    name: str, columns: type[_Columns], *indexes: Index, key: Sequence[str] = ()
) -> Table[_Columns]:
    """Return the table with `columns`, described by their docstring.

    `key` names the columns that identify a row where the database has no primary key.
    """
    return Table(name, METADATA, columns, *indexes, info={"about": columns.__doc__, "key": key})


class RunColumns(TypedColumns):
    """One row a run; `plan_hash` names its row of `plans`, `num_planned` counts the cases there."""

    id = Column(String, primary_key=True)
    state = Column(String, nullable=False)
    started_at = Column(UtcTime, nullable=False)
    finished_at = Column(UtcTime)
    heartbeat_at = Column(UtcTime)
    suite = Column(String, nullable=False)
    toolchain = Column(String, nullable=False)
    revision = Column(String, nullable=False)
    machine = Column(String, nullable=False)
    fingerprint = Column(String, nullable=False)
    environment = Column(JSON, nullable=False)
    plan_hash = Column(String, nullable=False)
    num_planned = Column(Integer, nullable=False)
    trigger = Column(String, nullable=False)
    is_synthetic = Column(Boolean, nullable=False)


RunTable = _table("runs", RunColumns)


class PlanColumns(TypedColumns):
    """The plans of runs: cases as a list in JSON, each plan once, since nights repeat it."""

    hash = Column(String, primary_key=True)
    cases = Column(JSON, nullable=False)


PlanTable = _table("plans", PlanColumns)


class CaseColumns(TypedColumns):
    """One row a case that was ever planned or measured."""

    key = Column(String, primary_key=True)
    model = Column(String, nullable=False)
    family = Column(String, nullable=False)
    phase = Column(String, nullable=False)
    shape = Column(String, nullable=False)
    dtype = Column(String, nullable=False)
    mode = Column(String, nullable=False)
    variant = Column(String, nullable=False)
    backend = Column(String, nullable=False)
    device = Column(String, nullable=False)


CaseTable = _table("cases", CaseColumns)


class CaseResultColumns(TypedColumns):
    """One row a case result; the numbers are in `measurements` and `samples`. The key is id."""

    id = Column(String, nullable=False)
    run_id = Column(String, nullable=False)
    case_key = Column(String, nullable=False)
    outcome = Column(String, nullable=False)
    reason = Column(Text, nullable=False)
    effective_mode = Column(String, nullable=False)
    started_at = Column(UtcTime, nullable=False)
    finished_at = Column(UtcTime, nullable=False)
    warnings = Column(JSON, nullable=False)
    details = Column(JSON, nullable=False)
    log_tail = Column(Text, nullable=False)


CaseResultTable = _table(
    "case_results",
    CaseResultColumns,
    Index("ix_case_results_id", "id").ddl_if(dialect="postgresql"),
    key=("id",),
)


class SupersededColumns(TypedColumns):
    """Written by ingest: results that no longer count, since the run measured their case again."""

    result_id = Column(String, primary_key=True)


SupersededTable = _table("superseded", SupersededColumns)


class MeasurementColumns(TypedColumns):
    """Fact table: one row a metric of a case result. The key is (result_id, metric).

    `series_key` and `run_started_at` are repeated here so that a trend reads only this table.
    `series_hash` is the number of seven hexadecimal digits that the MD5 of the key begins with:
    numbers are looked up faster than text. `launches` is the number of samples of each fresh
    process, as JSON.
    """

    result_id = Column(String, nullable=False)
    metric = Column(String, nullable=False)
    series_key = Column(String, nullable=False)
    run_id = Column(String, nullable=False)
    case_key = Column(String, nullable=False)
    run_started_at = Column(UtcTime, nullable=False)
    unit = Column(String, nullable=False)
    num_samples = Column(Integer, nullable=False)
    median = Column(Double, nullable=False)
    low = Column(Double, nullable=False)
    high = Column(Double, nullable=False)
    method = Column(Text, nullable=False)
    launches = Column(JSON, nullable=False)
    # Null at first in rows of older releases: DuckDB adds no other column.
    series_hash = Column(Integer)


MeasurementTable = _table(
    "measurements",
    MeasurementColumns,
    Index("ix_measurements_result", "result_id").ddl_if(dialect="postgresql"),
    Index("ix_measurements_series", "series_key").ddl_if(dialect="postgresql"),
    key=("result_id", "metric"),
)


class ArrangedColumns(TypedColumns):
    """One row a window of a table in series order (db/maintenance/compaction.py).

    `until` is the start of the last run of the window; the window begins at the end of the previous
    one.
    """

    name = Column(String, primary_key=True)
    until = Column(UtcTime, primary_key=True)
    level = Column(Integer, nullable=False)


ArrangedTable = _table("arranged", ArrangedColumns)


class SampleColumns(TypedColumns):
    """Fact table: one row a sample. The key is (result_id, metric, is_warmup, position)."""

    result_id = Column(String, nullable=False)
    metric = Column(String, nullable=False)
    is_warmup = Column(Boolean, nullable=False)
    position = Column(Integer, nullable=False)
    launch = Column(Integer, nullable=False)
    value = Column(Double, nullable=False)


SampleTable = _table(
    "samples",
    SampleColumns,
    Index("ix_samples_result", "result_id").ddl_if(dialect="postgresql"),
    key=("result_id", "metric", "is_warmup", "position"),
)


class KernelColumns(TypedColumns):
    """Fact table: one row a kernel of a case result, in seconds. The key is (result_id, position).

    `position` is the kernel's index in the result. Unknown numbers are null. `operators`, `config`
    and `launch` are JSON. `source_hash` names a row of `kernel_sources` and `origins_hash` one of
    `kernel_origins`; each may be empty.
    """

    result_id = Column(String, nullable=False)
    position = Column(Integer, nullable=False)
    name = Column(Text, nullable=False)
    label = Column(Text, nullable=False)
    kind = Column(String, nullable=False)
    library = Column(String, nullable=False)
    device = Column(String, nullable=False)
    count = Column(Double, nullable=False)
    total_s = Column(Double, nullable=False)
    mean_s = Column(Double, nullable=False)
    min_s = Column(Double, nullable=False)
    share = Column(Double, nullable=False)
    num_bytes = Column(Double)
    flops = Column(Double)
    roofline = Column(Double)
    operators = Column(JSON, nullable=False)
    module = Column(Text, nullable=False)
    shapes = Column(Text, nullable=False)
    source_hash = Column(String, nullable=False)
    config = Column(JSON, nullable=False)
    launch = Column(JSON, nullable=False)
    origins_hash = Column(String, nullable=False)


KernelTable = _table(
    "kernels",
    KernelColumns,
    Index("ix_kernels_result", "result_id").ddl_if(dialect="postgresql"),
    key=("result_id", "position"),
)


class KernelSourceColumns(TypedColumns):
    """The generated code of kernels, stored once however many results have it."""

    hash = Column(String, primary_key=True)
    language = Column(String, nullable=False)
    text = Column(Text, nullable=False)


KernelSourceTable = _table("kernel_sources", KernelSourceColumns)


class KernelOriginsColumns(TypedColumns):
    """The nodes of the graph that a kernel computes, as a list in JSON, stored once.

    They repeat night after night, and are long: in `kernels` they were two thirds of the table.
    """

    hash = Column(String, primary_key=True)
    origins = Column(JSON, nullable=False)


KernelOriginsTable = _table("kernel_origins", KernelOriginsColumns)


class SeriesColumns(TypedColumns):
    """Summary written by ingest: one row a series with its latest point.

    `direction` is the better direction as imported records state it (null without one).
    `direction_at` is the start of the last run that stated it.
    """

    key = Column(String, primary_key=True)
    case_key = Column(String, nullable=False)
    metric = Column(String, nullable=False)
    unit = Column(String, nullable=False)
    machine = Column(String, nullable=False)
    fingerprint = Column(String, nullable=False)
    num_points = Column(Integer, nullable=False)
    first_at = Column(UtcTime, nullable=False)
    last_at = Column(UtcTime, nullable=False)
    last_run_id = Column(String, nullable=False)
    last_value = Column(Double, nullable=False)
    direction = Column(String)
    direction_at = Column(UtcTime)


SeriesTable = _table("series", SeriesColumns)


class LatestResultColumns(TypedColumns):
    """Summary written by ingest: the newest result of each case on each machine in each toolchain.

    A deferred case has no result here. The key is (machine, toolchain, case_key).
    """

    machine = Column(String, nullable=False)
    toolchain = Column(String, nullable=False)
    case_key = Column(String, nullable=False)
    result_id = Column(String, nullable=False)
    run_id = Column(String, nullable=False)
    run_started_at = Column(UtcTime, nullable=False)
    revision = Column(String, nullable=False)
    fingerprint = Column(String, nullable=False)
    outcome = Column(String, nullable=False)
    reason = Column(Text, nullable=False)
    effective_mode = Column(String, nullable=False)
    started_at = Column(UtcTime, nullable=False)
    finished_at = Column(UtcTime, nullable=False)
    warnings = Column(JSON, nullable=False)


LatestResultTable = _table(
    "latest_results",
    LatestResultColumns,
    Index("ix_latest_results_case", "case_key").ddl_if(dialect="postgresql"),
    key=("machine", "toolchain", "case_key"),
)


class LatestMeasurementColumns(TypedColumns):
    """Summary written by ingest: the measurements of the results in `latest_results`.

    The key is (machine, toolchain, case_key, metric).
    """

    machine = Column(String, nullable=False)
    toolchain = Column(String, nullable=False)
    case_key = Column(String, nullable=False)
    metric = Column(String, nullable=False)
    unit = Column(String, nullable=False)
    num_samples = Column(Integer, nullable=False)
    median = Column(Double, nullable=False)
    low = Column(Double, nullable=False)
    high = Column(Double, nullable=False)
    method = Column(Text, nullable=False)


LatestMeasurementTable = _table(
    "latest_measurements",
    LatestMeasurementColumns,
    Index("ix_latest_measurements_case", "case_key").ddl_if(dialect="postgresql"),
    key=("machine", "toolchain", "case_key", "metric"),
)


class TrendResultColumns(TypedColumns):
    """Summary written by ingest: the result of each case of a mode in each run, one row each.

    The trends of the modes read it. Each metric has its median and interval, null without a
    measurement. `same_code_as` is the variant that was measured instead, empty for none. Superseded
    and deferred results have no row. The key is (run_id, case_key).
    """

    run_id = Column(String, nullable=False)
    case_key = Column(String, nullable=False)
    run_started_at = Column(UtcTime, nullable=False)
    outcome = Column(String, nullable=False)
    effective_mode = Column(String, nullable=False)
    same_code_as = Column(String, nullable=False)
    speedup = Column(Double)
    speedup_low = Column(Double)
    speedup_high = Column(Double)
    compile_cold_s = Column(Double)
    compile_cold_s_low = Column(Double)
    compile_cold_s_high = Column(Double)
    compile_warm_s = Column(Double)
    compile_warm_s_low = Column(Double)
    compile_warm_s_high = Column(Double)
    peak_bytes = Column(Double)
    peak_bytes_low = Column(Double)
    peak_bytes_high = Column(Double)
    energy_j = Column(Double)
    energy_j_low = Column(Double)
    energy_j_high = Column(Double)


TrendResultTable = _table(
    "trend_results",
    TrendResultColumns,
    Index("ix_trend_results_run", "run_id").ddl_if(dialect="postgresql"),
    key=("run_id", "case_key"),
)


class AlertColumns(TypedColumns):
    """One row an alert; `last_good_*`, numbers and settings may be null."""

    id = Column(String, primary_key=True)
    series_key = Column(String, nullable=False)
    kind = Column(String, nullable=False)
    state = Column(String, nullable=False)
    verdict = Column(String, nullable=False)
    case_key = Column(String, nullable=False)
    metric = Column(String, nullable=False)
    unit = Column(String, nullable=False)
    machine = Column(String, nullable=False)
    toolchain = Column(String, nullable=False)
    fingerprint = Column(String, nullable=False)
    first_bad_run_id = Column(String, nullable=False)
    first_bad_revision = Column(String, nullable=False)
    first_bad_at = Column(UtcTime, nullable=False)
    last_good_run_id = Column(String)
    last_good_revision = Column(String)
    last_good_at = Column(UtcTime)
    last_seen = Column(UtcTime, nullable=False)
    baseline = Column(Double)
    candidate = Column(Double)
    change_pct = Column(Double)
    interval_low_pct = Column(Double)
    interval_high_pct = Column(Double)
    is_significant = Column(Boolean, nullable=False)
    is_relevant = Column(Boolean, nullable=False)
    is_confirmed = Column(Boolean)
    cause_kind = Column(String, nullable=False)
    cause_text = Column(Text, nullable=False)
    event_id = Column(String)
    owner = Column(String)
    muted_until = Column(UtcTime)
    note = Column(Text)
    confirmation = Column(JSON(none_as_null=True))
    environment_diff = Column(JSON(none_as_null=True))
    bisection = Column(JSON(none_as_null=True))


AlertTable = _table("alerts", AlertColumns)


class AlertChangeColumns(TypedColumns):
    """One row a change of an alert or of a pattern's settings, never updated.

    It has author, time and reason; `number` counts the changes in the order in which they were
    made.
    """

    id = Column(String, primary_key=True)
    number = Column(Integer, nullable=False)
    alert_id = Column(String, nullable=False)
    pattern = Column(String, nullable=False)
    at = Column(UtcTime, nullable=False)
    by = Column(String, nullable=False)
    field = Column(String, nullable=False)
    old = Column(Text, nullable=False)
    new = Column(Text, nullable=False)
    why = Column(Text, nullable=False)


AlertChangeTable = _table("alert_changes", AlertChangeColumns)


class SeriesSettingsColumns(TypedColumns):
    """One row a pattern: the settings of the series that match it; null is not set.

    A pattern is the key of a series or a glob of `case#metric`.
    """

    pattern = Column(String, primary_key=True)
    floor = Column(Double)
    muted_until = Column(UtcTime)
    owner = Column(String)
    baseline_run_id = Column(String)


SeriesSettingsTable = _table("series_settings", SeriesSettingsColumns)


class EventColumns(TypedColumns):
    """One row an event: one change, whatever the number of its alerts."""

    id = Column(String, primary_key=True)
    kind = Column(String, nullable=False)
    title = Column(Text, nullable=False)
    size = Column(Integer, nullable=False)


EventTable = _table("events", EventColumns)


class JudgedColumns(TypedColumns):
    """The candidates of one case, so that the detector runs again only for cases with new results.

    `stamp` names the results, rules and code behind them; `claims` is a list in JSON.
    """

    case_key = Column(String, primary_key=True)
    stamp = Column(String, nullable=False)
    claims = Column(Text, nullable=False)


JudgedTable = _table("judged", JudgedColumns)


class IngestedColumns(TypedColumns):
    """The ingested spool files, which make ingest exactly-once. The key is spool_id."""

    spool_id = Column(String, nullable=False)
    ingested_at = Column(UtcTime, nullable=False)


IngestedTable = _table(
    "ingested",
    IngestedColumns,
    Index("ix_ingested_spool_id", "spool_id").ddl_if(dialect="postgresql"),
    key=("spool_id",),
)


class StoreVersionColumns(TypedColumns):
    """One row (id 1): a counter that every write raises, for stores without a stamp file.

    On PostgreSQL its row lock is also the lock of writers: one at a time.
    """

    id = Column(Integer, primary_key=True, autoincrement=False)
    value = Column(BigInteger, nullable=False)


StoreVersionTable = _table("generation", StoreVersionColumns)


class JobColumns(TypedColumns):
    """A queued request for one run; `dedupe_key` keeps a schedule's night from running twice.

    Only the scheduler of `machine` takes it, any scheduler if that is null. `holder` is the process
    that leased it (`host/pid/start`), so that a dead holder is recognised. It is not taken before
    `due_at`; `reason` says why it failed or is tried again.
    """

    id = Column(String, primary_key=True)
    dedupe_key = Column(String, nullable=False)
    suite = Column(String, nullable=False)
    toolchain = Column(String, nullable=False)
    trigger = Column(String, nullable=False)
    state = Column(String, nullable=False)
    enqueued_at = Column(UtcTime, nullable=False)
    leased_at = Column(UtcTime)
    holder = Column(String)
    num_attempts = Column(Integer, nullable=False)
    run_id = Column(String)
    due_at = Column(UtcTime)
    reason = Column(Text)
    machine = Column(String)


JobTable = _table("jobs", JobColumns)


class SchedulerColumns(TypedColumns):
    """The last report of the scheduler of a machine; `process` is `host/pid/start`.

    `doing` is empty while it waits. `schedules`, `devices` and `disks` are lists as JSON;
    `num_waiting` and `num_broken` count the files of its spool.
    """

    machine = Column(String, primary_key=True)
    process = Column(String, nullable=False)
    version = Column(String, nullable=False)
    started_at = Column(UtcTime, nullable=False)
    heartbeat_at = Column(UtcTime, nullable=False)
    doing = Column(Text, nullable=False)
    schedules = Column(JSON, nullable=False)
    devices = Column(JSON, nullable=False)
    disks = Column(JSON, nullable=False)
    num_waiting = Column(Integer, nullable=False)
    num_broken = Column(Integer, nullable=False)


SchedulerTable = _table("schedulers", SchedulerColumns)


class LiveLogColumns(TypedColumns):
    """The last output of the running case of a run; deleted when the run ends.

    `log` is an object in JSON: the case, and its last lines with the bytes before each.
    """

    run_id = Column(String, primary_key=True)
    at = Column(UtcTime, nullable=False)
    log = Column(JSON, nullable=False)


LiveLogTable = _table("live_logs", LiveLogColumns)


class AnnotationColumns(TypedColumns):
    """One row an annotation of a date, never deleted: text, series, author and time.

    `pattern` is a glob of `case#metric`. `removed_by` and `removed_at` are null until its removal.
    """

    id = Column(String, primary_key=True)
    at = Column(UtcTime, nullable=False)
    pattern = Column(String, nullable=False)
    text = Column(Text, nullable=False)
    by = Column(String, nullable=False)
    made_at = Column(UtcTime, nullable=False)
    removed_by = Column(String)
    removed_at = Column(UtcTime)


AnnotationTable = _table("annotations", AnnotationColumns)


class OutboxColumns(TypedColumns):
    """One row a notification, written in the transaction of its alerts.

    `id` is its idempotency key, `number` its position in the order, `alert_ids` a list in JSON.
    `delivery_id` names the delivery that sends it, and `holder` the process.
    """

    id = Column(String, primary_key=True)
    number = Column(Integer, nullable=False)
    receiver = Column(String, nullable=False)
    subject = Column(String, nullable=False)
    kind = Column(String, nullable=False)
    severity = Column(String, nullable=False)
    title = Column(Text, nullable=False)
    alert_ids = Column(JSON, nullable=False)
    created_at = Column(UtcTime, nullable=False)
    due_at = Column(UtcTime, nullable=False)
    state = Column(String, nullable=False)
    num_attempts = Column(Integer, nullable=False)
    num_together = Column(Integer, nullable=False)
    delivery_id = Column(String, nullable=False)
    holder = Column(String, nullable=False)
    attempted_at = Column(UtcTime)
    last_error = Column(Text, nullable=False)


OutboxTable = _table("outbox", OutboxColumns)


class ReceiverColumns(TypedColumns):
    """One row a receiver of notifications that failed: failures in a row, and the end of its pause.

    Only hud.toml has its address and secret.
    """

    receiver = Column(String, primary_key=True)
    num_failures = Column(Integer, nullable=False)
    held_until = Column(UtcTime)


ReceiverTable = _table("receivers", ReceiverColumns)


class MessageColumns(TypedColumns):
    """One row a message that its receiver can change: the receiver's name for it, and its subject.

    `notification_ids` is a list in JSON. A failed update is tried again at `due_at`.
    """

    receiver = Column(String, primary_key=True)
    reference = Column(String, primary_key=True)
    notification_ids = Column(JSON, nullable=False)
    sent_at = Column(UtcTime, nullable=False)
    num_failures = Column(Integer, nullable=False)
    due_at = Column(UtcTime)


MessageTable = _table("messages", MessageColumns)


class MessageAlertColumns(TypedColumns):
    """One row an alert of such a message: the state that the message reports."""

    receiver = Column(String, primary_key=True)
    reference = Column(String, primary_key=True)
    alert_id = Column(String, primary_key=True)
    state = Column(String, nullable=False)


MessageAlertTable = _table("message_alerts", MessageAlertColumns)
