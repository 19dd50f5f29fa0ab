"""The history that trends read equals one of the raw rows, however the results were stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

import numpy as np
import pytest
import sqlalchemy as sa

from compile_hud.db.maintenance.consistency import find_orphans, remove_orphans
from compile_hud.db.queries.trends import LEAD, load_result_history
from compile_hud.db.records.metrics import MODE_METRICS
from compile_hud.db.records.results import (
    DEFERRED,
    MODES,
    SAME_CODE_AS,
    Outcome,
)
from compile_hud.db.records.summaries import ResultHistory
from compile_hud.db.schema.tables import TrendResultTable
from compile_hud.db.store import Store
from compile_hud.runner.analysis.trends.records import PASS_RATE, TREND_METRICS
from tests.support.builders import START
from tests.support.nightly import daily_first
from tests.support.stores.drawn_stores import CASES, SCOPES, fill_drawn

RESULTS: Final = """
SELECT runs.machine, runs.toolchain, runs.started_at AS at, results.*
FROM case_results AS results JOIN runs ON runs.id = results.run_id
ORDER BY runs.started_at, runs.id, results.finished_at, results.id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRows:
    """The rows of a scope, in the order of the runs and of the ends of the results."""

    runs: list[Any]
    results: list[Any]
    estimates: Mapping[tuple[str, str], tuple[float, float, float]]


def raw_rows(store: Store, machine: str, toolchain: str) -> RawRows:
    with store.read() as connection:
        runs = connection.execute(sa.text("SELECT * FROM runs ORDER BY started_at, id")).all()
        results = connection.execute(sa.text(RESULTS)).all()
        measured = connection.execute(sa.text("SELECT * FROM measurements")).all()
    return RawRows(
        runs=[run for run in runs if (run.machine, run.toolchain) == (machine, toolchain)],
        results=[row for row in results if (row.machine, row.toolchain) == (machine, toolchain)],
        estimates={
            (row.result_id, row.metric): (row.median, row.low, row.high) for row in measured
        },
    )


def was_deferred(row: Any) -> bool:
    return bool(row.outcome == "skipped" and row.reason.startswith(DEFERRED))


def check_history(history: ResultHistory, raw: RawRows, *, since: datetime) -> None:
    """Check every number of `history` against the raw rows."""
    start = since - LEAD
    ids = [run.id for run in raw.runs if run.started_at >= start]
    assert [run.id for run in history.runs] == ids
    valid = {(row.run_id, row.case_key): row for row in raw.results}
    by_end = sorted(raw.results, key=lambda row: (row.at, row.finished_at, row.id))
    newest = {row.case_key: row for row in by_end if not was_deferred(row)}
    keys = [case.key for case in history.cases]
    for column, case in enumerate(history.cases):
        row = newest[case.key]
        check_cell(history, raw, 0, column, row if row.at < start else None, keys=keys)
        for number, run_id in enumerate(ids, start=1):
            row = valid.get((run_id, case.key))
            has_row = row is not None and not was_deferred(row)
            check_cell(history, raw, number, column, row if has_row else None, keys=keys)


def check_cell(
    history: ResultHistory, raw: RawRows, row: int, column: int, result: Any, *, keys: list[str]
) -> None:
    outcome = -1 if result is None else list(Outcome).index(Outcome(result.outcome))
    assert history.outcomes[row, column] == outcome
    source = -1
    if result is not None and result.outcome == "same_code":
        variant = result.reason.removeprefix(SAME_CODE_AS)
        key = replace(history.cases[column], variant=variant).key
        source = keys.index(key) if key in keys else -1
    assert history.sources[row, column] == source
    ran = "" if result is None else result.effective_mode
    modes = MODES[1:]
    fallback = modes.index(ran) if ran in modes else len(modes)
    own = history.cases[column].mode
    assert history.fallbacks[row, column] == (-1 if ran in ("", own) else fallback)
    for metric, values in history.values.items():
        missing = (np.nan, np.nan, np.nan)
        known = raw.estimates.get((result.id, metric), missing) if result is not None else missing
        np.testing.assert_array_equal(values[:, row, column], known)


