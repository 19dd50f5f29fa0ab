"""Keep what schedulers say of themselves, and why and when a job is tried again."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m0007"
down_revision: str | None = "m0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table and add the columns."""
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
    op.add_column("jobs", sa.Column("due_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("jobs", sa.Column("reason", sa.Text, nullable=True))


def downgrade() -> None:
    """Refuse: results are never thrown away by an upgrade in reverse."""
    raise NotImplementedError("copy a backup of the store back instead")
