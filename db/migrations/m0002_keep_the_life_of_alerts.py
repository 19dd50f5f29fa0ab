"""Keep what people decide about alerts and series, and every change of it.

New columns may be null: DuckDB adds no other to a table that has rows.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m0002"
down_revision: str | None = "m0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the columns and create the tables."""
    _extend_alerts()
    _create_alert_changes()
    _create_series_settings()


def downgrade() -> None:
    """Refuse: results are never thrown away by an upgrade in reverse."""
    raise NotImplementedError("copy a backup of the store back instead")


def _extend_alerts() -> None:
    for column in (
        sa.Column("event_id", sa.String, nullable=True),
        sa.Column("owner", sa.String, nullable=True),
        sa.Column("muted_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("note", sa.Text, nullable=True),
        sa.Column("confirmation", sa.JSON, nullable=True),
        sa.Column("environment_diff", sa.JSON, nullable=True),
    ):
        op.add_column("alerts", column)


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


def _create_series_settings() -> None:
    op.create_table(
        "series_settings",
        sa.Column("pattern", sa.String, primary_key=True),
        sa.Column("floor", sa.Double, nullable=True),
        sa.Column("muted_until", sa.DateTime(timezone=True), nullable=True),
        sa.Column("owner", sa.String, nullable=True),
        sa.Column("baseline_run_id", sa.String, nullable=True),
    )
