"""The bar of filters above a long table; the URL has their state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime

import streamlit as st

from compile_hud.app.components.page_frame import choose, or_all, show_value, state_page, type_in
from compile_hud.app.components.shared_filters import choose_range
from compile_hud.app.ui.html import note
from compile_hud.app.ui.urls import end_in, moment_in
from compile_hud.db.shared.text import none_of, plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A choice of one of `options`; the URL parameter `name` has its value, "" for all.

    `text_of` returns the text of an option. A choice of fewer than two options is not drawn, unless
    `value` is set.
    """

    name: str
    label: str
    value: str
    options: tuple[str, ...]
    width: int = 150
    text_of: Callable[[str], str] = or_all

    @property
    def is_drawn(self) -> bool:
        """Return whether the filter can exclude anything."""
        return len(self.options) > 1 or bool(self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterBar:
    """The filters of a table: choices, and perhaps a time range, a text, a first and a last day.

    Each is the state of the URL. `range`, `text` and `days` are None for tables without.
    """

    filters: tuple[Filter, ...]
    range: str | None = None
    text: str | None = None
    days: tuple[str, str] | None = None

    @property
    def values(self) -> dict[str, str]:
        """Return the values of the parameters that exclude something."""
        days = zip(_DAYS, self.days or ("", ""), strict=True)
        chosen = {item.name: item.value for item in self.filters}
        everything = {**chosen, **dict(days), "text": self.text or ""}
        return {name: value for name, value in everything.items() if value}


# The parameters of the first and the last day, and their labels.
_DAYS = {"since": "From (UTC)", "until": "To (UTC)"}
_FIRST_DAY, _LAST_DAY = date(2000, 1, 1), date(2099, 12, 31)


def draw_filter_bar(bar: FilterBar) -> None:
    """Draw the filters in a row, and the button that clears them."""
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        if bar.range is not None:
            choose_range(bar.range)
        for item in bar.filters:
            if item.is_drawn:
                choose(
                    item.label,
                    name=item.name,
                    options=["", *item.options],
                    value=item.value,
                    format_func=item.text_of,
                    width=item.width,
                )
        for name, value in zip(_DAYS, bar.days or (), strict=False):
            _pick_day(name, value)
        if bar.text is not None:
            type_in("Search", name="text", value=bar.text, width=200)
        if bar.values:
            names = tuple(bar.values)
            st.button("Clear filters", key="clear-filters", on_click=_clear, args=(names,))


def show_no_match(bar: FilterBar, num_all: int, *, noun: str) -> None:
    """Draw that nothing passes the filters, and their values."""
    words = ", ".join(f"{name} = {value}" for name, value in bar.values.items())
    text = [f"{none_of(num_all, noun)} {words}.", "Clear filters shows all."]
    state_page("Nothing matches the filters", text=text)


def draw_count(num_shown: int, num_all: int, *, noun: str) -> None:
    """Draw the number of rows that pass the filters, if they exclude any."""
    if num_shown < num_all:
        st.html(note(f"{num_shown:,} of {num_all:,} {plural(num_all, noun)}"))


def options_of(values: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct values that are not empty, in order."""
    return tuple(sorted({value for value in values if value}))


def is_within(at: datetime, *, since: str, until: str) -> bool:
    """Return whether `at` is in the time that a URL names; a last day is included whole."""
    first, last = moment_in(since), end_in(until)
    return (first is None or at >= first) and (last is None or at <= last)


def _pick_day(name: str, value: str) -> None:
    key = f"choice-{name}"
    at = moment_in(value)
    # An address may have any year, and the field takes those of its calendar.
    day = None if at is None else min(max(at.date(), _FIRST_DAY), _LAST_DAY)
    show_value(key, day)
    st.date_input(
        _DAYS[name],
        value=None,
        min_value=_FIRST_DAY,
        max_value=_LAST_DAY,
        key=key,
        on_change=_picked,
        args=(name,),
        format="YYYY-MM-DD",
        width=140,
    )


def _picked(name: str) -> None:
    day: date | None = st.session_state[f"choice-{name}"]
    if day is None:
        st.query_params.pop(name, None)
    else:
        st.query_params[name] = day.isoformat()


def _clear(names: Sequence[str]) -> None:
    for name in names:
        st.query_params.pop(name, None)
