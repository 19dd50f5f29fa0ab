"""Drop what was kept of replies to messages, which are not read any more."""

from __future__ import annotations

from alembic import op

revision = "m0016"
down_revision: str | None = "m0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Drop the tables. What replies decided about alerts stays: it is in those."""
    for table in ("message_versions", "reply_threads", "replies"):
        op.drop_table(table)


def downgrade() -> None:
    """Refuse: results are never thrown away by an upgrade in reverse."""
    raise NotImplementedError("copy a backup of the store back instead")
