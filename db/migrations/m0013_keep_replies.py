"""Keep what each message said when, and the replies that decided about alerts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m0013"
down_revision: str | None = "m0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    # All messages of a receiver of GitHub had one name, so that but the last one could be changed.
    for table in ("messages", "message_alerts"):
        op.execute(f"DELETE FROM {table} WHERE reference = 'issues'")
    op.create_table(
        "message_versions",
        sa.Column("receiver", sa.String, primary_key=True),
        sa.Column("reference", sa.String, primary_key=True),
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("shown_at", sa.DateTime(timezone=True), nullable=False),
    )
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


def downgrade() -> None:
    """Refuse: results are never thrown away by an upgrade in reverse."""
    raise NotImplementedError("copy a backup of the store back instead")
