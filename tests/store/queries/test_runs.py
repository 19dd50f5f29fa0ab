from __future__ import annotations

from datetime import timedelta

import pytest

from compile_hud.db.queries.runs import load_running, load_triggered
from compile_hud.db.records.results import RunState
from compile_hud.db.store import Store
from tests.support.builders import START, make_run

# More than a page of newer runs.
NUM_NEWER = 51


@pytest.fixture(scope="module")
def crowded() -> Store:
    """Return a store with two old runs that many newer ones hide."""
    store = Store("duckdb:///:memory:", now=lambda: START)
    store.save_run(make_run("done", trigger="job a", state=RunState.FINISHED, machine="box"))
    store.save_run(make_run("dead", trigger="job b", state=RunState.RUNNING, machine="box"))
    store.save_run(make_run("far", trigger="job b", state=RunState.RUNNING, machine="other"))
    for number in range(NUM_NEWER):
        later = START + timedelta(hours=1 + number)
        name = f"newer{number}"
        store.save_run(make_run(name, state=RunState.FINISHED, machine="box", started_at=later))
    return store


def test_the_run_of_a_job_is_looked_up_behind_many(crowded: Store) -> None:
    assert [run.id for run in load_triggered(crowded, "job a")] == ["done"]


def test_a_job_that_never_ran_has_no_run(crowded: Store) -> None:
    assert load_triggered(crowded, "job c") == ()


def test_runs_of_a_machine_are_looked_up_behind_many(crowded: Store) -> None:
    ((run, heartbeat_at),) = load_running(crowded, machine="box")
    assert (run.id, heartbeat_at) == ("dead", START)
