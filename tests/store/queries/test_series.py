"""Tests of the histories of series."""

from __future__ import annotations

from datetime import timedelta

import pytest

from compile_hud.db.ingest.results import put_documents
from compile_hud.db.queries.series import load_recent_histories
from compile_hud.db.records.results import Run
from compile_hud.db.store import Store
from tests.support.builders import (
    START,
    make_case,
    make_document,
    make_measurement,
    make_result,
    make_run,
)

CASE = make_case()
METRICS = ("latency_s", "speedup")


def night(number: int, *, toolchain: str = "stable") -> Run:
    return make_run(
        f"{toolchain}-{number}",
        plan=(CASE,),
        toolchain=toolchain,
        started_at=START + timedelta(days=number),
    )


@pytest.fixture
def nights(store: Store) -> list[Run]:
    """Return six runs of one toolchain, with one of another between them."""
    runs = [night(number) for number in range(6)]
    with store.write() as connection:
        put_documents(
            connection,
            [
                make_document(
                    run,
                    results=[
                        make_result(
                            f"{run.id}-r",
                            run=run,
                            case=CASE,
                            measurements=[
                                make_measurement(metric, samples=(1.0,)) for metric in METRICS
                            ],
                        )
                    ],
                )
                for run in (*runs, night(3, toolchain="nightly"))
            ],
            at=START,
        )
    return runs


@pytest.mark.parametrize(
    ("index", "num_runs", "numbers"),
    [(4, 3, [2, 3, 4]), (1, 4, [0, 1, 2, 3]), (5, 100, [0, 1, 2, 3, 4, 5])],
)
def test_histories_are_of_the_runs_before_and_where_there_are_few_of_those_after(
    store: Store, nights: list[Run], index: int, num_runs: int, numbers: list[int]
) -> None:
    (series,) = load_recent_histories(store, nights[index], metrics=["speedup"], num_runs=num_runs)
    assert series.header.metric == "speedup"
    assert [point.run_id for point in series.points] == [f"stable-{number}" for number in numbers]


def test_a_run_that_is_not_stored_has_the_newest_history(store: Store, nights: list[Run]) -> None:
    assert len(nights) == 6
    histories = load_recent_histories(store, night(9), metrics=METRICS, num_runs=2)
    assert {series.header.metric for series in histories} == set(METRICS)
    for series in histories:
        assert [point.run_id for point in series.points] == ["stable-4", "stable-5"]


def test_another_machine_has_no_history(store: Store, nights: list[Run]) -> None:
    assert nights
    elsewhere = make_run("elsewhere", plan=(CASE,), machine="another")
    assert load_recent_histories(store, elsewhere, metrics=METRICS, num_runs=9) == ()
