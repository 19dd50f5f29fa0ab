"""What was planned: every run with its cases, however many runs plan the same."""

from __future__ import annotations

import json

from sqlalchemy import Text, cast, func, select

from db import fetch
from db.records import RunState
from db.rows import planned_case, utc
from db.store import Store
from db.summaries import PlannedRun
from db.tables import RunTable

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
)


def load_plans(store: Store) -> tuple[PlannedRun, ...]:
    """Return every run with its plan, oldest first."""
    text = cast(RunTable.plan, Text)
    digest = func.md5(text).label("digest")
    # A nightly suite plans the same thousand cases every night: each plan is read once.
    texts = select(digest, func.min(text).label("text")).group_by(digest)
    runs = select(*_COLUMNS, digest).order_by(*fetch.OLDEST_RUN)
    with store.read() as connection:
        plans = {
            row.digest: tuple(planned_case(item) for item in json.loads(row.text))
            for row in connection.execute(texts)
        }
        rows = connection.execute(runs).all()
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
            plan=plans[row.digest],
        )
        for row in rows
    )
