"""Add the column with the result of the search for the revision behind an alert."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m0018"
down_revision: str | None = "m0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column, empty in every alert."""
    op.add_column("alerts", sa.Column("bisection", sa.JSON()))


def downgrade() -> None:
    """Refuse: a downgrade would delete results."""
    raise NotImplementedError("copy a backup of the store back instead")
