"""Keep notifications until their receivers have them, and how the receivers do."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m0006"
down_revision: str | None = "m0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    texts = ("receiver", "subject", "kind", "severity")
    op.create_table(
        "outbox",
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("number", sa.Integer, nullable=False),
        *(sa.Column(name, sa.String, nullable=False) for name in texts),
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


def downgrade() -> None:
    """Refuse: results are never thrown away by an upgrade in reverse."""
    raise NotImplementedError("copy a backup of the store back instead")
