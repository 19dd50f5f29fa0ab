"""The first rows of a long table, and the button that shows the others too.

The browser takes about a millisecond to check, build and lay out a row. A table of a thousand cases
appears only after a second. The first rows are those that need attention.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import streamlit as st
from markupsafe import Markup

from compile_hud.app.ui.templates.environment import render
from compile_hud.app.ui.urls import ALL_ROWS

# This is two screenfuls.
NUM_FIRST: Final = 40
# A few rows more are not worth a click.
MAX_UNASKED: Final = 60
_PARAMETER: Final = "rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstRows:
    """The number of rows of a table, and the rows that the URL requests (`ALL_ROWS` or "")."""

    num_rows: int
    requested: str

    @property
    def is_long(self) -> bool:
        """Return whether the table has more rows than are shown by default."""
        return self.num_rows > MAX_UNASKED

    @property
    def num_shown(self) -> int:
        """Return the number of rows that are shown."""
        return NUM_FIRST if self.is_long and self.requested != ALL_ROWS else self.num_rows


def first_note(rows: FirstRows, *, order: str) -> Markup:
    """Return a note on the rows that are shown, in this `order`; "" if all are."""
    if rows.num_shown == rows.num_rows:
        return Markup()
    text = f"The first {rows.num_shown} of {rows.num_rows:,}: {order}. "
    return render("parts.html", "first_rows", words=text)


def show_rest(rows: FirstRows) -> None:
    """Draw the button that shows all rows, or the button that goes back to the first rows."""
    if rows.is_long:
        is_all = rows.num_shown == rows.num_rows
        label = f"Show the first {NUM_FIRST} alone" if is_all else f"Show all {rows.num_rows:,}"
        st.button(label, key="rows", on_click=_ask_for, args=("" if is_all else ALL_ROWS,))


def _ask_for(rows: str) -> None:
    if rows:
        st.query_params[_PARAMETER] = rows
    else:
        st.query_params.pop(_PARAMETER, None)
