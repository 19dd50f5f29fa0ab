"""Read the newest runs."""

from __future__ import annotations

from compile_hud.app.data.cache import cached_read
from compile_hud.app.data.store import StoreVersion
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.summaries import RunSummary

# Few people scroll further back than so many nights.
MAX_RUNS = 400


@cached_read
def load_newest_runs(at: StoreVersion) -> tuple[RunSummary, ...]:
    """Return the newest runs, newest first."""
    return tuple(load_runs(at.store, limit=MAX_RUNS))
