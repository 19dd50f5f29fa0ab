"""The plans of runs as rows, put and read inside the caller's transaction."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from typing import Any, Final

from cachetools import LRUCache
from sqlalchemy import Select, delete, exists, insert, select
from sqlalchemy.engine import Connection

from compile_hud.db.records.results import Case, Run
from compile_hud.db.rows.batches import batches
from compile_hud.db.rows.bulk_insert import put_rows
from compile_hud.db.rows.mapping import plan_hash, plan_values, run_record
from compile_hud.db.schema.tables import PlanTable, RunTable

# A plan has a thousand cases and more, and a store has a handful of plans in use.
_MAX_CACHED_PLANS: Final = 32


# The plans read last, by the hash of their content, which is the same in any store.
_PLANS: Final[LRUCache[str, tuple[Case, ...]]] = LRUCache(_MAX_CACHED_PLANS)
_LOCK: Final = threading.Lock()


def put_plan(connection: Connection, plan: Sequence[Case]) -> None:
    """Insert `plan` unless it is stored."""
    values = plan_values(plan)
    known = select(PlanTable.c.hash).where(PlanTable.c.hash == values["hash"])
    if connection.execute(known).first() is None:
        connection.execute(insert(PlanTable).values(**values))


def put_plans(connection: Connection, plans: Sequence[Sequence[Case]]) -> None:
    """Insert those of `plans` that are not stored; runs of a history share a few of them."""
    by_hash = {plan_hash(plan): plan for plan in dict.fromkeys(map(tuple, plans))}
    known = {
        name
        for some in batches(by_hash)
        for name in connection.execute(
            select(PlanTable.c.hash).where(PlanTable.c.hash.in_(some))
        ).scalars()
    }
    rows = [plan_values(plan) for name, plan in by_hash.items() if name not in known]
    put_rows(connection, PlanTable, rows)


def remove_unused_plan(connection: Connection, name: str) -> None:
    """Remove the plan with the hash `name` unless a run has it."""
    is_used = exists().where(RunTable.c.plan_hash == name)
    connection.execute(delete(PlanTable).where(PlanTable.c.hash == name, ~is_used))


def read_plans(connection: Connection, hashes: Collection[str]) -> dict[str, tuple[Case, ...]]:
    """Return the plans with these hashes; runs with equal plans share one tuple."""
    with _LOCK:
        plans = {name: _PLANS[name] for name in hashes if name in _PLANS}
    missing = sorted(set(hashes) - plans.keys())
    if not missing:
        return plans
    rows = connection.execute(select(PlanTable).where(PlanTable.c.hash.in_(missing)))
    read = {row.hash: tuple(Case.from_json(item) for item in row.cases) for row in rows}
    with _LOCK:
        _PLANS.update(read)
    return plans | read


def read_runs(connection: Connection, query: Select[Any]) -> list[Run]:
    """Return the runs of `query`, which has all columns of `runs`, in its order."""
    rows = connection.execute(query).all()
    plans = read_plans(connection, {row.plan_hash for row in rows})
    return [run_record(row, plan=plans[row.plan_hash]) for row in rows]
