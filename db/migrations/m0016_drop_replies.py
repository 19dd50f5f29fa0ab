"""Drop the tables of replies to messages, which are not read any more."""

from __future__ import annotations

from alembic import op

revision = "m0016"
down_revision: str | None = "m0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Drop the tables. Decisions that came from replies stay in the alerts."""
    for table in ("message_versions", "reply_threads", "replies"):
        op.drop_table(table)


def downgrade() -> None:
    """Refuse: a downgrade would delete results."""
    raise NotImplementedError("copy a backup of the store back instead")
