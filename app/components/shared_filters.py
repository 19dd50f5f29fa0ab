"""The filters that pages share: machine, toolchain and time range.

A link has them in its address. The bar leads to a page without any: the session stores the last
ones. They are put into the address of the next page that has these filters.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import streamlit as st

from compile_hud.app.components.navigation import View
from compile_hud.app.components.page_frame import choose
from compile_hud.app.ui.urls import ALL_RUNS, DEFAULT_RANGE, RANGES, carry_range

_LABELS = {ALL_RUNS: "all runs"}
_PAGE, _FILTERS = "carried-page", "carried-filters"


def choose_range(value: str) -> None:
    """Draw the choice of the range; `value` is the present one of the URL."""
    choose(
        "Range",
        name="range",
        options=RANGES,
        value=value,
        default=DEFAULT_RANGE,
        format_func=range_label,
        width=130,
    )


def range_label(value: str) -> str:
    """Return a range in words: `90 days`, `all runs`."""
    return _LABELS.get(value, f"{value} days")


def first_moment(value: str, *, now: datetime) -> datetime | None:
    """Return the first moment of a range of whole days until now, None for all runs."""
    if value == ALL_RUNS:
        return None
    start = now - timedelta(days=int(value))
    return start.replace(hour=0, minute=0, second=0, microsecond=0)


def is_other_page(view: View) -> bool:
    """Return whether this window showed another page than `view` before; call it first."""
    return bool(st.session_state.get(_PAGE, view.path) != view.path)


def carry_filters(view: View) -> None:
    """Put the last filters into the address of `view` if the bar led to it, and keep its own."""
    state = st.session_state
    last_page, stored = state.get(_PAGE, view.path), state.get(_FILTERS, {})
    present = st.query_params.to_dict()
    if last_page != view.path:
        for name, value in missing_filters(view, present, stored=stored).items():
            st.query_params[name] = value
    state[_PAGE] = view.path
    state[_FILTERS] = filters_to_store(view, st.query_params.to_dict(), stored=stored)


def missing_filters(
    view: View, params: Mapping[str, str], *, stored: Mapping[str, str]
) -> dict[str, str]:
    """Return the stored filters that the address of `view` lacks."""
    return {name: stored[name] for name in view.carries if name in stored and not params.get(name)}


def filters_to_store(
    view: View, params: Mapping[str, str], *, stored: Mapping[str, str]
) -> dict[str, str]:
    """Return the filters to keep after `view`: its own, and those of others that it lacks."""
    others = {name: value for name, value in stored.items() if name not in view.carries}
    return {**others, **{name: params[name] for name in view.carries if params.get(name)}}


def carry_range_in_links() -> None:
    """Give the time range of this page to the links on it."""
    value = st.query_params.get("range", "")
    carry_range(value if value in RANGES else "")
