"""Keep with a series which way is better, where the records of others state it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "m0005"
down_revision: str | None = "m0004"
branch_labels = None
depends_on = None

_RUNS = sa.table(
    "runs",
    *(sa.column(name) for name in ("id", "trigger", "fingerprint")),
    sa.column("started_at", sa.DateTime(timezone=True)),
)
_RESULTS = sa.table(
    "case_results",
    *(sa.column(name) for name in ("run_id", "case_key", "outcome")),
    sa.column("details", sa.JSON),
)
_SERIES = sa.table(
    "series",
    *(sa.column(name) for name in ("key", "direction")),
    sa.column("direction_at", sa.DateTime(timezone=True)),
)


def upgrade() -> None:
    """Add the columns, and fill them from what the imported results say."""
    stated = _stated(op.get_bind())
    op.add_column("series", sa.Column("direction", sa.String, nullable=True))
    op.add_column("series", sa.Column("direction_at", sa.DateTime(timezone=True), nullable=True))
    for key, (at, directions) in stated.items():
        # Those of one run that contradict each other say that neither way is better.
        direction = directions.pop() if len(directions) == 1 else "neither"
        update = sa.update(_SERIES).where(_SERIES.c.key == key)
        op.execute(update.values(direction=direction, direction_at=at))


def _stated(connection: sa.Connection) -> dict[str, tuple[datetime, set[str]]]:
    """Return when the newest run that says which way is better began, and what it says."""
    found: dict[str, tuple[datetime, set[str]]] = {}
    wanted = (
        sa.select(_RUNS.c.started_at, _RUNS.c.fingerprint, _RESULTS.c.case_key, _RESULTS.c.details)
        .join(_RUNS, _RUNS.c.id == _RESULTS.c.run_id)
        .where(_RUNS.c.trigger == "import", _RESULTS.c.outcome == "ok")
    )
    for row in connection.execute(wanted):
        details: dict[str, Any] = row.details
        for metric, text in details.get("imported", {}).get("directions", {}).items():
            if "(guessed)" in text:
                continue
            key = f"{row.case_key}#{metric}@{row.fingerprint[:16]}"
            at, directions = found.get(key, (row.started_at, set()))
            if row.started_at > at:
                at, directions = row.started_at, set()
            if row.started_at == at:
                found[key] = (at, {*directions, text})
    return found


def downgrade() -> None:
    """Refuse: results are never thrown away by an upgrade in reverse."""
    raise NotImplementedError("copy a backup of the store back instead")
