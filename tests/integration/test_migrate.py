"""A migrated store equals a fresh one, and a newer or older one is refused with a clear message."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy.engine import Connection

from compile_hud.db.engine.database import open_database
from compile_hud.db.errors import StoreTooNew, StoreTooOld
from compile_hud.db.queries import results as queries
from compile_hud.db.queries._merge_plans import load_plans
from compile_hud.db.records.metrics import Direction
from compile_hud.db.records.results import CaseResult, Run, series_key
from compile_hud.db.rows.mapping import (
    Values,
    case_values,
    measurement_values,
    result_values,
    run_values,
)
from compile_hud.db.schema import migrate
from compile_hud.db.schema.tables import Base
from compile_hud.db.schema.version import revision_of
from compile_hud.db.store import Store
from tests.builders import START, make_result, make_run
from tests.integration.old_stores import PATIENCE, insert_known, make_old_store

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


OLDER = f"has schema {NEWEST}, .* reads {AFTER}.*hud db migrate"


def _set_revision(store: Store, revision: str) -> None:
    with store.write() as session:
        session.connection().execute(
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


def _migrate_step_by_step(url: str) -> Store:
    database = open_database(url, patience=PATIENCE)
    with database.write() as connection:
        migrate.upgrade(connection, name=database.name, to=NEWEST)
    return Store(url)


def test_migrations_make_what_the_tables_say_on_duckdb(tmp_path: Path) -> None:
    fresh = Store(f"duckdb:///{tmp_path}/fresh.duckdb")
    fresh.migrate()
    migrated = _migrate_step_by_step(f"duckdb:///{tmp_path}/migrated.duckdb")
    with fresh.read() as connection:
        created = _columns(connection)
        assert revision_of(connection) == NEWEST
    with migrated.read() as connection:
        assert _columns(connection) == created


def test_a_new_store_is_made_without_a_migration(
    duckdb_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("compile_hud.db.schema.migrate.EnvironmentContext", None)
    store = Store(duckdb_url)
    store.save_run(make_run())
    assert [run.run.id for run in queries.load_runs(store)] == ["run-1"]


@pytest.mark.parametrize("revision", migrate.known_revisions())
def test_a_store_of_every_release_migrates_to_what_a_fresh_one_is(
    shared_url: str, tmp_path: Path, revision: str
) -> None:
    alert = make_old_store(shared_url, revision)
    fresh = Store(f"duckdb:///{tmp_path}/fresh.duckdb")
    fresh.migrate()
    old = Store(shared_url)
    old.migrate()
    with fresh.read() as connection:
        wanted = {column[:2] for column in _columns(connection)}
    with old.read() as connection:
        assert {column[:2] for column in _columns(connection)} == wanted
        if connection.dialect.name == "postgresql":
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            assert compare_metadata(context, Base.metadata) == []
    # What a fresh store has, an old one has as well: types, nulls and keys by writing and reading.
    assert queries.load_alerts(old) == (alert,)


@pytest.mark.parametrize("is_new", [True, False])
def test_migrations_make_what_the_tables_say_on_postgresql(
    postgres_url: str, *, is_new: bool
) -> None:
    store = Store(postgres_url) if is_new else _migrate_step_by_step(postgres_url)
    store.migrate()
    with store.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Base.metadata) == []


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
    with store.write() as session:
        migrate.upgrade(session.connection(), name=store.name, folder=folder)
        note = session.connection().execute(sa.text("SELECT id, note FROM runs")).all()
    assert [tuple(row) for row in note] == [("run-1", None)]


def test_alerts_of_the_first_release_are_kept_and_were_touched_by_nobody(
    shared_url: str,
) -> None:
    alert = make_old_store(shared_url)
    store = Store(shared_url)
    store.migrate()
    assert queries.load_alerts(store) == (alert,)


def test_directions_that_records_stated_are_kept_by_an_upgrade(shared_url: str) -> None:
    database = open_database(shared_url, patience=PATIENCE)
    with database.write() as connection:
        migrate.upgrade(connection, name=database.name, to="m0004")
        for night, said in enumerate(("lower_is_better", "higher_is_better", "x (guessed)")):
            run = make_run(f"r{night}", trigger="import", started_at=START + timedelta(days=night))
            details = {"imported": {"directions": {"depth": said}}}
            result = make_result(f"c{night}", run=run, details=details)
            insert_known(connection, "runs", run_values(run) | {"plan": plan_text(run)})
            insert_known(connection, "case_results", result_values(result))
        insert_known(connection, "cases", case_values(result.case))
        insert_known(connection, "series", _series("depth", result=result, run=run))
        insert_known(connection, "series", _series("latency_s", result=result, run=run))
    store = Store(shared_url)
    store.migrate()
    found = {header.metric: header.direction for header in queries.find_series(store)}
    assert found == {"depth": Direction.HIGHER_IS_BETTER, "latency_s": None}


def plan_text(run: Run) -> str:
    """Return the plan of `run` as runs kept it until each plan was kept once."""
    return json.dumps([case.to_json() for case in run.plan])


def test_plans_and_what_pages_read_are_kept_by_an_upgrade(shared_url: str) -> None:
    database = open_database(shared_url, patience=PATIENCE)
    with database.write() as connection:
        migrate.upgrade(connection, name=database.name, to="m0008")
        for night in range(2):
            run = make_run(f"r{night}", started_at=START + timedelta(days=night))
            insert_known(connection, "runs", run_values(run) | {"plan": plan_text(run)})
        insert_known(connection, "cases", case_values(run.plan[0]))
        for place in range(2):
            end = run.started_at + timedelta(seconds=9 - place)
            result = make_result(f"c{place}", run=run, finished_at=end)
            insert_known(connection, "case_results", result_values(result))
            for row in measurement_values(result, run=run):
                insert_known(connection, "measurements", row)
    store = Store(shared_url)
    store.migrate()
    assert [found.plan for found in load_plans(store)] == [run.plan] * 2
    (cell,) = queries.load_latest(store)
    assert (cell.run_id, cell.summary.id) == ("r1", "c0")
    assert cell.summary.measurements["latency_s"].median == 0.011
    assert [item.id for item in queries.load_document(store, "r1").results] == ["c0"]


def test_a_job_that_waits_while_the_store_is_upgraded_is_for_any_machine(shared_url: str) -> None:
    database = open_database(shared_url, patience=PATIENCE)
    with database.write() as connection:
        migrate.upgrade(connection, name=database.name, to="m0014")
        job = {"id": "j", "dedupe_key": "night", "suite": "mine", "toolchain": "current"}
        queued = {"trigger": "x", "state": "queued", "enqueued_at": START, "num_attempts": 0}
        insert_known(connection, "jobs", job | queued)
    store = Store(shared_url)
    store.migrate()
    taken = store.lease_job(machine="alpha")
    assert taken is not None
    assert (taken.dedupe_key, taken.machine) == ("night", None)


def _series(metric: str, *, result: CaseResult, run: Run) -> Values:
    return {
        "key": series_key(result.case, metric=metric, fingerprint=run.fingerprint),
        "case_key": result.case.key,
        "metric": metric,
        "unit": "1",
        "machine": run.machine,
        "fingerprint": run.fingerprint,
        "num_points": 3,
        "first_at": START,
        "last_at": run.started_at,
        "last_run_id": run.id,
        "last_value": 1.0,
    }


def test_a_store_of_a_later_release_is_not_touched(shared_url: str) -> None:
    store = Store(shared_url)
    store.save_run(make_run())
    _set_revision(store, "m0999")
    message = "has schema m0999, and this Compile HUD knows m0001 to .*Upgrade Compile HUD"
    with pytest.raises(StoreTooNew, match=message):
        Store(shared_url).save_run(make_run("other"))
    with pytest.raises(StoreTooNew, match=message):
        queries.load_runs(Store(shared_url))


def test_a_store_that_is_upgraded_underneath_is_not_written_any_more(store: Store) -> None:
    store.save_run(make_run())
    _set_revision(store, "m0999")
    with pytest.raises(StoreTooNew, match="has schema m0999"):
        store.save_run(make_run("other"))


def test_an_older_store_put_in_its_place_is_not_written_as_it_is(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.save_run(make_run())
    monkeypatch.setattr(migrate, "known_revisions", lambda *_: (NEWEST, AFTER))
    with pytest.raises(StoreTooOld, match=OLDER):
        store.save_run(make_run("other"))


def test_an_older_store_is_not_read_before_it_is_upgraded(
    shared_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store(shared_url).migrate()
    monkeypatch.setattr(migrate, "known_revisions", lambda *_: (NEWEST, AFTER))
    with pytest.raises(StoreTooOld, match=OLDER):
        queries.load_runs(Store(shared_url))


def test_revisions_are_numbered_without_a_gap() -> None:
    known = migrate.known_revisions()
    assert known == tuple(f"m{number:04}" for number in range(1, len(known) + 1))
