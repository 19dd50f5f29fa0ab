"""The stored run that a name stands for."""

from __future__ import annotations

from collections.abc import Sequence

from compile_hud.db.errors import NotFoundError, StoreError
from compile_hud.db.queries.runs import load_run, load_runs
from compile_hud.db.queries.series import load_recent_histories
from compile_hud.db.records.results import Run
from compile_hud.db.records.summaries import Series
from compile_hud.db.store import Store
from compile_hud.runner.analysis.comparison.noise_model import HISTORY_RUNS, NOISE_METRICS
from compile_hud.runner.analysis.comparison.run_selection import run_at_revision
from compile_hud.runner.errors import NoSuchDocument

LATEST, PREVIOUS = "latest", "previous"
# The search for a revision or the previous run covers this number of runs.
_NUM_RUNS_SEARCHED = 1000


def find_run(name: str, *, store: Store) -> Run:
    """Return the run that `name` stands for: an id, the start of one, or a revision.

    `latest` is the newest run and `previous` the one before of its suite on its machine. Raises
    NotFoundError and NoSuchDocument.
    """
    if name == PREVIOUS:
        return _previous_run(store)
    try:
        return load_run(store, name)
    except NotFoundError:
        at_revision = run_at_revision(name, newest_runs(store))
        if at_revision is None:
            raise
        return at_revision


def newest_runs(store: Store) -> list[Run]:
    """Return the runs that a name is searched in, newest first."""
    return [summary.run for summary in load_runs(store, limit=_NUM_RUNS_SEARCHED)]


def _previous_run(store: Store) -> Run:
    runs = newest_runs(store)
    like_the_latest = [
        run for run in runs[1:] if (run.machine, run.suite) == (runs[0].machine, runs[0].suite)
    ]
    if not like_the_latest:
        raise NoSuchDocument(
            "there is no previous run of the latest run's suite on its machine;"
            " `hud runs` lists what there is"
        )
    return like_the_latest[0]


def recent_histories(run: Run, *, store: Store) -> Sequence[Series]:
    """Return the series that the noise of `run` is learnt from; none without a store."""
    try:
        return load_recent_histories(store, run, metrics=NOISE_METRICS, num_runs=HISTORY_RUNS)
    except StoreError:
        # Two files compare where there is no store.
        return ()
