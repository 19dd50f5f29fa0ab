"""Create every table: the oldest schema that can be upgraded.

A migration is history: it spells its tables out, since db/schema/tables.py changes. It has the
number that the schema had before the first release. Stores of that schema are upgraded, older ones
are refused.
"""

from __future__ import annotations

from typing import Final

import sqlalchemy as sa
from alembic import op

revision = "m0015"
down_revision: str | None = None
branch_labels = None
depends_on = None

# On DuckDB they cost much and speed up nothing.
_POSTGRESQL_INDEXES: Final = (
    ("ix_case_results_id", "case_results", "id"),
    ("ix_measurements_result", "measurements", "result_id"),
    ("ix_measurements_series", "measurements", "series_key"),
    ("ix_samples_result", "samples", "result_id"),
    ("ix_kernels_result", "kernels", "result_id"),
    ("ix_latest_results_case", "latest_results", "case_key"),
    ("ix_latest_measurements_case", "latest_measurements", "case_key"),
    ("ix_ingested_spool_id", "ingested", "spool_id"),
)


def upgrade() -> None:
    """Create every table."""
    _create_runs()
    _create_cases()
    _create_case_results()
    _create_measurements()
    _create_samples()
    _create_kernels()
    _create_kernel_texts()
    _create_series()
    _create_latest()
    _create_alerts()
    _create_alert_changes()
    _create_judging()
    _create_counters()
    _create_jobs()
    _create_schedulers()
    _create_logs_and_annotations()
    _create_outbox()
    _create_messages()
    _create_replies()
    if op.get_bind().dialect.name == "postgresql":
        for name, table, column in _POSTGRESQL_INDEXES:
            op.create_index(name, table, [column])


def downgrade() -> None:
    """Refuse: a downgrade would delete results."""
    raise NotImplementedError("copy a backup of the store back instead")


def _create_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("suite", sa.String, nullable=False),
        sa.Column("toolchain", sa.String, nullable=False),
        sa.Column("revision", sa.String, nullable=False),
        sa.Column("machine", sa.String, nullable=False),
        sa.Column("fingerprint", sa.String, nullable=False),
        sa.Column("environment", sa.JSON, nullable=False),
        sa.Column("plan_hash", sa.String, nullable=False),
        sa.Column("num_planned", sa.Integer, nullable=False),
        sa.Column("trigger", sa.String, nullable=False),
        sa.Column("is_synthetic", sa.Boolean, nullable=False),
    )
    op.create_table(
        "plans",
        sa.Column("hash", sa.String, primary_key=True),
        sa.Column("cases", sa.JSON, nullable=False),
    )


def _create_cases() -> None:
    op.create_table(
        "cases",
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("model", sa.String, nullable=False),
        sa.Column("family", sa.String, nullable=False),
        sa.Column("phase", sa.String, nullable=False),
        sa.Column("shape", sa.String, nullable=False),
        sa.Column("dtype", sa.String, nullable=False),
        sa.Column("mode", sa.String, nullable=False),
        sa.Column("variant", sa.String, nullable=False),
        sa.Column("backend", sa.String, nullable=False),
        sa.Column("device", sa.String, nullable=False),
    )


