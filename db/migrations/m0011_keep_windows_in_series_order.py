"""Remember each window of measurements that are in the order of their series.

There was one time for all of them. The upkeep puts them in order again, in larger windows.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m0011"
down_revision: str | None = "m0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table anew."""
    op.drop_table("arranged")
    op.create_table(
        "arranged",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("until", sa.DateTime(timezone=True), primary_key=True),
        sa.Column("level", sa.Integer, nullable=False),
    )


def downgrade() -> None:
    """Refuse: results are never thrown away by an upgrade in reverse."""
    raise NotImplementedError("copy a backup of the store back instead")
