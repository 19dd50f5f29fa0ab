"""What was planned: every run with its cases, however many runs plan the same."""

from __future__ import annotations

from sqlalchemy import select

from compile_hud.db.queries import common as fetch
from compile_hud.db.records.results import RunState
from compile_hud.db.records.summaries import PlannedRun
from compile_hud.db.rows.mapping import utc
from compile_hud.db.rows.plans import read_plans
from compile_hud.db.schema.tables import RunTable
from compile_hud.db.store import Store

# Not the environment: it is large, and says nothing of what was planned.
_COLUMNS = (
    RunTable.id,
    RunTable.started_at,
    RunTable.revision,
    RunTable.suite,
    RunTable.state,
    RunTable.machine,
    RunTable.toolchain,
    RunTable.fingerprint,
    RunTable.plan_hash,
)


def load_plans(store: Store) -> tuple[PlannedRun, ...]:
    """Return every run with its plan, oldest first."""
    wanted = select(*_COLUMNS).order_by(*fetch.OLDEST_RUN)
    with store.read() as connection:
        rows = connection.execute(wanted).all()
        plans = read_plans(connection, {row.plan_hash for row in rows})
    return tuple(
        PlannedRun(
            id=row.id,
            at=utc(row.started_at),
            revision=row.revision,
            suite=row.suite,
            state=RunState(row.state),
            machine=row.machine,
            toolchain=row.toolchain,
            fingerprint=row.fingerprint,
            plan=plans[row.plan_hash],
        )
        for row in rows
    )
