"""The first rows of a long table, and the button that shows the others too.

The browser takes about a millisecond to check, build and lay out a row, so a table of a thousand
cases is there only after a second; what needs attention is in the first rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import streamlit as st

from compile_hud.app.ui.html import escaped
from compile_hud.app.ui.urls import ALL_ROWS

# Two screenfuls.
NUM_FIRST: Final = 40
# A few rows more are not worth a click.
MAX_UNASKED: Final = 60
_PARAMETER: Final = "rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRows:
    """How many rows of a table there are, and which of them the URL asks for (`ALL_ROWS` or "")."""

    num_rows: int
    requested: str

    @property
    def is_long(self) -> bool:
        """Return whether there are more rows than are shown unasked."""
        return self.num_rows > MAX_UNASKED

    @property
    def num_shown(self) -> int:
        """Return how many rows are shown."""
        return NUM_FIRST if self.is_long and self.requested != ALL_ROWS else self.num_rows


def first_note(rows: FirstRows, *, order: str) -> str:
    """Return, as HTML, which rows are shown; "" where all are. `order` says what comes first."""
    if rows.num_shown == rows.num_rows:
        return ""
    text = f"The first {rows.num_shown} of {rows.num_rows:,}: {order}. "
    return f'<div class="hud-legend">{escaped(text)}Finding in the page finds these alone.</div>'


def show_rest(rows: FirstRows) -> None:
    """Draw the button that shows all rows, or where all are shown the first ones alone."""
    if rows.is_long:
        is_all = rows.num_shown == rows.num_rows
        label = f"Show the first {NUM_FIRST} alone" if is_all else f"Show all {rows.num_rows:,}"
        st.button(label, key="rows", on_click=_ask_for, args=("" if is_all else ALL_ROWS,))


def _ask_for(rows: str) -> None:
    if rows:
        st.query_params[_PARAMETER] = rows
    else:
        st.query_params.pop(_PARAMETER, None)
