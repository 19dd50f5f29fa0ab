"""Counters of other profilers for the kernels of a result, stored with the kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import bindparam, select, update

from compile_hud.db.records.kernel_counters import COUNTERS
from compile_hud.db.rows.mapping import clean_json
from compile_hud.db.schema.tables import KernelTable
from compile_hud.db.store import Store


def keep_counters(
    store: Store, result_id: str, counters: Mapping[str, Mapping[str, Mapping[str, Any]]]
) -> int:
    """Add counters, by the names of kernels, to a result; return the number of changed kernels.

    A stored counter gets its new value; the others stay.
    """
    columns = (KernelTable.c.position, KernelTable.c.name, KernelTable.c.launch)
    query = select(*columns).where(KernelTable.c.result_id == result_id)
    with store.write() as connection:
        changed = [
            {
                "at": row.position,
                "launch": _with_counters(row.launch, counters[row.name]),
            }
            for row in connection.execute(query)
            if row.name in counters
        ]
        if changed:
            one = (
                KernelTable.c.result_id == result_id,
                KernelTable.c.position == bindparam("at"),
            )
            connection.execute(update(KernelTable).where(*one), changed)
    return len(changed)


def _with_counters(launch: Mapping[str, Any], counters: Mapping[str, Any]) -> Any:
    return clean_json({**launch, COUNTERS: {**launch.get(COUNTERS, {}), **counters}})
