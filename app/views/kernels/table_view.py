"""The drawn table of kernels, for those of a result and of a trace file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import streamlit as st

from compile_hud.app.views.kernels.tables import KernelsTable

_ROW_HEIGHT = 35
_MAX_ROWS = 12
_TEXTS = {
    "label": ("kernel", "the name without numbers that the compiler gives by order"),
    "kind": ("kind", "the kind of work"),
    "library": ("library", "the origin of the code"),
    "operators": ("operators", "the ATen operators it computes"),
    "module": ("module", "the path of the module they are in"),
    "shapes": ("shapes", "the inputs of the call"),
    "config": ("autotune configuration", "the choice of the autotuner"),
    "launch": ("launch", "the launch parameters"),
}
# Pixels; longer texts open on a click, and below the table.
_WIDTHS: dict[str, int] = {"label": 300, "operators": 190, "module": 190}


def row_id(event: Mapping[str, Any], ids: Sequence[str]) -> str:
    """Return the id of the selected row, empty for none."""
    rows = event.get("selection", {}).get("rows") or []
    return ids[rows[0]] if rows and rows[0] < len(ids) else ""


def draw_table(
    table: KernelsTable, *, key: str, on_select: Callable[[], None] | Literal["rerun"]
) -> None:
    """Draw the table; `on_select` is called when a row is selected."""
    columns: dict[str, Any] = {
        name: st.column_config.TextColumn(label, help=meaning, width=_WIDTHS.get(name))
        for name, (label, meaning) in _TEXTS.items()
    }
    for number in table.numbers:
        columns[number.key] = st.column_config.NumberColumn(
            number.label, help=number.help, format="%.3g"
        )
    columns["share"] = st.column_config.ProgressColumn(
        "share", help="part of an iteration", format="%.1f %%", min_value=0, max_value=100
    )
    # This is a callback: a selection stays, and would later undo a choice made elsewhere.
    st.dataframe(
        table.frame,
        key=key,
        hide_index=True,
        column_config=columns,
        on_select=on_select,
        selection_mode="single-row",
        width="stretch",
        placeholder="-",
        alt="the kernels of an iteration, the longest first",
        height=_ROW_HEIGHT * (min(len(table.ids), _MAX_ROWS) + 1) + 3,
    )
