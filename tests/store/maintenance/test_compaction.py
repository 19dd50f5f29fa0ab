"""The order of the measurements changes no answer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest
import sqlalchemy as sa

from compile_hud.db.maintenance.compaction import compact_measurements
from compile_hud.db.queries import series
from compile_hud.db.records.results import Case
from compile_hud.db.rows.mapping import series_hash
from compile_hud.db.schema.tables import ArrangedTable, MeasurementTable
from compile_hud.db.store import Store
from tests.support.builders import START, make_case, make_measurement, make_result, make_run

CASES = tuple(make_case(model) for model in ("bert", "gpt2", "vit"))


def put_nights(store: Store, first: int, last: int, *, cases: Sequence[Case] = CASES) -> None:
    for night in range(first, last):
        at = START + timedelta(days=night)
        run = make_run(f"run-{night}", plan=cases, started_at=at, finished_at=at)
        for case in cases:
            samples = (1.0 + night,)
            result = make_result(
                f"{night}-{case.model}",
                run=run,
                case=case,
                measurements=[make_measurement("latency_s", samples=samples)],
            )
            store.ingest(run, result, spool_id=result.id)


def trends(store: Store) -> list[list[tuple[str, float]]]:
    return [
        [
            (point.result_id, point.median)
            for point in series.load_trend(
                store, case_key=case.key, metric="latency_s", machine="box"
            )
        ]
        for case in CASES
    ]


def hashes(store: Store) -> list[int]:
    with store.read() as connection:
        return list(connection.execute(sa.select(MeasurementTable.c.series_hash)).scalars())


def test_rows_of_full_windows_are_put_in_order_and_answers_stay(duckdb_url: str) -> None:
    store = Store(duckdb_url)
    put_nights(store, 0, 5)
    before = trends(store)
    assert compact_measurements(store, window_rows=6) == 2
    assert trends(store) == before
    digests = hashes(store)
    # Three rows of the fifth night fill no window; they lie where they lay.
    assert sorted(digests[3:9]) == digests[3:9]
    assert sorted(digests[9:15]) == digests[9:15]
    assert compact_measurements(store, window_rows=6) == 0


@pytest.mark.nightly
def test_nights_that_come_later_are_put_in_order_later(duckdb_url: str) -> None:
    store = Store(duckdb_url)
    put_nights(store, 0, 3)
    assert compact_measurements(store, window_rows=9) == 1
    put_nights(store, 3, 6)
    before = trends(store)
    assert compact_measurements(store, window_rows=9) == 1
    assert trends(store) == before
    assert [len(trend) for trend in before] == [6, 6, 6]


def windows(store: Store) -> list[int]:
    statement = sa.select(ArrangedTable.c.level).order_by(ArrangedTable.c.until)
    with store.read() as connection:
        return list(connection.execute(statement).scalars())


@pytest.mark.nightly
def test_windows_of_one_size_become_one_and_answers_stay(duckdb_url: str) -> None:
    store = Store(duckdb_url)
    levels = []
    for night in range(6):
        put_nights(store, night, night + 1)
        before = trends(store)
        compact_measurements(store, window_rows=3)
        assert trends(store) == before
        levels.append(windows(store))
    assert levels == [[0], [0, 0], [0, 0, 0], [1], [1, 0], [1, 0, 0]]
    digests = hashes(store)
    assert digests[:12] == sorted(digests[:12])


@pytest.mark.nightly
def test_many_nights_at_once_become_the_largest_window_that_they_fill(duckdb_url: str) -> None:
    store = Store(duckdb_url)
    put_nights(store, 0, 5)
    before = trends(store)
    assert compact_measurements(store, window_rows=3) == 2
    assert windows(store) == [1, 0]
    assert trends(store) == before


@pytest.mark.nightly
def test_nights_that_come_five_at_a_time_become_large_windows_too(duckdb_url: str) -> None:
    store = Store(duckdb_url)
    levels = []
    for first in range(0, 20, 5):
        put_nights(store, first, first + 5, cases=CASES[:1])
        before = trends(store)
        compact_measurements(store, window_rows=1)
        assert trends(store) == before
        levels.append(windows(store))
    assert levels == [[1, 0], [1, 0, 1, 0], [1, 0, 1, 0, 1, 0], [2, 0]]


def test_what_earlier_releases_left_apart_becomes_one_window_after_the_other(
    duckdb_url: str,
) -> None:
    """Not one of all: what is sorted at a time must stay small."""
    store = Store(duckdb_url)
    put_nights(store, 0, 4, cases=CASES[:1])
    with store.write() as connection:
        for number in range(16):
            until = START + timedelta(hours=6 * number)
            level = (number + 1) % 2
            values = {"name": "measurements", "until": until, "level": level}
            connection.execute(sa.insert(ArrangedTable).values(**values))
    before = trends(store)
    assert compact_measurements(store, window_rows=3) == 2
    assert windows(store) == [2, 2, 1, 0]
    assert trends(store) == before


def test_an_index_needs_no_order(postgres_url: str) -> None:
    store = Store(postgres_url)
    put_nights(store, 0, 2)
    assert compact_measurements(store, window_rows=1) == 0
    assert [len(trend) for trend in trends(store)] == [2, 2, 2]


def test_a_series_is_looked_up_by_the_number_that_the_upgrade_gave_it() -> None:
    # md5("bert/...") as DuckDB and PostgreSQL compute it.
    assert series_hash("a") == 0x0CC175B
