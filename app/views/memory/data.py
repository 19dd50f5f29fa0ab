"""Read the memory at the peak of two results and compare it."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from compile_hud.app.data.cache import cached_read
from compile_hud.app.data.page_records import Loaded
from compile_hud.app.data.store import StoreVersion
from compile_hud.app.views.memory.records import MemoryChangeRow, MemoryChanges
from compile_hud.db.errors import NotFoundError, RecordError
from compile_hud.db.queries.results import load_result_summaries
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.memory.peak import PeakHolders, memory_peak_of
from compile_hud.db.records.results import Verdict
from compile_hud.db.store import Store
from compile_hud.runner.analysis.memory_peak.diff import (
    MemoryChange,
    MemoryDiff,
    diff_of,
    growth_of,
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
    is_more = alert.verdict is not Verdict.IMPROVEMENT
    return _alert_memory(alert.id, memory_bounds(alert), is_more=is_more)


@cached_read
def _alert_memory(
    at: StoreVersion, alert_id: str, names: tuple[tuple[str, str], ...], *, is_more: bool
) -> MemoryChanges | None:
    try:
        peaks = [_peak(at.store, run_id, case_key) for run_id, case_key in names]
    except (NotFoundError, RecordError) as error:
        logger.warning("no memory for alert %s: %s", alert_id, error)
        return None
    diff = diff_of(*peaks) if peaks else None
    return None if diff is None else _changes(diff, growth_of(diff, is_more=is_more))


def _peak(store: Store, run_id: str, case_key: str) -> PeakHolders | None:
    results = load_result_summaries(store, run_id)
    result = next((item for item in results if item.case.key == case_key), None)
    return None if result is None else memory_peak_of(result.details)


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
