"""What other profilers counted of the kernels of a result, kept beside what was seen of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import select, update

from db.rows import clean_json
from db.store import Store
from db.tables import KernelTable

# Where they are in `Kernel.launch`.
COUNTERS = "counters"


def keep_counters(
    store: Store, result_id: str, counters: Mapping[str, Mapping[str, Mapping[str, Any]]]
) -> int:
    """Add counters, by the names of kernels, to the kernels of a result; return how many got some.

    A counter that is in already gets its new value; the others stay.
    """
    of_result = KernelTable.result_id == result_id
    wanted = select(KernelTable.position, KernelTable.name, KernelTable.launch).where(of_result)
    with store.write() as session:
        rows = [row for row in session.execute(wanted).all() if row.name in counters]
        for row in rows:
            kept = {**row.launch.get(COUNTERS, {}), **counters[row.name]}
            launch = clean_json({**row.launch, COUNTERS: kept})
            at = update(KernelTable).where(of_result, KernelTable.position == row.position)
            session.execute(at.values(launch=launch))
    return len(rows)
