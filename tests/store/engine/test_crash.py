"""Acknowledged writes survive kill -9 and a full disk, and none is incomplete."""

from __future__ import annotations

import ctypes
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from compile_hud.db.errors import StoreFull
from compile_hud.db.queries import results as queries
from compile_hud.db.queries import runs
from compile_hud.db.schema.tables import (
    CaseResultTable,
    IngestedTable,
    MeasurementTable,
    SampleTable,
    SeriesTable,
)
from compile_hud.db.store import Store
from tests.support.builders import make_measurement, make_result, make_run
from tests.support.stores import store_processes
from tests.support.stores.disks import file_limit
from tests.support.stores.store_processes import child, result_of

NUM_KILLS = 20


def test_kill_9_at_any_time_loses_nothing_acknowledged(store_url: str) -> None:
    chance = random.Random(20260101)
    acknowledged: list[str] = []
    for kill in range(NUM_KILLS):
        with child(store_processes.ingest_for_ever, store_url, f"k{kill}") as (process, pipe):
            for _ in range(chance.randrange(3)):
                acknowledged.append(pipe.recv())
            # Up to a transaction's length later, so that the kill falls anywhere within one.
            pipe.poll(chance.uniform(0, 0.1))
            acknowledged += store_processes.kill(process, pipe)
        _check_whole(Store(store_url), at_least=acknowledged)
    assert len(acknowledged) >= 10


def _check_whole(store: Store, *, at_least: list[str]) -> None:
    with store.read() as connection:
        ids = set(connection.execute(sa.select(CaseResultTable.c.id)).scalars())
        ingested = set(connection.execute(sa.select(IngestedTable.c.spool_id)).scalars())
        num_samples = connection.execute(sa.select(sa.func.count(SampleTable.c.value))).scalar()
        points = connection.execute(
            sa.select(
                MeasurementTable.c.series_key, sa.func.count(MeasurementTable.c.run_id.distinct())
            ).group_by(MeasurementTable.c.series_key)
        )
        num_points = {row[0]: row[1] for row in points}
        headers = connection.execute(sa.select(SeriesTable.c.key, SeriesTable.c.num_points))
        assert {row[0]: row[1] for row in headers} == num_points
    assert set(at_least) <= ids
    assert ids == ingested
    assert num_samples == len(ids) * (50 + 2 + 3)
    for name in sorted(ids)[-3:]:
        assert queries.load_result(store, name) == result_of(name)


def test_a_killed_first_write_leaves_no_half_made_store(duckdb_url: str) -> None:
    chance = random.Random(7)
    for _ in range(5):
        with child(store_processes.ingest_for_ever, duckdb_url, "first") as (_, pipe):
            pipe.poll(chance.uniform(0, 0.05))
        _check_whole(Store(duckdb_url), at_least=[])
        for path in Path(Store(duckdb_url).name).parent.glob("*"):
            path.unlink()


def _fill(store: Store) -> list[str]:
    run = make_run()
    # Digits that do not compress.
    chance = random.Random(1)
    for number in range(200):
        samples = [chance.random() for _ in range(20_000)]
        result = make_result(
            f"r{number}", run=run, measurements=[make_measurement(samples=samples)]
        )
        try:
            store.ingest(run, result, spool_id=result.id)
        except StoreFull:
            return [f"r{stored}" for stored in range(number)]
    raise AssertionError("the disk did not become full")


def _check_full_store(store: Store, stored: list[str]) -> None:
    assert len(stored) > 0
    with store.read() as connection:
        ids = connection.execute(sa.select(CaseResultTable.c.id)).scalars()
        assert sorted(ids) == sorted(stored)
    assert len(queries.load_samples(store, stored[-1], "latency_s")) == 20_000


def test_a_file_that_may_not_grow_is_a_full_store(duckdb_url: str) -> None:
    store = Store(duckdb_url)
    store.migrate()
    with file_limit(4 * 2**20):
        stored = _fill(store)
        _check_full_store(store, stored)
    assert store.ingest(make_run(), make_result("more"), spool_id="more")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Yield a folder on a disk of 8 MB."""
    libc = ctypes.CDLL(None, use_errno=True)
    folder = tmp_path / "disk"
    folder.mkdir()
    if libc.mount(b"tmpfs", str(folder).encode(), b"tmpfs", 0, b"size=8m") != 0:
        reason = f"may not mount: {os.strerror(ctypes.get_errno())}"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    yield folder
    libc.umount(str(folder).encode())


def test_a_full_disk_is_a_full_store_that_can_be_read(small_disk: Path) -> None:
    store = Store(f"duckdb:///{small_disk}/hud.duckdb")
    store.migrate()
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"\0" * 2**20)
    stored = _fill(store)
    _check_full_store(store, stored)
    ballast.unlink()
    assert store.ingest(make_run(), make_result("more"), spool_id="more")


def test_no_room_for_the_first_write(small_disk: Path, caplog: pytest.LogCaptureFixture) -> None:
    (small_disk / "ballast").write_bytes(b"\0" * (8 * 2**20 - 2**18))
    store = Store(f"duckdb:///{small_disk}/hud.duckdb")
    with pytest.raises(StoreFull) as caught:
        store.save_run(make_run())
    assert caught.value.parameters == {"store": store.name}
    assert runs.load_runs(store) == []
    assert list(small_disk.glob("hud.duckdb.new*")) == []
    assert caplog.records == [], "one clear message, no tracebacks of the pool"
