"""Give measurements a number to find their series by, and remember up to when they are in order.

The rows themselves are put in order by the nightly upkeep: it may take minutes after years.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m0010"
down_revision: str | None = "m0009"
branch_labels = None
depends_on = None

_HASHES = {
    "duckdb": "CAST('0x' || substr(md5(series_key), 1, 7) AS INTEGER)",
    "postgresql": "CAST(CAST('x' || substr(md5(series_key), 1, 7) AS bit(28)) AS integer)",
}


def upgrade() -> None:
    """Add the column, filled, and the table."""
    dialect = op.get_bind().dialect.name
    op.add_column("measurements", sa.Column("series_hash", sa.Integer, nullable=True))
    op.execute(f"UPDATE measurements SET series_hash = {_HASHES[dialect]}")
    op.create_table(
        "arranged",
        sa.Column("name", sa.String, primary_key=True),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
    )


def downgrade() -> None:
    """Refuse: results are never thrown away by an upgrade in reverse."""
    raise NotImplementedError("copy a backup of the store back instead")
