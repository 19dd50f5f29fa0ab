"""Keep where messages are that can be changed after they were sent, and what they say."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m0008"
down_revision: str | None = "m0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
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


def downgrade() -> None:
    """Refuse: results are never thrown away by an upgrade in reverse."""
    raise NotImplementedError("copy a backup of the store back instead")
