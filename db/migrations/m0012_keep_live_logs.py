"""Keep what the running case of a run has printed last."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m0012"
down_revision: str | None = "m0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "live_logs",
        sa.Column("run_id", sa.String, primary_key=True),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("log", sa.JSON, nullable=False),
    )


def downgrade() -> None:
    """Refuse: results are never thrown away by an upgrade in reverse."""
    raise NotImplementedError("copy a backup of the store back instead")
