"""Sort measurements by series, so that a trend takes a few reads instead of hundreds.

Results come night by night, so the points of a series lie as far apart as the nights. DuckDB skips
blocks of rows by the minimum and maximum of each. Rows that are sorted by `series_hash` within a
window of some nights leave it one block of each window. MERGED windows become one larger window, so
that years of nights are a dozen windows. The largest windows have as many rows as can be sorted in
seconds. Only speed depends on the order; PostgreSQL has an index instead.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import delete, func, insert, select, text, update
from sqlalchemy.engine import Connection

from compile_hud.db.rows.columns import read_rows
from compile_hud.db.schema.tables import ArrangedTable, MeasurementTable
from compile_hud.db.store import Store

# A block of DuckDB; unsorted rows up to this number are read in milliseconds.
WINDOW_ROWS: Final = 122_880
MERGED: Final = 4
# Windows of two million rows are not merged further: sorting them blocks the store for seconds.
LARGEST_LEVEL: Final = 2
_NAME: Final = MeasurementTable.name
_MEASURED_AT: Final = MeasurementTable.c.run_started_at


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """The runs that began after `start` (None: from the first on), up to the one at `end`.

    It has about MERGED times the rows of a window of one `level` less.
    """

    start: datetime | None
    end: datetime
    level: int


def compact_measurements(store: Store, *, window_rows: int = WINDOW_ROWS) -> int:
    """Sort the measurements of whole windows of at least `window_rows`; return their number.

    Each window is a transaction of a few seconds. Remaining rows wait for the next call.
    """
    num_windows = 0
    while window := _next_window(store, window_rows):
        with store.write() as connection:
            _arrange(connection, window)
        num_windows += 1
    return num_windows


def _next_window(store: Store, window_rows: int) -> _Window | None:
    """Return the next window to sort, None without one."""
    with store.read() as connection:
        if connection.dialect.name != "duckdb":
            return None
        known = read_rows(
            connection,
            select(ArrangedTable.c.until, ArrangedTable.c.level)
            .where(ArrangedTable.c.name == _NAME)
            .order_by(ArrangedTable.c.until),
        )
        start = known[-1].until if known else None
        nights = select(_MEASURED_AT.label("at"), func.count().label("num")).group_by(_MEASURED_AT)
        if start is not None:
            nights = nights.where(start < _MEASURED_AT)
        rows = read_rows(connection, nights.order_by(_MEASURED_AT))
    windows = [
        _Window(start=before, end=row.until, level=row.level)
        for before, row in zip([None, *(row.until for row in known)], known, strict=False)
    ]
    return _unarranged([(row.at, row.num) for row in rows], start, window_rows) or _merged(windows)


def _unarranged(
    nights: Sequence[tuple[datetime, int]], start: datetime | None, window_rows: int
) -> _Window | None:
    """Return the largest window that `nights`, with their numbers of rows, fill."""
    num_left = sum(num for _, num in nights)
    for level in range(LARGEST_LEVEL, -1, -1):
        num_rows = window_rows * MERGED**level
        if num_left >= num_rows:
            sums = itertools.accumulate(num for _, num in nights)
            end = next(at for (at, _), total in zip(nights, sums, strict=True) if total >= num_rows)
            return _Window(start=start, end=end, level=level)
    return None


def _merged(windows: Sequence[_Window]) -> _Window | None:
    """Return the window that some of `windows` merge into, None while they are too few.

    Smaller ones may lie between larger ones: nights come one by one, or many at once.
    """
    for level in range(LARGEST_LEVEL):
        larger = (index for index, window in enumerate(windows, 1) if window.level > level)
        last = windows[max(larger, default=0) :]
        sizes = itertools.accumulate(MERGED**window.level for window in last)
        for window, size in zip(last, sizes, strict=True):
            if size >= MERGED ** (level + 1):
                return _Window(start=last[0].start, end=window.end, level=level + 1)
    return None


def _arrange(connection: Connection, window: _Window) -> None:
    is_within = "run_started_at <= :end"
    bounds = {"end": window.end}
    if window.start is not None:
        is_within += " AND run_started_at > :start"
        bounds["start"] = window.start
    for statement in (
        f"CREATE TEMP TABLE window_rows AS SELECT * FROM measurements WHERE {is_within}",
        f"DELETE FROM measurements WHERE {is_within}",
    ):
        connection.execute(text(statement), bounds)
    connection.execute(
        text(
            "INSERT INTO measurements SELECT * FROM window_rows"
            " ORDER BY series_hash, series_key, run_started_at"
        )
    )
    connection.execute(text("DROP TABLE window_rows"))
    _remember(connection, window)


def _remember(connection: Connection, window: _Window) -> None:
    """Replace the windows that `window` was merged from."""
    is_inside = (ArrangedTable.c.name == _NAME) & (ArrangedTable.c.until < window.end)
    if window.start is not None:
        is_inside &= ArrangedTable.c.until > window.start
    connection.execute(delete(ArrangedTable).where(is_inside))
    is_last = (ArrangedTable.c.name == _NAME) & (ArrangedTable.c.until == window.end)
    if connection.execute(select(ArrangedTable.c.level).where(is_last)).first() is None:
        values = {"name": _NAME, "until": window.end, "level": window.level}
        connection.execute(insert(ArrangedTable).values(**values))
    else:
        connection.execute(update(ArrangedTable).where(is_last).values(level=window.level))