def check_all(store: Store) -> None:
    """Check the histories of all scopes, from several days on."""
    for machine, toolchain in SCOPES:
        raw = raw_rows(store, machine, toolchain)
        for days in (0, 33, 45, 400):
            since = START + timedelta(days=days)
            history = load_result_history(
                store, machine=machine, toolchain=toolchain, since=since, metrics=MODE_METRICS
            )
            measured = {row.case_key for row in raw.results if not was_deferred(row)}
            assert {case.key for case in history.cases} == measured & {
                case.key for case in CASES[: 2 * len(MODES)]
            }
            check_history(history, raw, since=since)


@pytest.mark.parametrize("seed", daily_first(range(40), num_daily=2))
def test_a_history_is_that_of_the_raw_rows(seed: int) -> None:
    store = Store("duckdb:///:memory:")
    fill_drawn(store, seed=seed)
    check_all(store)
    assert find_orphans(store) == ()


def test_a_history_is_that_of_the_raw_rows_on_every_store(store: Store) -> None:
    fill_drawn(store, seed=1234)
    check_all(store)
    assert find_orphans(store) == ()


@pytest.mark.parametrize(
    "damage",
    daily_first(
        [
            "DELETE FROM trend_results WHERE outcome <> 'ok'",
            "UPDATE trend_results SET speedup_high = 7 WHERE outcome = 'ok'",
            "UPDATE trend_results SET energy_j = NULL WHERE energy_j IS NOT NULL",
            "UPDATE trend_results SET same_code_as = 'other' WHERE outcome = 'same_code'",
            "UPDATE trend_results SET run_started_at = '2026-07-04 00:00:00+00'",
            "INSERT INTO trend_results SELECT * FROM trend_results WHERE outcome = 'failed'",
        ],
        num_daily=2,
    ),
)
def test_a_repair_writes_what_differs_from_the_results(damage: str) -> None:
    store = Store("duckdb:///:memory:")
    fill_drawn(store, seed=77)
    before = rows_of(store)
    with store.write() as connection:
        connection.execute(sa.text(damage))
    (wrong,) = find_orphans(store)
    assert wrong.table == "trend_results"
    assert 0 < wrong.num_rows <= len(before)
    assert remove_orphans(store) == wrong.num_rows
    assert rows_of(store) == before
    assert find_orphans(store) == ()


def test_a_repair_follows_the_results_that_remain(store: Store) -> None:
    fill_drawn(store, seed=5)
    with store.write() as connection:
        connection.execute(sa.text("DELETE FROM case_results WHERE case_key LIKE 'gpt/%'"))
        newest = connection.execute(sa.text("SELECT max(started_at) FROM runs")).scalar()
        connection.execute(
            sa.text("DELETE FROM runs WHERE started_at = :newest"), {"newest": newest}
        )
    assert "trend_results" in {item.table for item in find_orphans(store)}
    remove_orphans(store)
    assert find_orphans(store) == ()
    with store.read() as connection:
        keys = connection.execute(sa.select(TrendResultTable.c.case_key)).scalars().all()
    assert keys
    assert not any(key.startswith("gpt/") for key in keys)


def rows_of(store: Store) -> list[Any]:
    with store.read() as connection:
        return sorted(map(tuple, connection.execute(sa.select(TrendResultTable)).all()), key=str)


def test_the_summary_has_the_metrics_of_the_trends() -> None:
    assert set(MODE_METRICS) == set(TREND_METRICS) - {PASS_RATE}
    columns = set(TrendResultTable.c.keys())
    assert columns >= {f"{name}{end}" for name in MODE_METRICS for end in ("", "_low", "_high")}
