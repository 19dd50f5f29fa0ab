"""Keep the kernels of results, and their code once each."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "m0004"
down_revision: str | None = "m0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "kernels",
        sa.Column("result_id", sa.String, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("kind", sa.String, nullable=False),
        sa.Column("library", sa.String, nullable=False),
        sa.Column("device", sa.String, nullable=False),
        sa.Column("count", sa.Double, nullable=False),
        sa.Column("total_s", sa.Double, nullable=False),
        sa.Column("mean_s", sa.Double, nullable=False),
        sa.Column("min_s", sa.Double, nullable=False),
        sa.Column("share", sa.Double, nullable=False),
        sa.Column("num_bytes", sa.Double, nullable=True),
        sa.Column("flops", sa.Double, nullable=True),
        sa.Column("roofline", sa.Double, nullable=True),
        sa.Column("operators", sa.JSON, nullable=False),
        sa.Column("module", sa.Text, nullable=False),
        sa.Column("shapes", sa.Text, nullable=False),
        sa.Column("source_hash", sa.String, nullable=False),
        sa.Column("config", sa.JSON, nullable=False),
        sa.Column("launch", sa.JSON, nullable=False),
        sa.Column("origins_hash", sa.String, nullable=False),
    )
    if op.get_bind().dialect.name == "postgresql":
        op.create_index("ix_kernels_result", "kernels", ["result_id"])
    op.create_table(
        "kernel_sources",
        sa.Column("hash", sa.String, primary_key=True),
        sa.Column("language", sa.String, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
    )
    op.create_table(
        "kernel_origins",
        sa.Column("hash", sa.String, primary_key=True),
        sa.Column("origins", sa.JSON, nullable=False),
    )


def downgrade() -> None:
    """Refuse: results are never thrown away by an upgrade in reverse."""
    raise NotImplementedError("copy a backup of the store back instead")
