"""Read the memory at the peak of two results and compare it."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from compile_hud.app.data.cache import cached_read
from compile_hud.app.data.page_records import Loaded
from compile_hud.app.data.store import StoreVersion
from compile_hud.app.views.memory.records import MemoryChangeRow, MemoryChanges
from compile_hud.db.errors import RecordError
from compile_hud.db.queries.results import load_details
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.memory.peak import memory_peak_of
from compile_hud.runner.analysis.memory_peak.diff import (
    MemoryChange,
    MemoryDiff,
    diff_of,
    growth_of,
    is_about_more_memory,
    memory_bounds,
)

logger = logging.getLogger(__name__)


def memory_changes(diff: MemoryDiff | None) -> MemoryChanges | None:
    """Return the holders that changed, None without the memory of both sides."""
    return None if diff is None else _changes(diff, diff.changed)


def load_alert_memory(alert: Alert) -> Loaded[MemoryChanges | None]:
    """Return the holders that have more memory since the last good run of an alert about memory.

    They have less if the alert is an improvement. None for other alerts, and where a run has no
    holders.
    """
    return _alert_memory(alert.id, memory_bounds(alert), is_more=is_about_more_memory(alert))


@cached_read
def _alert_memory(
    at: StoreVersion, alert_id: str, names: tuple[tuple[str, str], ...], *, is_more: bool
) -> MemoryChanges | None:
    details = load_details(at.store, names)
    try:
        peaks = [memory_peak_of(details.get(name, {})) for name in names]
    except RecordError as error:
        logger.warning("no memory for alert %s: %s", alert_id, error)
        return None
    diff = diff_of(*peaks) if peaks else None
    return None if diff is None else _changes(diff, growth_of(diff, is_more=is_more))


def _changes(diff: MemoryDiff, rows: Iterable[MemoryChange]) -> MemoryChanges:
    return MemoryChanges(
        rows=tuple(map(_row, rows)),
        baseline_bytes=diff.baseline_bytes,
        candidate_bytes=diff.candidate_bytes,
    )


def _row(row: MemoryChange) -> MemoryChangeRow:
    before, after = row.baseline, row.candidate
    return MemoryChangeRow(
        label=row.holder.label,
        module=row.holder.module,
        line=row.holder.short_line,
        change_bytes=row.change_bytes,
        baseline_bytes=None if before is None else before.num_bytes,
        candidate_bytes=None if after is None else after.num_bytes,
        text=row.text,
    )
