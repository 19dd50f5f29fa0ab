"""An import that is killed, or whose disk is full, is completed by the next one."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from compile_hud.db.errors import StoreFull
from compile_hud.db.store import Store
from tests.support.nightly import daily_first
from tests.support.records.v3_records import DAY_S, make_record, write_lines
from tests.support.stores import import_processes, store_processes
from tests.support.stores.disks import file_limit
from tests.support.stores.import_processes import contents_of, import_files, write_histories
from tests.support.stores.store_processes import child
from tests.support.terminal import Terminal

NUM_NIGHTS = 7
NUM_KILLS = 10
# About the time of a whole import, on a busy machine less than that.
MAX_DELAY_S = 1.5


@pytest.fixture
def histories(tmp_path: Path) -> list[Path]:
    return write_histories(tmp_path, num_nights=NUM_NIGHTS)


@pytest.mark.parametrize("kill", daily_first(range(NUM_KILLS), num_daily=1))
def test_an_import_killed_anywhere_is_completed_without_loss_or_copy(
    tmp_path: Path, histories: list[Path], kill: int
) -> None:
    whole = f"duckdb:///{tmp_path}/whole.duckdb"
    import_files(whole, histories)
    killed = f"duckdb:///{tmp_path}/killed.duckdb"
    chance = random.Random(20261128 + kill)
    for _ in range(1 + kill % 2):
        with child(import_processes.import_aloud, killed, histories) as (process, pipe):
            assert pipe.recv() == "ready"
            process.join(chance.uniform(0, MAX_DELAY_S))
            acknowledged = store_processes.kill(process, pipe)
        # No file whose report came is read again.
        again = {path.name for path in histories if path.name in acknowledged}
        reports = import_files(killed, [path for path in histories if path.name in again])
        assert all(report.is_known for report in reports)
    import_files(killed, histories)
    assert contents_of(Store(killed)) == contents_of(Store(whole))
    assert all(report.is_known for report in import_files(killed, histories))


@pytest.mark.nightly
def test_a_store_that_is_full_during_an_import_is_one_error_and_the_next_completes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    terminal.clock.advance(30 * DAY_S)
    chance = random.Random(5)
    names = []
    for number in range(4):
        # Numbers that do not compress.
        records = [
            make_record(
                value=[chance.random() for _ in range(9_000)], model=f"m{model}", night=night
            )
            for night in range(3 * number, 3 * number + 3)
            for model in range(3)
        ]
        names.append(write_lines(tmp_path / f"{number}.json", records).name)
    store = terminal.store()
    store.migrate()
    monkeypatch.setattr("compile_hud.runner.interop.importers.importer._FILES_PER_WRITE", 1)
    with file_limit(Path(store.name).stat().st_size + 2**20):
        full = terminal.hud("import", *names)
        error = terminal.error("import", *names)
    assert isinstance(error, StoreFull)
    assert error.parameters.keys() == {"store"}
    assert full.exit_code == 2
    assert full.stderr.splitlines() == [f"hud: {error}"]
    stored = [name for name in names if f"{name}: 9 rows" in full.stdout]
    assert stored == names[: len(stored)]
    assert len(stored) < len(names)
    reports = terminal.json("import", *names, "--json")["files"]
    assert [report["file"] for report in reports if report["unchanged"]] == stored
    terminal.hud("import", *names, "--store", "other.duckdb")
    assert contents_of(store) == contents_of(Store(f"duckdb:///{tmp_path}/other.duckdb"))
