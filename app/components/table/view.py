"""Draw a table that people sort, search and download, in a height that does not change."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

import streamlit as st

from compile_hud.app.components.table.columns import DataTable
from compile_hud.app.data import store
from compile_hud.app.data.cache import read_cache
from compile_hud.app.ui.urls import carried_range

_Value = TypeVar("_Value")

# Pixels: a line of text, which the heading is as well, and both borders.
ROW_HEIGHT, _BORDERS = 32, 2
# A longer table scrolls.
MAX_ROWS = 20
# The beginning of the keys, by which the style sheet finds these elements.
_KEY = "table-"


def cached_table(
    build: Callable[[_Value], DataTable], value: _Value, *, key: Hashable, version: int
) -> DataTable:
    """Return the table that `build` makes of `value`, once for each version of the store.

    `value` is that of `key` at `version`. All sessions share the table.
    """
    # Links of a page carry its range.
    cached_key = (build, store.store_url(), key, carried_range())
    return read_cache().get_or_load(cached_key, version, lambda: build(value))


def draw_table(table: DataTable, *, key: str, max_rows: int = MAX_ROWS) -> None:
    """Draw `table`; `key` is that of the element."""
    st.dataframe(table.frame, **_settings(table, key=key, max_rows=max_rows))


def draw_choice(
    table: DataTable, *, key: str, ids: Sequence[str], max_rows: int = MAX_ROWS
) -> list[str]:
    """Draw `table` with a box in each row, and return the ids of the chosen rows.

    `ids` are those of the rows. A choice follows its row when the rows change.
    """
    _follow_rows(_KEY + key, ids)
    event: Any = st.dataframe(
        table.frame,
        on_select="rerun",
        selection_mode="multi-row",
        **_settings(table, key=key, max_rows=max_rows),
    )
    return _chosen(event, ids)


def _settings(table: DataTable, *, key: str, max_rows: int) -> dict[str, Any]:
    return {
        "key": _KEY + key,
        "hide_index": True,
        "column_order": table.order,
        "column_config": {
            name: getattr(st.column_config, column.kind)(column.name, **column.settings)
            for name, column in table.columns.items()
        },
        "width": "stretch",
        "height": table_height(len(table.frame), max_rows=max_rows),
        "row_height": ROW_HEIGHT,
        "placeholder": "-",
        "alt": table.label,
    }


def table_height(num_rows: int, *, max_rows: int = MAX_ROWS) -> int:
    """Return the height of a table in pixels."""
    return ROW_HEIGHT * (min(num_rows, max_rows) + 1) + _BORDERS


def _follow_rows(key: str, ids: Sequence[str]) -> None:
    """Select the rows that were selected before, wherever they are now."""
    before: Sequence[str] = st.session_state.get(f"{key}-ids", ids)
    st.session_state[f"{key}-ids"] = tuple(ids)
    if tuple(before) == tuple(ids) or key not in st.session_state:
        return
    rows = [ids.index(id) for id in _chosen(st.session_state[key], before) if id in ids]
    st.session_state[key] = {"selection": {"rows": rows, "columns": [], "cells": []}}


def _chosen(event: Any, ids: Sequence[str]) -> list[str]:
    rows = (event or {}).get("selection", {}).get("rows") or []
    return [ids[row] for row in rows if 0 <= row < len(ids)]
