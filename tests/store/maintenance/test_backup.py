"""The content of a backup, and the equality of a restored store."""

from __future__ import annotations

import hashlib
import io
import json
import shutil
import threading
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.errors import BackupError, StoreTooNew, StoreTooOld, StoreUnavailable
from compile_hud.db.maintenance.backup import restore_backup, write_backup
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.triage import Revision
from compile_hud.db.schema import migrate
from compile_hud.db.schema.tables import METADATA
from compile_hud.db.store import Store
from tests.support.builders import make_alert, make_kernel, make_result, make_run
from tests.support.stores import store_processes
from tests.support.stores.old_stores import OLDEST, make_old_store
from tests.support.stores.store_processes import child
from tests.support.terminal import Terminal

NEWEST = migrate.known_revisions()[-1].encode()
AT = datetime(2026, 3, 1, 4, 0, tzinfo=timezone.utc)


def url_of(kind: str, request: pytest.FixtureRequest, name: str) -> str:
    """Return the URL of an empty store of `kind` beside others."""
    if kind == "postgres":
        return str(request.getfixturevalue("postgres_server").create_database(f"hud_b_{name}"))
    return f"duckdb:///{request.getfixturevalue('tmp_path')}/{name}/hud.duckdb"


def contents(store: Store) -> dict[str, list[str]]:
    """Return every row of every table as text, in an order that follows from the rows."""
    with store.read() as connection:
        return {
            table.name: sorted(
                json.dumps(list(row), default=str, sort_keys=True)
                for row in connection.execute(sa.select(table))
            )
            for table in METADATA.sorted_tables
            if table.name != "generation"
        }


