"""Lists of runs as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.summaries import RunSummary
from compile_hud.db.store import Store


def list_runs(store: Store, *, limit: int, filters: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return the newest `limit` runs as JSON; `filters` have a machine, suite or toolchain."""
    fields = {name: value for name, value in filters.items() if value}
    return [run_json(summary) for summary in load_runs(store, limit=limit, **fields)]


def run_json(summary: RunSummary) -> dict[str, Any]:
    """Return a run without its plan, with the number of results by outcome."""
    document = summary.run.to_json()
    # The plan is long, and the document of the run has it.
    plan = document.pop("plan")
    counts = {str(outcome): num for outcome, num in summary.num_by_outcome.items()}
    return {**document, "num_planned": len(plan), "outcomes": counts}
