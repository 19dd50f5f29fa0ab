"""Retention of traces, samples and texts of notifications."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from compile_hud.db.alerts.outbox_maintenance import find_old_notifications, forget_notifications
from compile_hud.db.errors import StoreError, StoreLocked
from compile_hud.db.maintenance.compaction import compact_measurements
from compile_hud.db.maintenance.retention import find_old_samples, remove_samples
from compile_hud.db.shared.text import counted
from compile_hud.db.store import Store
from compile_hud.runner.events import LogMessage, Notify
from compile_hud.runner.persistence.spool import Spool
from compile_hud.runner.persistence.trace_retention import (
    TraceRules,
    prune_compile_traces,
    prune_traces,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionRules:
    """The limits of retention; without `sample_nights` all samples stay."""

    traces_dir: Path | None
    compile_traces_dir: Path
    traces: TraceRules
    sample_nights: int | None
    outbox_days: int


def clean_up(
    spool: Spool,
    *,
    store: Store | None,
    rules: RetentionRules,
    now: Callable[[], datetime],
    notify: Notify,
) -> None:
    """Remove data past its retention after a run; an error is only reported.

    Pending results mean that the store was locked a moment ago. The removal then has a short
    timeout; the next run removes the rest. On a full disk the removal makes room.
    """
    is_refused = bool(spool.pending())
    lines: list[str] = []
    try:
        spool.remove_unclaimed_traces()
        if store is not None:
            store = store.with_short_timeout() if is_refused else store
            lines = prune(store, rules=rules, now=now)
            compact_measurements(store)
    except (StoreError, OSError) as error:
        # The run has reported already that the store is locked.
        if not (is_refused and isinstance(error, StoreLocked)):
            lines = [f"not all that is old is removed: {error}"]
    for text in lines:
        notify(LogMessage(text=text))


def prune(
    store: Store, *, rules: RetentionRules, now: Callable[[], datetime], is_dry_run: bool = False
) -> list[str]:
    """Remove data past its retention, and return a line about each kind of it.

    A dry run removes nothing. Raises OSError and the store's errors.
    """
    lines = []
    if rules.traces_dir is not None:
        lines.append(
            prune_traces(rules.traces_dir, store=store, rules=rules.traces, is_dry_run=is_dry_run)
        )
    lines.append(
        prune_compile_traces(
            rules.compile_traces_dir, store=store, rules=rules.traces, is_dry_run=is_dry_run
        )
    )
    if rules.sample_nights is not None:
        lines.append(_prune_samples(store, num_nights=rules.sample_nights, is_dry_run=is_dry_run))
    lines.append(_prune_outbox(store, num_days=rules.outbox_days, now=now(), is_dry_run=is_dry_run))
    return [text for text in lines if text]


def _prune_outbox(store: Store, *, num_days: int, now: datetime, is_dry_run: bool) -> str:
    ids = find_old_notifications(store, before=now - timedelta(days=num_days))
    if not ids:
        return ""
    if not is_dry_run:
        forget_notifications(store, ids)
    notifications = counted(len(ids), "notification")
    return (
        f"{'would forget' if is_dry_run else 'forgot'} what {notifications} said, sent more than"
        f" {counted(num_days, 'day')} ago ([outbox] days)"
    )


def _prune_samples(store: Store, *, num_nights: int, is_dry_run: bool) -> str:
    old = find_old_samples(store, num_nights=num_nights)
    if not old.run_ids:
        return ""
    if not is_dry_run:
        remove_samples(store, old)
    return (
        f"{'would remove' if is_dry_run else 'removed'} {counted(old.num_samples, 'sample')} of"
        f" {counted(len(old.run_ids), 'run')}: kept are {counted(num_nights, 'night')}, baselines"
        " and what alerts point at ([samples] nights)"
    )
