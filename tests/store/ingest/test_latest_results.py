"""The summaries that ingest writes for pages equal a query over all results."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from compile_hud.db.ingest.results import put_documents
from compile_hud.db.queries.latest import load_latest
from compile_hud.db.queries.runs import load_plans, load_run
from compile_hud.db.records.results import DEFERRED, CaseResult, Outcome, Run, RunDocument
from compile_hud.db.schema.tables import (
    LatestMeasurementTable,
    LatestResultTable,
    PlanTable,
    SupersededTable,
)
from compile_hud.db.store import Store
from tests.support.builders import START, make_case, make_measurement, make_result, make_run
from tests.support.nightly import daily_first

CASES = tuple(make_case(mode=mode) for mode in ("eager", "default", "max-autotune"))
SUMMARIES = (SupersededTable, LatestResultTable, LatestMeasurementTable)
# The result of a case and run that finished last counts.
SUPERSEDED = """
INSERT INTO superseded (result_id)
SELECT id FROM (
    SELECT id, row_number() OVER (
        PARTITION BY run_id, case_key ORDER BY finished_at DESC, id DESC
    ) AS place
    FROM case_results
) AS ranked WHERE place > 1
"""
LATEST_RESULTS = """
INSERT INTO latest_results
SELECT machine, toolchain, case_key, id, run_id, run_started_at, revision, fingerprint, outcome,
       reason, effective_mode, started_at, finished_at, warnings
FROM (
    SELECT runs.machine, runs.toolchain, results.case_key, results.id, results.run_id,
           runs.started_at AS run_started_at, runs.revision, runs.fingerprint, results.outcome,
           results.reason, results.effective_mode, results.started_at, results.finished_at,
           results.warnings,
           row_number() OVER (
               PARTITION BY runs.machine, runs.toolchain, results.case_key
               ORDER BY runs.started_at DESC, results.finished_at DESC, results.id DESC
           ) AS place
    FROM case_results AS results JOIN runs ON runs.id = results.run_id
    WHERE NOT (results.outcome = 'skipped' AND results.reason LIKE 'time budget%')
) AS ranked WHERE place = 1
"""
LATEST_MEASUREMENTS = """
INSERT INTO latest_measurements
SELECT latest.machine, latest.toolchain, latest.case_key, measured.metric, measured.unit,
       measured.num_samples, measured.median, measured.low, measured.high, measured.method
FROM latest_results AS latest JOIN measurements AS measured
    ON measured.result_id = latest.result_id
"""
FROM_RAW_ROWS = (SUPERSEDED, LATEST_RESULTS, LATEST_MEASUREMENTS)


def drawn_results(seed: int) -> list[tuple[Run, CaseResult]]:
    """Return results of some runs in any order, cases measured again and put off among them."""
    draw = random.Random(seed)
    results = []
    for number in range(6):
        run = make_run(
            f"run-{number}",
            plan=CASES,
            machine=draw.choice(["box", "shed"]),
            toolchain=draw.choice(["stable", "nightly"]),
            started_at=START + timedelta(days=draw.randrange(4)),
        )
        for index in range(draw.randrange(1, 6)):
            outcome = draw.choice([Outcome.OK, Outcome.OK, Outcome.FAILED, Outcome.SKIPPED])
            result = make_result(
                f"{draw.randrange(10**6):06}-{number}-{index}",
                run=run,
                case=draw.choice(CASES),
                outcome=outcome,
                reason=f"{DEFERRED}: no time left" if outcome is Outcome.SKIPPED else None,
                finished_at=run.started_at + timedelta(seconds=draw.randrange(1, 4)),
                measurements=_drawn_measurements(draw) if outcome is Outcome.OK else (),
            )
            results.append((run, result))
    draw.shuffle(results)
    return results


def _drawn_measurements(draw: random.Random) -> list[Any]:
    names = draw.sample(["latency_s", "speedup", "compile_cold_s"], k=2)
    return [make_measurement(name, samples=(draw.random() + 0.1,)) for name in names]


def rows_of(store: Store) -> list[list[tuple[Any, ...]]]:
    with store.read() as connection:
        return [
            sorted((tuple(row) for row in connection.execute(sa.select(table))), key=str)
            for table in SUMMARIES
        ]


def rows_from_raw(store: Store) -> list[list[tuple[Any, ...]]]:
    """Return the same, made anew of all results."""
    with store.write() as connection:
        for table in SUMMARIES:
            connection.execute(sa.delete(table))
        for statement in FROM_RAW_ROWS:
            connection.execute(sa.text(statement))
    return rows_of(store)


@pytest.mark.parametrize("seed", daily_first(range(12), num_daily=4))
def test_summaries_written_by_ingest_are_those_of_the_raw_rows(seed: int) -> None:
    store = Store("duckdb:///:memory:")
    for run, result in drawn_results(seed):
        store.ingest(run, result, spool_id=result.id)
        rows = rows_of(store)
    assert rows[1]
    assert rows == rows_from_raw(store)


def test_summaries_written_by_ingest_are_those_of_the_raw_rows_on_every_store(store: Store) -> None:
    for run, result in drawn_results(99):
        store.ingest(run, result, spool_id=result.id)
    assert rows_of(store) == rows_from_raw(store)


@pytest.mark.parametrize("seed", range(4))
def test_summaries_of_runs_that_come_at_once_are_those_of_the_raw_rows(seed: int) -> None:
    store = Store("duckdb:///:memory:")
    for document in _documents(drawn_results(seed)):
        with store.write() as connection:
            put_documents(connection, [document], at=START)
    assert rows_of(store) == rows_from_raw(store)


def _documents(results: Sequence[tuple[Run, CaseResult]]) -> list[RunDocument]:
    by_run: dict[str, tuple[Run, dict[str, CaseResult]]] = {}
    for run, result in results:
        by_run.setdefault(run.id, (run, {}))[1][result.case.key] = result
    return [
        RunDocument(run=run, results=tuple(by_case.values())) for run, by_case in by_run.values()
    ]


def test_the_newest_results_have_the_metrics_that_were_requested(store: Store) -> None:
    run = make_run(plan=CASES)
    measurements = [make_measurement("latency_s"), make_measurement("speedup")]
    for index, case in enumerate(CASES):
        result = make_result(f"r{index}", run=run, case=case, measurements=measurements)
        store.ingest(run, result, spool_id=result.id)
    cells = load_latest(store, machine="box", metrics=["speedup"])
    assert [set(cell.summary.measurements) for cell in cells] == [{"speedup"}] * 3
    assert cells[0].summary.measurements["speedup"].median == measurements[1].median
    assert load_latest(store, machine="elsewhere") == ()


def test_a_plan_is_stored_once_however_many_runs_have_it(store: Store) -> None:
    for night in range(3):
        store.save_run(make_run(f"r{night}", plan=CASES, started_at=START + timedelta(days=night)))
    with store.read() as connection:
        num_plans = connection.execute(sa.select(sa.func.count()).select_from(PlanTable)).scalar()
    assert num_plans == 1
    plans = [run.plan for run in load_plans(store)]
    assert plans == [CASES] * 3
    assert all(plan is plans[0] for plan in plans)
    assert load_run(store, "r1").plan == CASES