def fill(store: Store, *, num_runs: int = 2) -> None:
    """Put runs with samples and kernels, and an alert, into `store`."""
    for number in range(num_runs):
        run = make_run(f"run-{number}")
        result = make_result(f"result-{number}", run=run, kernels=(make_kernel(),))
        store.ingest(run, result, spool_id=f"file-{number}")
    opened = Opened(revisions=(Revision(alert=make_alert(f"alert-{num_runs}")),))
    store.revise_alerts(lambda _before: opened, by="judge")


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A decision."""

    revisions: tuple[Revision, ...]


@pytest.mark.parametrize(("source", "target"), [("file", "postgres"), ("postgres", "file")])
def test_a_restored_store_is_equal_whatever_kind_it_is(
    source: str, target: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    before = Store(url_of(source, request, f"{source}_{target}_1"))
    after = Store(url_of(target, request, f"{source}_{target}_2"))
    fill(before)
    backup = write_backup(before, tmp_path / "backup.zip", at=AT)
    assert restore_backup(tmp_path / "backup.zip", after) == backup
    assert contents(after) == contents(before)
    assert backup.tables["case_results"].num_rows == 2
    assert backup.tables["samples"].num_rows > 0


@pytest.mark.nightly
def test_a_backup_under_load_is_of_one_moment(store_url: str, tmp_path: Path) -> None:
    store = Store(store_url)
    fill(store)
    has_begun, is_over = threading.Event(), threading.Event()

    def write() -> None:
        number = 100
        while not is_over.is_set():
            run = make_run(f"run-{number}")
            Store(store_url).ingest(run, make_result(f"r-{number}", run=run), spool_id=f"{number}")
            has_begun.set()
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        has_begun.wait()
        backup = write_backup(store, tmp_path / "b.zip", at=AT)
    finally:
        is_over.set()
        writer.join()
    restored = Store(f"duckdb:///{tmp_path}/restored.duckdb")
    restore_backup(tmp_path / "b.zip", restored)
    backed_up, now = contents(restored), contents(store)
    assert 2 < backup.tables["runs"].num_rows < len(now["runs"])
    assert len(backed_up["runs"]) == len(backed_up["case_results"]) == len(backed_up["ingested"])
    samples_per_result = len(now["samples"]) / len(now["case_results"])
    assert len(backed_up["samples"]) == samples_per_result * len(backed_up["case_results"])
    # Nothing but what grew meanwhile: the series count their points.
    assert all(set(backed_up[name]) <= set(now[name]) for name in backed_up if name != "series")


def test_a_backup_of_an_older_release_is_migrated(store_url: str, tmp_path: Path) -> None:
    source = Store("duckdb:///:memory:")
    fill(source)
    make_old_store(f"duckdb:///{tmp_path}/old.duckdb", rows_of=source)
    _backup_by_hand(tmp_path / "old.duckdb", tmp_path / "old.zip", revision=OLDEST)
    restore_backup(tmp_path / "old.zip", Store(store_url))
    assert contents(Store(store_url)) == contents(source)


def test_a_backup_that_nothing_here_upgrades_is_refused(duckdb_url: str, tmp_path: Path) -> None:
    path = _rewritten(tmp_path, duckdb_url, lambda text: text.replace(NEWEST, b"m0001"))
    store = Store(f"duckdb:///{tmp_path}/new.duckdb")
    with pytest.raises(StoreTooOld) as caught:
        restore_backup(path, store)
    assert caught.value.parameters["schema"] == "m0001"
    assert store.is_missing()


def test_a_backup_of_a_newer_release_is_refused(duckdb_url: str, tmp_path: Path) -> None:
    path = _rewritten(tmp_path, duckdb_url, lambda text: text.replace(b'"m0', b'"m9'))
    with pytest.raises(StoreTooNew) as caught:
        restore_backup(path, Store(f"duckdb:///{tmp_path}/new.duckdb"))
    assert str(caught.value.parameters["schema"]).startswith("m9")


def test_a_store_with_runs_is_replaced_only_by_force(store_url: str, tmp_path: Path) -> None:
    store = Store(store_url)
    fill(store)
    write_backup(store, tmp_path / "b.zip", at=AT)
    before = contents(store)
    number = store.store_version()
    store.save_run(make_run("later"))
    with pytest.raises(BackupError) as caught:
        restore_backup(tmp_path / "b.zip", store)
    assert caught.value.parameters == {"store": store.name, "problem": "has-runs"}
    restore_backup(tmp_path / "b.zip", store, is_forced=True)
    assert contents(store) == before
    assert store.store_version() > number + 1


@pytest.mark.nightly
def test_what_a_restored_file_replaces_stays_next_to_it(duckdb_url: str, tmp_path: Path) -> None:
    store = Store(duckdb_url)
    fill(store)
    write_backup(store, tmp_path / "b.zip", at=AT)
    store.save_run(make_run("later"))
    restore_backup(tmp_path / "b.zip", store, is_forced=True)
    replaced = Store(f"{duckdb_url}.replaced")
    assert "later" in {item.run.id for item in load_runs(replaced)}


@pytest.mark.nightly
def test_nothing_that_was_replaced_before_is_missing(tmp_path: Path) -> None:
    store = Store(f"duckdb:///{tmp_path}/store.duckdb")
    fill(store)
    write_backup(store, tmp_path / "b.zip", at=AT)
    theirs = tmp_path / "theirs"
    theirs.write_bytes(b"of another program")
    # What is left of a log alone takes a name, too.
    (tmp_path / "theirs.replaced-2.wal").write_bytes(b"a log")
    for number in range(3):
        restore_backup(tmp_path / "b.zip", Store(f"duckdb:///{theirs}"), is_forced=True)
        assert contents(Store(f"duckdb:///{theirs}")) == contents(store)
        Store(f"duckdb:///{theirs}").save_run(make_run(f"later-{number}"))
    assert (tmp_path / "theirs.replaced").read_bytes() == b"of another program"
    assert (tmp_path / "theirs.replaced-2.wal").read_bytes() == b"a log"
    for number in range(2):
        replaced = Store(f"duckdb:///{theirs}.replaced-{3 + number}")
        assert f"later-{number}" in {item.run.id for item in load_runs(replaced)}


def test_a_restore_killed_at_any_rename_leaves_the_old_rows_or_the_new(
    duckdb_url: str, tmp_path: Path
) -> None:
    store = Store(duckdb_url)
    fill(store)
    write_backup(store, tmp_path / "b.zip", at=AT)
    new = contents(store)
    store.save_run(make_run("later"))
    with child(store_processes.commit_and_die, store.name, "last words") as (process, pipe):
        assert pipe.recv() == "committed"
        process.join()
    assert Path(f"{store.name}.wal").exists()
    begun = copied(Path(store.name).parent, tmp_path / "begun")
    is_restored = False
    num_renames = 0
    while not is_restored:
        num_renames += 1
        folder = copied(begun, tmp_path / f"at-{num_renames}")
        path = folder / Path(store.name).name
        arguments = (f"duckdb:///{path}", str(tmp_path / "b.zip"), num_renames)
        with child(store_processes.restore_and_die, *arguments) as (process, pipe):
            process.join()
            is_restored = pipe.poll() and process.exitcode == 0
        rows = contents(Store(f"duckdb:///{path}"))
        is_old = any("last words" in row for row in rows["ingested"])
        assert is_old or rows == new
        assert not (is_restored and is_old)
    assert num_renames > 3
    # The last write is in what stays next to the restored store.
    replaced = contents(Store(f"duckdb:///{path}.replaced"))
    assert any("last words" in row for row in replaced["ingested"])


def copied(folder: Path, target: Path) -> Path:
    """Return a copy of the files of `folder`."""
    target.mkdir()
    for path in folder.iterdir():
        if path.is_file():
            shutil.copyfile(path, target / path.name)
    return target


def test_a_damaged_store_can_be_replaced(duckdb_url: str, tmp_path: Path) -> None:
    store = Store(duckdb_url)
    fill(store)
    write_backup(store, tmp_path / "b.zip", at=AT)
    before = contents(store)
    Path(duckdb_url.removeprefix("duckdb:///")).write_bytes(b"not a store")
    with pytest.raises(StoreUnavailable):
        restore_backup(tmp_path / "b.zip", Store(duckdb_url))
    restore_backup(tmp_path / "b.zip", Store(duckdb_url), is_forced=True)
    assert contents(Store(duckdb_url)) == before


def test_a_flipped_byte_is_noticed_and_nothing_is_touched(store_url: str, tmp_path: Path) -> None:
    store = Store(store_url)
    fill(store)
    path = tmp_path / "b.zip"
    write_backup(store, path, at=AT)
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo("samples.parquet")
    content[info.header_offset + 200] ^= 1
    path.write_bytes(content)
    before = contents(store)
    with pytest.raises(BackupError, match="damaged"):
        restore_backup(path, store, is_forced=True)
    assert contents(store) == before


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06" + bytes(18), b"SQLite format 3\0"])
def test_what_is_no_backup_is_refused(content: bytes, duckdb_url: str, tmp_path: Path) -> None:
    (tmp_path / "b.zip").write_bytes(content)
    with pytest.raises(BackupError, match="is no backup"):
        restore_backup(tmp_path / "b.zip", Store(duckdb_url))
    assert Store(duckdb_url).store_version() == 0


def test_a_part_that_unfolds_is_refused(duckdb_url: str, tmp_path: Path) -> None:
    path = _rewritten(tmp_path, duckdb_url, bytes, compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(BackupError) as caught:
        restore_backup(path, Store(f"duckdb:///{tmp_path}/new.duckdb"))
    assert caught.value.parameters["problem"] == "compressed"


def test_a_part_next_to_the_manifest_is_refused(duckdb_url: str, tmp_path: Path) -> None:
    fill(Store(duckdb_url), num_runs=1)
    write_backup(Store(duckdb_url), tmp_path / "b.zip", at=AT)
    with zipfile.ZipFile(tmp_path / "b.zip", "a") as archive:
        archive.writestr("../../evil", "x")
    with pytest.raises(BackupError) as caught:
        restore_backup(tmp_path / "b.zip", Store(duckdb_url))
    assert caught.value.parameters["problem"] == "parts"


def test_a_backup_has_every_table_that_there_is(duckdb_url: str, tmp_path: Path) -> None:
    store = Store(duckdb_url)
    fill(store, num_runs=1)
    backup = write_backup(store, tmp_path / "b.zip", at=AT)
    with store.read() as connection:
        there = set(sa.inspect(connection).get_table_names())
    assert set(backup.tables) == there - {"generation", "alembic_version"}


def test_a_store_without_runs_is_not_backed_up(duckdb_url: str, tmp_path: Path) -> None:
    with pytest.raises(BackupError) as caught:
        write_backup(Store(duckdb_url), tmp_path / "b.zip", at=AT)
    assert caught.value.parameters["problem"] == "no-runs"
    assert not (tmp_path / "b.zip").exists()


def test_a_file_that_is_there_is_not_written_over(duckdb_url: str, tmp_path: Path) -> None:
    (tmp_path / "b.zip").write_text("mine", encoding="ascii")
    with pytest.raises(BackupError) as caught:
        write_backup(Store(duckdb_url), tmp_path / "b.zip", at=AT)
    assert caught.value.parameters["problem"] == "exists"
    assert (tmp_path / "b.zip").read_text(encoding="ascii") == "mine"


def test_a_failed_backup_leaves_nothing_behind(
    duckdb_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(duckdb_url)
    fill(store)
    monkeypatch.setattr(migrate, "known_revisions", lambda *_: (1 / 0,))
    with pytest.raises(ZeroDivisionError):
        write_backup(store, tmp_path / "out" / "b.zip", at=AT)
    assert list((tmp_path / "out").iterdir()) == []


def _rewritten(
    folder: Path, url: str, change: Callable[[bytes], bytes], *, compression: int = 0
) -> Path:
    """Return a backup whose manifest went through `change`, packed anew."""
    whole, other = folder / "whole.zip", folder / "other.zip"
    fill(Store(url), num_runs=1)
    write_backup(Store(url), whole, at=AT)
    with zipfile.ZipFile(whole) as source, zipfile.ZipFile(other, "w", compression) as target:
        for name in source.namelist():
            content = source.read(name)
            target.writestr(name, change(content) if name == "manifest.json" else content)
    return other


def _backup_by_hand(store: Path, path: Path, *, revision: str) -> None:
    tables = {}
    with duckdb.connect(str(store)) as connection, zipfile.ZipFile(path, "w") as archive:
        names = [row[0] for row in connection.execute("SHOW TABLES").fetchall()]
        for name in sorted(set(names) - {"alembic_version", "generation"}):
            table = connection.execute(f"SELECT * FROM {name}").to_arrow_table()
            stream = io.BytesIO()
            pq.write_table(table, stream)
            content = stream.getvalue()
            archive.writestr(f"{name}.parquet", content)
            digest = hashlib.sha256(content).hexdigest()
            tables[name] = {"num_rows": table.num_rows, "sha256": digest}
        manifest = {
            "format": "compile-hud-backup",
            "schema_version": 1,
            "revision": revision,
            "created_at": AT.isoformat(),
            "tables": tables,
        }
        archive.writestr("manifest.json", json.dumps(manifest))


def test_the_commands_back_up_and_restore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    fill(Store("duckdb:///.hud/store.duckdb"))
    result = terminal.hud("db", "backup")
    (path,) = (tmp_path / ".hud" / "backups").iterdir()
    assert result.stdout.startswith(f".hud/backups/{path.name}: ")
    assert f"rows of schema {migrate.known_revisions()[-1]}" in result.stdout
    refused = terminal.hud("db", "restore", str(path))
    assert refused.exit_code == 2
    assert "say --force" in refused.stderr
    result = terminal.hud("db", "restore", str(path), "--store", "other.duckdb")
    assert result.stdout.startswith("other.duckdb ")
    assert contents(Store("duckdb:///other.duckdb")) == contents(
        Store("duckdb:///.hud/store.duckdb")
    )


@pytest.mark.nightly
def test_restore_names_each_file_that_it_moved_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    fill(Store("duckdb:///.hud/store.duckdb"))
    terminal.hud("db", "backup")
    (path,) = (tmp_path / ".hud" / "backups").iterdir()
    result = terminal.hud("db", "restore", str(path), "--force", "--store", "new.duckdb")
    assert len(result.stdout.splitlines()) == 1
    Path("new.duckdb.wal").write_bytes(b"a log")
    result = terminal.hud("db", "restore", str(path), "--force", "--store", "new.duckdb")
    assert result.stdout.splitlines()[1:] == words
    result = terminal.hud("db", "restore", str(path), "--force", "--store", "new.duckdb")
    assert result.stdout.splitlines()[1:] == words