def _create_case_results() -> None:
    op.create_table(
        "case_results",
        sa.Column("id", sa.String, nullable=False),
        sa.Column("run_id", sa.String, nullable=False),
        sa.Column("case_key", sa.String, nullable=False),
        sa.Column("outcome", sa.String, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("effective_mode", sa.String, nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("warnings", sa.JSON, nullable=False),
        sa.Column("details", sa.JSON, nullable=False),
        sa.Column("log_tail", sa.Text, nullable=False),
    )
    op.create_table(
        "superseded",
        sa.Column("result_id", sa.String, primary_key=True),
    )


def _create_measurements() -> None:
    op.create_table(
        "measurements",
        sa.Column("result_id", sa.String, nullable=False),
        sa.Column("metric", sa.String, nullable=False),
        sa.Column("series_key", sa.String, nullable=False),
        sa.Column("run_id", sa.String, nullable=False),
        sa.Column("case_key", sa.String, nullable=False),
        sa.Column("run_started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("unit", sa.String, nullable=False),
        sa.Column("num_samples", sa.Integer, nullable=False),
        sa.Column("median", sa.Double, nullable=False),
        sa.Column("low", sa.Double, nullable=False),
        sa.Column("high", sa.Double, nullable=False),
        sa.Column("method", sa.Text, nullable=False),
        sa.Column("launches", sa.JSON, nullable=False),
        sa.Column("series_hash", sa.Integer, nullable=True),
    )
    op.create_table(
        "arranged",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("until", sa.DateTime(timezone=True), primary_key=True),
        sa.Column("level", sa.Integer, nullable=False),
    )


def _create_samples() -> None:
    op.create_table(
        "samples",
        sa.Column("result_id", sa.String, nullable=False),
        sa.Column("metric", sa.String, nullable=False),
        sa.Column("is_warmup", sa.Boolean, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("launch", sa.Integer, nullable=False),
        sa.Column("value", sa.Double, nullable=False),
    )


def _create_kernels() -> None:
    op.create_table(
        "kernels",
        sa.Column("result_id", sa.String, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("library", sa.String, nullable=False),
        sa.Column("device", sa.String, nullable=False),
        sa.Column("count", sa.Double, nullable=False),
        sa.Column("total_s", sa.Double, nullable=False),
        sa.Column("mean_s", sa.Double, nullable=False),
        sa.Column("min_s", sa.Double, nullable=False),
        sa.Column("share", sa.Double, nullable=False),
        sa.Column("num_bytes", sa.Double, nullable=True),
        sa.Column("flops", sa.Double, nullable=True),
        sa.Column("roofline", sa.Double, nullable=True),
        sa.Column("operators", sa.JSON, nullable=False),
        sa.Column("module", sa.Text, nullable=False),
        sa.Column("shapes", sa.Text, nullable=False),
        sa.Column("source_hash", sa.String, nullable=False),
        sa.Column("config", sa.JSON, nullable=False),
        sa.Column("launch", sa.JSON, nullable=False),
        sa.Column("origins_hash", sa.String, nullable=False),
    )


def _create_kernel_texts() -> None:
    op.create_table(
        "kernel_sources",
        sa.Column("hash", sa.String, primary_key=True),
        sa.Column("language", sa.String, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
    )
    op.create_table(
        "kernel_origins",
        sa.Column("hash", sa.String, primary_key=True),
        sa.Column("origins", sa.JSON, nullable=False),
    )


def _create_series() -> None:
    op.create_table(
        "series",
        sa.Column("key", sa.String, primary_key=True),
        sa.Column("case_key", sa.String, nullable=False),
        sa.Column("metric", sa.String, nullable=False),
        sa.Column("unit", sa.String, nullable=False),
        sa.Column("machine", sa.String, nullable=False),
        sa.Column("fingerprint", sa.String, nullable=False),
        sa.Column("num_points", sa.Integer, nullable=False),
        sa.Column("first_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_run_id", sa.String, nullable=False),
        sa.Column("last_value", sa.Double, nullable=False),
        sa.Column("direction", sa.String, nullable=True),
        sa.Column("direction_at", sa.DateTime(timezone=True), nullable=True),
    )
    op.create_table(
        "series_settings",
        sa.Column("pattern", sa.String, primary_key=True),
        sa.Column("floor", sa.Double, nullable=True),
        sa.Column("muted_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("owner", sa.String, nullable=True),
        sa.Column("baseline_run_id", sa.String, nullable=True),
    )


def _create_latest() -> None:
    op.create_table(
        "latest_results",
        sa.Column("machine", sa.String, nullable=False),
        sa.Column("toolchain", sa.String, nullable=False),
        sa.Column("case_key", sa.String, nullable=False),
        sa.Column("result_id", sa.String, nullable=False),
        sa.Column("run_id", sa.String, nullable=False),
        sa.Column("run_started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("revision", sa.String, nullable=False),
        sa.Column("fingerprint", sa.String, nullable=False),
        sa.Column("outcome", sa.String, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("effective_mode", sa.String, nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("warnings", sa.JSON, nullable=False),
    )
    op.create_table(
        "latest_measurements",
        sa.Column("machine", sa.String, nullable=False),
        sa.Column("toolchain", sa.String, nullable=False),
        sa.Column("case_key", sa.String, nullable=False),
        sa.Column("metric", sa.String, nullable=False),
        sa.Column("unit", sa.String, nullable=False),
        sa.Column("num_samples", sa.Integer, nullable=False),
        sa.Column("median", sa.Double, nullable=False),
        sa.Column("low", sa.Double, nullable=False),
        sa.Column("high", sa.Double, nullable=False),
        sa.Column("method", sa.Text, nullable=False),
    )


def _create_alerts() -> None:
    op.create_table(
        "alerts",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("series_key", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("verdict", sa.String, nullable=False),
        sa.Column("case_key", sa.String, nullable=False),
        sa.Column("metric", sa.String, nullable=False),
        sa.Column("unit", sa.String, nullable=False),
        sa.Column("machine", sa.String, nullable=False),
        sa.Column("toolchain", sa.String, nullable=False),
        sa.Column("fingerprint", sa.String, nullable=False),
        sa.Column("first_bad_run_id", sa.String, nullable=False),
        sa.Column("first_bad_revision", sa.String, nullable=False),
        sa.Column("first_bad_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("last_good_run_id", sa.String, nullable=True),
        sa.Column("last_good_revision", sa.String, nullable=True),
        sa.Column("last_good_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_seen", sa.DateTime(timezone=True), nullable=False),
        sa.Column("baseline", sa.Double, nullable=True),
        sa.Column("candidate", sa.Double, nullable=True),
        sa.Column("change_pct", sa.Double, nullable=True),
        sa.Column("interval_low_pct", sa.Double, nullable=True),
        sa.Column("interval_high_pct", sa.Double, nullable=True),
        sa.Column("is_significant", sa.Boolean, nullable=False),
        sa.Column("is_relevant", sa.Boolean, nullable=False),
        sa.Column("is_confirmed", sa.Boolean, nullable=True),
        sa.Column("cause_kind", sa.String, nullable=False),
        sa.Column("cause_text", sa.Text, nullable=False),
        sa.Column("event_id", sa.String, nullable=True),
        sa.Column("owner", sa.String, nullable=True),
        sa.Column("muted_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("note", sa.Text, nullable=True),
        sa.Column("confirmation", sa.JSON, nullable=True),
        sa.Column("environment_diff", sa.JSON, nullable=True),
    )


def _create_alert_changes() -> None:
    op.create_table(
        "alert_changes",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("alert_id", sa.String, nullable=False),
        sa.Column("pattern", sa.String, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("by", sa.String, nullable=False),
        sa.Column("field", sa.String, nullable=False),
        sa.Column("old", sa.Text, nullable=False),
        sa.Column("new", sa.Text, nullable=False),
        sa.Column("why", sa.Text, nullable=False),
    )


def _create_judging() -> None:
    op.create_table(
        "events",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
    )
    op.create_table(
        "judged",
        sa.Column("case_key", sa.String, primary_key=True),
        sa.Column("stamp", sa.String, nullable=False),
        sa.Column("claims", sa.Text, nullable=False),
    )


def _create_counters() -> None:
    op.create_table(
        "ingested",
        sa.Column("spool_id", sa.String, nullable=False),
        sa.Column("ingested_at", sa.DateTime(timezone=True), nullable=False),
    )
    op.create_table(
        "generation",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("value", sa.BigInteger, nullable=False),
    )


def _create_jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("dedupe_key", sa.String, nullable=False),
        sa.Column("suite", sa.String, nullable=False),
        sa.Column("toolchain", sa.String, nullable=False),
        sa.Column("trigger", sa.String, nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("enqueued_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("leased_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("holder", sa.String, nullable=True),
        sa.Column("num_attempts", sa.Integer, nullable=False),
        sa.Column("run_id", sa.String, nullable=True),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("reason", sa.Text, nullable=True),
        sa.Column("machine", sa.String, nullable=True),
    )


def _create_schedulers() -> None:
    op.create_table(
        "schedulers",
        sa.Column("machine", sa.String, primary_key=True),
        sa.Column("process", sa.String, nullable=False),
        sa.Column("version", sa.String, nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("heartbeat_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("doing", sa.Text, nullable=False),
        sa.Column("schedules", sa.JSON, nullable=False),
        sa.Column("devices", sa.JSON, nullable=False),
        sa.Column("disks", sa.JSON, nullable=False),
        sa.Column("num_waiting", sa.Integer, nullable=False),
        sa.Column("num_broken", sa.Integer, nullable=False),
    )


def _create_logs_and_annotations() -> None:
    op.create_table(
        "live_logs",
        sa.Column("run_id", sa.String, primary_key=True),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("log", sa.JSON, nullable=False),
    )
    op.create_table(
        "annotations",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("pattern", sa.String, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("by", sa.String, nullable=False),
        sa.Column("made_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("removed_by", sa.String, nullable=True),
        sa.Column("removed_at", sa.DateTime(timezone=True), nullable=True),
    )


def _create_outbox() -> None:
    op.create_table(
        "outbox",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("receiver", sa.String, nullable=False),
        sa.Column("subject", sa.String, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("severity", sa.String, nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("alert_ids", sa.JSON, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("state", sa.String, nullable=False),
        sa.Column("num_attempts", sa.Integer, nullable=False),
        sa.Column("num_together", sa.Integer, nullable=False),
        sa.Column("delivery_id", sa.String, nullable=False),
        sa.Column("holder", sa.String, nullable=False),
        sa.Column("attempted_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("last_error", sa.Text, nullable=False),
    )
    op.create_table(
        "receivers",
        sa.Column("receiver", sa.String, primary_key=True),
        sa.Column("num_failures", sa.Integer, nullable=False),
        sa.Column("held_until", sa.DateTime(timezone=True), nullable=True),
    )


def _create_messages() -> None:
    op.create_table(
        "messages",
        sa.Column("receiver", sa.String, primary_key=True),
        sa.Column("reference", sa.String, primary_key=True),
        sa.Column("notification_ids", sa.JSON, nullable=False),
        sa.Column("sent_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("num_failures", sa.Integer, nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=True),
    )
    op.create_table(
        "message_alerts",
        sa.Column("receiver", sa.String, primary_key=True),
        sa.Column("reference", sa.String, primary_key=True),
        sa.Column("alert_id", sa.String, primary_key=True),
        sa.Column("state", sa.String, nullable=False),
    )
    op.create_table(
        "message_versions",
        sa.Column("receiver", sa.String, primary_key=True),
        sa.Column("reference", sa.String, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("shown_at", sa.DateTime(timezone=True), nullable=False),
    )


def _create_replies() -> None:
    op.create_table(
        "reply_threads",
        sa.Column("receiver", sa.String, primary_key=True),
        sa.Column("thread", sa.String, primary_key=True),
        sa.Column("position", sa.String, nullable=False),
        sa.Column("tag", sa.String, nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("num_failures", sa.Integer, nullable=False),
    )
    op.create_table(
        "replies",
        sa.Column("receiver", sa.String, primary_key=True),
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("thread", sa.String, nullable=False),
        sa.Column("by", sa.String, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("numbers", sa.JSON, nullable=False),
        sa.Column("answer", sa.Text, nullable=False),
    )
