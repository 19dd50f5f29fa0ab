"""Keep on which machine a job is to be done."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m0015"
down_revision: str | None = "m0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column; jobs of before are anybody's."""
    op.add_column("jobs", sa.Column("machine", sa.String, nullable=True))


def downgrade() -> None:
    """Refuse: results are never thrown away by an upgrade in reverse."""
    raise NotImplementedError("copy a backup of the store back instead")
