"""Put measurements in the order of their series, which makes a trend one read and not hundreds.

Results come night by night, so the points of a series lie as far apart as the nights. DuckDB skips
what a filter cannot match by the smallest and largest number of each block of rows: rows that are
sorted by `series_hash` within some weeks leave it few blocks, and those of one run stay near each
other. Nothing but speed depends on the order; PostgreSQL has an index instead.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from sqlalchemy import func, insert, select, text, update
from sqlalchemy.engine import Connection

from db.rows import utc
from db.store import Store
from db.tables import ArrangedTable, MeasurementTable

# Four blocks of DuckDB: a trend reads one of them, and what is in no order yet is read in 20 ms.
WINDOW_ROWS: Final = 500_000
_NAME: Final = MeasurementTable.__tablename__
_MEASURED_AT: Final = MeasurementTable.run_started_at


def arrange_measurements(store: Store, *, window_rows: int = WINDOW_ROWS) -> int:
    """Put the measurements of whole windows of at least `window_rows` in order; return how many.

    Each window is a transaction of a few seconds. What is left over waits for the next time.
    """
    num_windows = 0
    while window := _next_window(store, window_rows):
        with store.write() as session:
            _arrange(session.connection(), *window)
        num_windows += 1
    return num_windows


def _next_window(store: Store, window_rows: int) -> tuple[datetime | None, datetime] | None:
    """Return after which run the next window begins and with which it ends; None: not full."""
    with store.read() as connection:
        if connection.dialect.name != "duckdb":
            return None
        wanted = select(ArrangedTable.until).where(ArrangedTable.name == _NAME)
        start = connection.execute(wanted).scalar()
        nights = select(_MEASURED_AT, func.count().label("num")).group_by(_MEASURED_AT)
        if start is not None:
            nights = nights.where(start < _MEASURED_AT)
        num_rows = 0
        for row in connection.execute(nights.order_by(_MEASURED_AT)).all():
            num_rows += row.num
            if num_rows >= window_rows:
                return (None if start is None else utc(start)), utc(row.run_started_at)
    return None


def _arrange(connection: Connection, start: datetime | None, end: datetime) -> None:
    is_within = "run_started_at <= :end" + ("" if start is None else " AND run_started_at > :start")
    bounds = {"end": end} | ({} if start is None else {"start": start})
    for statement in (
        f"CREATE TEMP TABLE window_rows AS SELECT * FROM measurements WHERE {is_within}",
        f"DELETE FROM measurements WHERE {is_within}",
    ):
        connection.execute(text(statement), bounds if ":end" in statement else {})
    connection.execute(
        text(
            "INSERT INTO measurements SELECT * FROM window_rows"
            " ORDER BY series_hash, series_key, run_started_at"
        )
    )
    connection.execute(text("DROP TABLE window_rows"))
    moved = update(ArrangedTable).where(ArrangedTable.name == _NAME).values(until=end)
    if connection.execute(moved).rowcount < 1 and start is None:
        connection.execute(insert(ArrangedTable).values(name=_NAME, until=end))
