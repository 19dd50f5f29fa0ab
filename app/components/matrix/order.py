"""The order, the selection and the heat of the matrix of results. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from compile_hud.app.ui.urls import MATRIX_FILTERS, MATRIX_HEATS

VALUE, CHANGE = MATRIX_HEATS
# Rows with an open alert, with a result that is not ok, or with a stale one.
ALERTS, FAILING, STALE = MATRIX_FILTERS
MODEL = "model"
_NUM_LEVELS = 5
# The least change in percent of each level.
_CHANGE_LEVELS_PCT = (1.0, 2.0, 5.0, 10.0, 20.0)
_Row = TypeVar("_Row")


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixView:
    """The order, the shades and the selected rows of a matrix.

    `sort` is MODEL or a variant, "" for the worst first; a leading `-` sorts the largest first.
    `heat` is one of MATRIX_HEATS, "" for none, and `only` one of MATRIX_FILTERS, "" for all rows.
    """

    sort: str = ""
    heat: str = ""
    only: str = ""

    @property
    def column(self) -> str:
        """Return the column that the rows are sorted by, "" for the worst first."""
        return self.sort.removeprefix("-")

    @property
    def is_descending(self) -> bool:
        """Return whether the largest comes first."""
        return self.sort.startswith("-")

    def next_sort(self, column: str) -> str:
        """Return the order after a click on `column`: one way, the other, the worst first."""
        first, second = (column, f"-{column}") if column == MODEL else (f"-{column}", column)
        return {first: second, second: ""}.get(self.sort, first)


def change_of(values: Sequence[float]) -> float | None:
    """Return the newest of `values` over the median of the others, less 1; None for fewer than two.

    The values come oldest first.
    """
    if len(values) < 2:
        return None
    before = statistics.median(values[:-1])
    return values[-1] / before - 1 if before else None


def value_levels(values: Iterable[float]) -> Callable[[float], str]:
    """Return the function that gives a value its shade on the logarithmic scale of all `values`."""
    logs = [math.log(value) for value in values if value > 0]
    if not logs or math.isclose(min(logs), max(logs)):
        return lambda _: ""
    low, high = min(logs), max(logs)

    def level(value: float) -> str:
        if value <= 0:
            return ""
        share = (math.log(value) - low) / (high - low)
        return _style(min(_NUM_LEVELS, int(share * (_NUM_LEVELS + 1))))

    return level


def change_level(change: float | None) -> str:
    """Return the shade of a relative change, by its size."""
    size_pct = 0.0 if change is None else abs(100 * change)
    return _style(sum(size_pct >= least for least in _CHANGE_LEVELS_PCT))


def _style(level: int) -> str:
    return f"heat{level}" if level else ""


def sorted_rows(
    rows: Sequence[_Row],
    view: MatrixView,
    *,
    name: Callable[[_Row], str],
    number: Callable[[_Row], float | None],
) -> list[_Row]:
    """Return `rows` in the order of `view`, those without a number last."""
    if not view.column:
        return list(rows)
    if view.column == MODEL:
        return sorted(rows, key=name, reverse=view.is_descending)
    known = [(value, row) for row in rows if (value := number(row)) is not None]
    known.sort(key=lambda pair: pair[0], reverse=view.is_descending)
    return [row for _, row in known] + [row for row in rows if number(row) is None]


def sections_of(keys: Sequence[tuple[str, ...]]) -> Mapping[tuple[str, ...], int] | None:
    """Return the number of rows of each key, in order; None if sections would be too small.

    `keys` are those of the rows. With two rows for a section at least, a heading is worth its line.
    """
    counts: dict[tuple[str, ...], int] = {}
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    return counts if len(counts) > 1 and len(keys) >= 2 * len(counts) else None
