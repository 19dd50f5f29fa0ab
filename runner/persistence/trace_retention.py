"""Retention of traces and of logs of the compiler. It never changes rows of the store."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from compile_hud.db.queries.kernels import load_locations, load_watched_runs
from compile_hud.db.shared.text import counted, counted_of
from compile_hud.db.store import Store
from compile_hud.runner.format import quantity
from compile_hud.runner.persistence.trace_store import traces_in


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRules:
    """The limits of trace retention: a number of nights, and a total size.

    A night is a day (UTC) on which a run with a trace began. A trace that an alert refers to stays
    longer, as far as the size permits.
    """

    num_nights: int = 14
    max_bytes: int = 2_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTrace:
    """One trace; `at` is the start of its run, `is_watched` means that an alert refers to it."""

    path: Path
    size_bytes: int
    at: datetime
    is_watched: bool = False


def traces_to_remove(stored: Sequence[StoredTrace], *, rules: TraceRules) -> list[StoredTrace]:
    """Return the traces to remove: first the ones past their nights, then the oldest over the size.

    Traces that an alert refers to go last, and never for their age.
    """
    nights = sorted({item.at.date() for item in stored}, reverse=True)[: rules.num_nights]
    removed = [item for item in stored if not item.is_watched and item.at.date() not in nights]
    left = [item for item in stored if item.is_watched or item.at.date() in nights]
    left.sort(key=lambda item: (item.is_watched, item.at, item.path.name))
    num_bytes = sum(item.size_bytes for item in left)
    for item in left:
        if num_bytes <= rules.max_bytes:
            break
        removed.append(item)
        num_bytes -= item.size_bytes
    return removed


def prune_traces(folder: Path, *, store: Store, rules: TraceRules, is_dry_run: bool = False) -> str:
    """Remove the traces in `folder` past their retention; return a line about them, empty for none.

    A dry run removes nothing. A trace without a stored result has the time of its file. Raises
    OSError and the store's errors.
    """
    paths = traces_in(folder)
    if not paths:
        return ""
    stored = _stored_traces(paths, store=store)
    removed = traces_to_remove(stored, rules=rules)
    if not removed:
        return ""
    for item in removed if not is_dry_run else ():
        item.path.unlink(missing_ok=True)
    num_bytes = sum(item.size_bytes for item in removed)
    did = "would remove" if is_dry_run else "removed"
    return (
        f"{did} {counted_of(len(removed), len(stored), 'trace')} ({quantity(num_bytes, unit='B')}):"
        f" kept are {_limits(rules)}"
    )


def prune_compile_traces(
    folder: Path, *, store: Store, rules: TraceRules, is_dry_run: bool = False
) -> str:
    """Remove the logs of the compiler of runs past their retention; return a line, empty for none.

    Their limits are those of traces, by themselves. The time of a run is that of its folder. A dry
    run removes nothing. Raises OSError and the store's errors.
    """
    runs = [path for path in folder.glob("*") if path.is_dir()]
    if not runs:
        return ""
    watched = load_watched_runs(store)
    stored = [
        StoredTrace(
            path=path,
            size_bytes=sum(item.stat().st_size for item in path.rglob("*") if item.is_file()),
            at=datetime.fromtimestamp(path.stat().st_mtime, timezone.utc),
            is_watched=path.name in watched,
        )
        for path in runs
    ]
    removed = traces_to_remove(stored, rules=rules)
    if not removed:
        return ""
    for item in removed if not is_dry_run else ():
        shutil.rmtree(item.path)
    num_bytes = sum(item.size_bytes for item in removed)
    did = "would remove" if is_dry_run else "removed"
    return (
        f"{did} logs of the compiler of {counted_of(len(removed), len(stored), 'run')}"
        f" ({quantity(num_bytes, unit='B')}): kept are {_limits(rules)}"
    )


def _limits(rules: TraceRules) -> str:
    return (
        f"{counted(rules.num_nights, 'night')}, what alerts point at, and at most"
        f" {quantity(rules.max_bytes, unit='B')} ([traces] nights and max_size)"
    )


def _stored_traces(paths: dict[str, Path], *, store: Store) -> list[StoredTrace]:
    places = load_locations(store, paths)
    watched = load_watched_runs(store)
    stored = []
    for result_id, path in paths.items():
        try:
            status = path.stat()
        except FileNotFoundError:
            continue  # another runner was faster
        owner = places.get(result_id)
        written_at = datetime.fromtimestamp(status.st_mtime, timezone.utc)
        stored.append(
            StoredTrace(
                path=path,
                size_bytes=status.st_size,
                at=written_at if owner is None else owner.run_started_at,
                is_watched=owner is not None and owner.run_id in watched,
            )
        )
    return stored
