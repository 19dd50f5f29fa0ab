"""Stores as older releases left them: the tables of their revision, with rows of that time."""

from __future__ import annotations

import time
from typing import Final

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from compile_hud.db.engine.database import open_database
from compile_hud.db.engine.readers_writer_lock import Patience
from compile_hud.db.records.results import Alert
from compile_hud.db.rows.mapping import Values, alert_values, case_values
from compile_hud.db.schema import migrate
from compile_hud.db.schema.tables import Base
from tests.builders import make_alert

PATIENCE: Final = Patience(timeout_s=5.0, sleep=time.sleep, monotonic=time.monotonic)


def make_old_store(url: str, revision: str = "m0001") -> Alert:
    """Make a store of `revision` with one alert, and return that."""
    alert = make_alert()
    database = open_database(url, patience=PATIENCE)
    with database.write() as connection:
        migrate.upgrade(connection, name=database.name, to=revision)
        insert_known(connection, "cases", case_values(alert.case))
        insert_known(connection, "alerts", alert_values(alert))
    return alert


def insert_known(connection: Connection, table: str, values: Values) -> None:
    """Insert those of `values` that `table` has a column for."""
    columns = Base.metadata.tables[table].c
    types = {name: columns[name].type for name in values if name in columns}
    there = {column["name"] for column in sa.inspect(connection).get_columns(table)}
    known = {name: value for name, value in values.items() if name in there}
    into = sa.table(table, *(sa.column(name, types.get(name)) for name in known))
    connection.execute(sa.insert(into).values(**known))
