"""The filters of the pages that show the latest results, and what they say when nothing fits."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from compile_hud.app.components.case_filters import (
    FILTERS,
    Placed,
    nothing_fits,
    placed,
    shown_place,
)
from compile_hud.app.components.page_frame import (
    choose,
    empty_store,
    no_result,
    notices,
    stale_note,
    state_page,
)
from compile_hud.app.data import store as data
from compile_hud.app.data.latest_results import load_silent_schedulers
from compile_hud.app.data.page_records import Overview
from compile_hud.app.ui.html import notice
from compile_hud.app.ui.urls import CaseState, cases_url
from compile_hud.app.views.overview.tables import silence_text

_WIDTHS = {"machine": 210, "model": 190}
_DEFAULT_WIDTH = 130
# A key leads to this one.
_SEARCHED = "model"


def load_filled(problems: Sequence[str]) -> Overview | None:
    """Say what is wrong with the URL, and return where there are latest results.

    Where there is none, say why instead, and return None.
    """
    loaded = data.load_overview()
    notices(problems)
    stale_note(loaded)
    overview = loaded.value
    if not overview.runs:
        empty_store(data.store_name())
        return None
    if not overview.places:
        no_result(overview.runs)
        return None
    return overview


def load_placed(overview: Overview, state: CaseState, *, metrics: Sequence[str]) -> Placed:
    """Return the latest results that `state` shows, with the measurements of `metrics`."""
    machine, toolchain = shown_place(overview, state)
    cells = data.load_cells(machine=machine, toolchain=toolchain, metrics=metrics).value
    return placed(overview, state, candidates=cells)


def draw_filters(state: CaseState, overview: Overview, *, place: Placed) -> None:
    """Draw the choices of machine, toolchain and cases, in a container of the caller's."""
    machines = list(dict.fromkeys(item.machine for item in overview.places))
    choose(
        "Machine", name="machine", options=machines, value=place.machine, width=_width("machine")
    )
    if place.has_several_toolchains:
        on_machine = [item for item in overview.places if item.machine == place.machine]
        choose(
            "Toolchain",
            name="toolchain",
            options=[item.toolchain for item in on_machine],
            value=place.toolchain,
            width=_width("toolchain"),
        )
    for name in FILTERS:
        values = sorted({str(getattr(cell.summary.case, name)) for cell in place.candidates})
        if name != _SEARCHED and len(values) < 2 and not getattr(state, name):
            # There is nothing to choose, and what matters comes sooner.
            continue
        choose(
            name.capitalize(),
            name=name,
            options=["", *values],
            value=getattr(state, name),
            format_func=lambda value: value or "all",
            width=_width(name),
        )


def draw_silence(place: Placed) -> None:
    """Say that the scheduler of the machine is silent, where it was and no longer is heard of."""
    if late := load_silent_schedulers().get(place.machine):
        st.html(notice(silence_text(late, now=data.now())))


def show_nothing_fits(
    state: CaseState, overview: Overview, *, place: Placed, everything: CaseState
) -> None:
    """Say which filters leave nothing, and offer the page in the state `everything`."""
    text = nothing_fits(state, overview, place.candidates)
    state_page("Nothing matches the filters", text=text)
    st.link_button("Show everything", cases_url(everything))


def _width(name: str) -> int:
    return _WIDTHS.get(name, _DEFAULT_WIDTH)
