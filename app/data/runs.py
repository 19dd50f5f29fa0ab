"""Read the newest runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from compile_hud.app.data.cache import cached_read
from compile_hud.app.data.store import StoreVersion
from compile_hud.db.errors import NotFoundError
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.results import Run
from compile_hud.db.records.summaries import RunSummary

# Few people scroll further back than so many nights.
MAX_RUNS = 400


@cached_read
def load_newest_runs(at: StoreVersion) -> tuple[RunSummary, ...]:
    """Return the newest runs, newest first."""
    return tuple(load_runs(at.store, limit=MAX_RUNS))


def find_each(names: Sequence[str], *, find: Callable[[str], Run], noun: str) -> dict[str, Run]:
    """Return the run that `find` gives for each name; one NotFoundError names all without any."""
    runs: dict[str, Run] = {}
    unknown: dict[str, NotFoundError] = {}
    for name in names:
        try:
            runs[name] = find(name)
        except NotFoundError as error:
            unknown[name] = error
    if len(unknown) > 1:
        text = f"neither {' nor '.join(map(repr, unknown))} is one {noun} of this store"
        raise NotFoundError(f"{text}. `hud runs` lists the runs", names=tuple(unknown))
    if unknown:
        raise next(iter(unknown.values()))
    return runs


def results_stamp(summary: RunSummary | None) -> str:
    """Return a text that changes when a result of the run is stored, "" for an unknown run."""
    if summary is None:
        return ""
    return f"{summary.run.state} {sum(summary.num_by_outcome.values())} {summary.worked_s}"
