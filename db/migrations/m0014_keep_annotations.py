"""Keep what people say of a date, for a series, a model or all."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m0014"
down_revision: str | None = "m0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the table."""
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


def downgrade() -> None:
    """Refuse: results are never thrown away by an upgrade in reverse."""
    raise NotImplementedError("copy a backup of the store back instead")
