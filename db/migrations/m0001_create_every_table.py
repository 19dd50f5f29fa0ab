"""Create every table.

A migration is history: it spells its tables out instead of reading `db.schema.tables`, which moves
on.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m0001"
down_revision: str | None = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create every table."""
    _create_runs()
    _create_cases()
    _create_case_results()
    _create_measurements()
    _create_samples()
    _create_series()
    _create_alerts()
    _create_ingested()
    _create_jobs()
    _create_generation()


def downgrade() -> None:
    """Refuse: results are never thrown away by an upgrade in reverse."""
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
        sa.Column("plan", sa.JSON, nullable=False),
        sa.Column("num_planned", sa.Integer, nullable=False),
        sa.Column("trigger", sa.String, nullable=False),
        sa.Column("is_synthetic", sa.Boolean, nullable=False),
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
        sa.Column("id", sa.String, primary_key=True),
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
    )
    if op.get_bind().dialect.name == "postgresql":
        op.create_index("ix_measurements_result", "measurements", ["result_id"])
        op.create_index("ix_measurements_series", "measurements", ["series_key"])


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
    if op.get_bind().dialect.name == "postgresql":
        op.create_index("ix_samples_result", "samples", ["result_id"])


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
    )


def _create_ingested() -> None:
    op.create_table(
        "ingested",
        sa.Column("spool_id", sa.String, primary_key=True),
        sa.Column("ingested_at", sa.DateTime(timezone=True), nullable=False),
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
    )


def _create_generation() -> None:
    op.create_table(
        "generation",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("value", sa.BigInteger, nullable=False),
    )
