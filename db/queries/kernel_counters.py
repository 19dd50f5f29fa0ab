"""What other profilers counted of the kernels of a result, kept beside what was seen of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import select, update

from compile_hud.db.records.kernels import Kernel
from compile_hud.db.rows.mapping import clean_json
from compile_hud.db.schema.tables import KernelTable
from compile_hud.db.store import Store

# Where they are in `Kernel.launch`.
COUNTERS = "counters"
# The best known, in percent of the most that a device can sustain, each with a heading.
SHARES = {
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": "SM",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": "memory",
    "sm__warps_active.avg.pct_of_peak_sustained_active": "warps",
}


def counted(kernel: Kernel) -> dict[str, tuple[float, str]]:
    """Return the counters of `kernel` that are numbers, by name with their unit."""
    readings = kernel.launch.get(COUNTERS)
    found = {}
    for name, reading in readings.items() if isinstance(readings, Mapping) else ():
        value = reading.get("value") if isinstance(reading, Mapping) else None
        if isinstance(value, int | float) and not isinstance(value, bool):
            found[name] = (float(value), str(reading.get("unit", "")))
    return found


def counter_names(kernels: Iterable[Kernel]) -> list[str]:
    """Return the names of all counters of `kernels`, the best known first."""
    names = {name for kernel in kernels for name in counted(kernel)}
    return [*(name for name in SHARES if name in names), *sorted(names - SHARES.keys())]


def keep_counters(
    store: Store, result_id: str, counters: Mapping[str, Mapping[str, Mapping[str, Any]]]
) -> int:
    """Add counters, by the names of kernels, to the kernels of a result; return how many got some.

    A counter that is in already gets its new value; the others stay.
    """
    columns = (KernelTable.position, KernelTable.name, KernelTable.launch)
    wanted = select(*columns).where(KernelTable.result_id == result_id)
    with store.write() as session:
        changed = [
            {
                "result_id": result_id,
                "position": row.position,
                "launch": _with_counters(row.launch, counters[row.name]),
            }
            for row in session.execute(wanted)
            if row.name in counters
        ]
        if changed:
            session.execute(update(KernelTable), changed)
    return len(changed)


def _with_counters(launch: Mapping[str, Any], counters: Mapping[str, Any]) -> Any:
    return clean_json({**launch, COUNTERS: {**launch.get(COUNTERS, {}), **counters}})
