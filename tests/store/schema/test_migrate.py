"""A migrated store equals a fresh one, and one that is newer or too old is refused, with advice."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy.engine import Connection
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.engine.database import open_database
from compile_hud.db.errors import StoreTooNew, StoreTooOld
from compile_hud.db.queries import results as queries
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.schema import migrate
from compile_hud.db.schema.tables import METADATA
from compile_hud.db.schema.version import revision_of
from compile_hud.db.store import Store
from tests.store.maintenance.test_backup import contents, fill, url_of
from tests.support.builders import make_result, make_run
from tests.support.errors import error_of, message_of
from tests.support.nightly import daily_first
from tests.support.stores.drawn_stores import fill_drawn
from tests.support.stores.old_stores import (
    LOCK_TIMEOUT,
    OLDEST,
    REPLY_TABLES,
    fill_empty_tables,
    make_old_store,
    make_old_tables,
)

NEWEST = migrate.known_revisions()[-1]
AFTER = f"m{int(NEWEST[1:]) + 1:04}"
NEXT = f"""
import sqlalchemy as sa
from alembic import op
revision = "{AFTER}"
down_revision = "{NEWEST}"
def upgrade():
    op.add_column("runs", sa.Column("note", sa.String()))
"""


def _set_revision(store: Store, revision: str) -> None:
    with store.write() as connection:
        connection.execute(
            sa.text("UPDATE alembic_version SET version_num = :revision"), {"revision": revision}
        )


def _later_release(folder: Path) -> Path:
    for path in migrate.MIGRATIONS.glob("m*.py"):
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / f"{AFTER}_add_note.py").write_text(NEXT)
    return folder


def _columns(connection: Connection) -> set[tuple[str, str, str, bool, bool]]:
    inspector = sa.inspect(connection)
    return {
        (
            table,
            column["name"],
            str(column["type"]),
            column["nullable"],
            column["name"] in inspector.get_pk_constraint(table)["constrained_columns"],
        )
        for table in inspector.get_table_names()
        for column in inspector.get_columns(table)
        if table != "alembic_version"
    }


def _indexes(connection: Connection) -> set[tuple[str, str, tuple[str | None, ...]]]:
    inspector = sa.inspect(connection)
    return {
        (table, str(index["name"]), tuple(index["column_names"]))
        for table in inspector.get_table_names()
        for index in inspector.get_indexes(table)
    }


def _migrate_step_by_step(url: str) -> Store:
    database = open_database(url, lock_timeout=LOCK_TIMEOUT)
    with database.write() as connection:
        migrate.upgrade(connection, name=database.name, to=NEWEST)
    return Store(url)


def _store_of_every_table() -> Store:
    store = Store("duckdb:///:memory:")
    fill(store)
    fill_empty_tables(store)
    return store


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["file", "postgres"])
def test_the_first_migration_makes_what_stores_of_its_schema_have(
    kind: str, request: pytest.FixtureRequest
) -> None:
    schemas = []
    for name in ("spelled_out", "migrated"):
        database = open_database(url_of(kind, request, name), lock_timeout=LOCK_TIMEOUT)
        with database.write() as connection:
            if name == "spelled_out":
                make_old_tables(connection)
            else:
                migrate.upgrade(connection, name=database.name, to=OLDEST)
            schemas.append((_columns(connection), _indexes(connection)))
    assert schemas[0] == schemas[1]
    assert migrate.known_revisions()[0] == OLDEST


@pytest.mark.parametrize("kind", ["file", "postgres"])
def test_a_store_is_the_same_fresh_migrated_and_upgraded(
    kind: str, request: pytest.FixtureRequest
) -> None:
    fresh = Store(url_of(kind, request, "fresh"))
    fresh.migrate()
    migrated = _migrate_step_by_step(url_of(kind, request, "steps"))
    old_url = url_of(kind, request, "old")
    make_old_store(old_url, rows_of=_store_of_every_table())
    upgraded = Store(old_url)
    upgraded.migrate()
    with fresh.read() as connection:
        expected = (_columns(connection), _indexes(connection), revision_of(connection))
    assert expected[-1] == NEWEST
    for store in (migrated, upgraded):
        with store.read() as connection:
            schema = (_columns(connection), _indexes(connection), revision_of(connection))
            assert schema == expected
            if kind == "postgres":
                context = MigrationContext.configure(connection, opts={"compare_type": True})
                assert compare_metadata(context, METADATA) == []


@pytest.mark.parametrize("kind", ["file", "postgres"])
def test_an_upgrade_keeps_every_row_but_those_of_replies(
    kind: str, request: pytest.FixtureRequest
) -> None:
    source = _store_of_every_table()
    url = url_of(kind, request, "rows")
    make_old_store(url, rows_of=source)
    with pytest.raises(StoreTooOld) as caught:
        load_runs(Store(url))
    assert (caught.value.parameters["schema"], caught.value.parameters["newest"]) == (
        OLDEST,
        NEWEST,
    )
    old = Store(url)
    old.migrate()
    expected = contents(source)
    assert all(expected.values())
    assert contents(old) == expected
    with old.read() as connection:
        assert set(REPLY_TABLES).isdisjoint(sa.inspect(connection).get_table_names())


@pytest.mark.parametrize("kind", ["file", "postgres"])
def test_an_upgrade_writes_the_results_of_trends(kind: str, request: pytest.FixtureRequest) -> None:
    source = Store("duckdb:///:memory:")
    fill_drawn(source, seed=2026)
    url = url_of(kind, request, "trends")
    make_old_store(url, rows_of=source)
    old = Store(url)
    old.migrate()
    expected = contents(source)["trend_results"]
    assert len(expected) > 20
    assert contents(old)["trend_results"] == expected


def test_the_first_write_upgrades_a_store(store_url: str) -> None:
    make_old_store(store_url, rows_of=_store_of_every_table())
    store = Store(store_url)
    store.save_run(make_run("later"))
    assert {summary.run.id for summary in load_runs(store)} >= {"run-0", "run-1", "later"}


@pytest.mark.parametrize("revision", daily_first(["m0014", "m0009", "m0001"], num_daily=1))
def test_a_store_that_nothing_here_upgrades_says_what_to_do_and_is_left_as_it_is(
    store_url: str, revision: str
) -> None:
    store = Store(store_url)
    fill(store)
    before = contents(store)
    _set_revision(store, revision)
    content = _file_of(store_url)
    for attempt in (
        lambda: load_runs(Store(store_url)),
        lambda: Store(store_url).migrate(),
        lambda: Store(store_url).save_run(make_run("other")),
        lambda: store.save_run(make_run("other")),
    ):
        with pytest.raises(StoreTooOld) as caught:
            attempt()
        assert caught.value.parameters == {
            "store": store.name,
            "schema": revision,
            "oldest": OLDEST,
        }
    assert _file_of(store_url) == content
    with open_database(store_url, lock_timeout=LOCK_TIMEOUT).write() as connection:
        assert revision_of(connection) == revision
        connection.execute(sa.text(f"UPDATE alembic_version SET version_num = '{NEWEST}'"))
    assert contents(store) == before


def _file_of(url: str) -> bytes:
    return Path(url.removeprefix("duckdb:///")).read_bytes() if url.startswith("duckdb") else b""


def test_a_new_store_is_made_without_a_migration(
    duckdb_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("alembic.runtime.environment.EnvironmentContext", None)
    store = Store(duckdb_url)
    store.save_run(make_run())
    assert [run.run.id for run in load_runs(store)] == ["run-1"]


def test_fact_tables_have_no_key_on_duckdb(duckdb_url: str) -> None:
    store = Store(duckdb_url)
    store.migrate()
    with store.read() as connection:
        for table in ("measurements", "samples", "kernels"):
            assert sa.inspect(connection).get_pk_constraint(table)["constrained_columns"] == []
            assert sa.inspect(connection).get_indexes(table) == []


def test_migrating_twice_keeps_everything(store: Store) -> None:
    run = make_run()
    store.ingest(run, make_result(run=run), spool_id="f")
    store.migrate()
    assert len(queries.load_document(store, run.id).results) == 1


def test_an_older_store_is_upgraded_with_its_rows(store: Store, tmp_path: Path) -> None:
    store.save_run(make_run())
    folder = _later_release(tmp_path)
    with store.write() as connection:
        migrate.upgrade(connection, name=store.name, folder=folder)
        note = connection.execute(sa.text("SELECT id, note FROM runs")).all()
    assert [tuple(row) for row in note] == [("run-1", None)]


def test_a_store_of_a_later_release_is_not_touched(store_url: str) -> None:
    store = Store(store_url)
    store.save_run(make_run())
    _set_revision(store, "m0999")
    for attempt in (
        lambda: Store(store_url).save_run(make_run("other")),
        lambda: load_runs(Store(store_url)),
    ):
        with pytest.raises(StoreTooNew) as caught:
            attempt()
        assert caught.value.parameters == {
            "store": store.name,
            "schema": "m0999",
            "newest": NEWEST,
        }


def test_a_store_that_is_upgraded_underneath_is_not_written_any_more(store: Store) -> None:
    store.save_run(make_run())
    _set_revision(store, "m0999")
    with pytest.raises(StoreTooNew) as caught:
        store.save_run(make_run("other"))
    assert caught.value.parameters["schema"] == "m0999"


def test_an_older_store_put_over_it_is_not_written_as_it_is(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save_run(make_run())
    monkeypatch.setattr(migrate, "known_revisions", lambda *_: (NEWEST, AFTER))
    with pytest.raises(StoreTooOld) as caught:
        store.save_run(make_run("other"))
    assert caught.value.parameters["newest"] == AFTER


def test_an_older_store_is_not_read_before_it_is_upgraded(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store(store_url).migrate()
    monkeypatch.setattr(migrate, "known_revisions", lambda *_: (NEWEST, AFTER))
    with pytest.raises(StoreTooOld) as caught:
        load_runs(Store(store_url))
    assert (caught.value.parameters["schema"], caught.value.parameters["newest"]) == (NEWEST, AFTER)


def test_messages_name_both_schemas_and_the_next_step(
    duckdb_url: str, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    errors = [error_of(migrate.check_known, name, name="hud.duckdb") for name in ("m0001", "m0999")]
    Store(duckdb_url).migrate()
    monkeypatch.setattr(migrate, "known_revisions", lambda *_: (NEWEST, AFTER))
    errors.append(error_of(load_runs, Store(duckdb_url)))
    hidden = {"store": Store(duckdb_url).name, "oldest": OLDEST, "newest": NEWEST, "next": AFTER}
    assert [message_of(error, **hidden) for error in errors] == words


def test_revisions_are_numbered_without_a_gap() -> None:
    revisions = migrate.known_revisions()
    first = int(OLDEST[1:])
    assert revisions == tuple(f"m{number:04}" for number in range(first, first + len(revisions)))
