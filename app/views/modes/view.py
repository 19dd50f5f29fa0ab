"""The page of modes: for each group of results which mode to ship, and why."""

from __future__ import annotations

import streamlit as st
from markupsafe import Markup

from compile_hud.app import clock
from compile_hud.app.components.case_filters import (
    FilteredResults,
    draw_filters,
    draw_silence,
    load_filled,
    load_filtered_results,
    show_nothing_fits,
)
from compile_hud.app.components.latest_results import latest_facts
from compile_hud.app.components.page_frame import (
    banners,
    choose,
    draw_chart,
    draw_legend,
    enter_number,
    state_page,
)
from compile_hud.app.components.table.view import draw_table
from compile_hud.app.data.cache import computed_once
from compile_hud.app.data.page_records import Overview
from compile_hud.app.ui.html import banner, caption, collapsible, heading, two_columns
from compile_hud.app.ui.urls import ModesState, parse_modes
from compile_hud.app.views.modes.chart import modes_legend, modes_spec
from compile_hud.app.views.modes.data import GroupSection, ModesPage, modes_page
from compile_hud.app.views.modes.model_table import model_table
from compile_hud.app.views.modes.tables import (
    calls_table,
    chart_rows,
    mode_table,
    overview_table,
    section_title,
)
from compile_hud.db.records.metrics import CACHES, COLD, MAX_EXPECTED_CALLS
from compile_hud.db.shared.text import shortened
from compile_hud.runner.analysis.modes.records import (
    MODES_METRICS,
)

GROUP_CAPTION = "A group has one phase, shape, dtype and device: others are never averaged."
CHART_CAPTION = "Geometric means over the common models."
MODEL_CAPTION = (
    "Speedup over eager in the same process, and the calls that recover the compile time. Best: the"
    " least total time, then the least cost."
)


def show() -> None:
    """Draw the page of modes."""
    state, problems = parse_modes(st.query_params.to_dict())
    overview = load_filled(problems)
    if overview is None:
        return
    results = load_filtered_results(overview, state, metrics=MODES_METRICS)
    _show_filters(state, overview, results=results)
    draw_silence(results)
    if not results.cells:
        everything = ModesState(cache=state.cache, calls=state.calls)
        show_nothing_fits(state, overview, results=results, everything=everything)
        return
    page = modes_page(results.cells, alerts=results.alerts_in_toolchain, state=state)
    if page is None:
        text = "None of these results is of a mode of torch.compile; only eager was measured."
        state_page("No mode was measured", text=[text])
        return
    _show_page(page, state, results=results)
    st.html(latest_facts(results.cells, now=clock.now(), runs=overview.runs))


def _show_filters(state: ModesState, overview: Overview, *, results: FilteredResults) -> None:
    with st.container(horizontal=True, gap="small"):
        draw_filters(state, overview, results=results)
        choose(
            "Compile cache",
            name="cache",
            options=CACHES,
            value=state.cache,
            default=COLD,
            format_func={"cold": "empty (cold)", "warm": "filled (warm)"}.__getitem__,
            width=160,
        )
        enter_number(
            "Calls per process",
            name="calls",
            value=state.num_calls,
            limit=MAX_EXPECTED_CALLS,
            placeholder="many",
            width=170,
        )


def _show_page(page: ModesPage, state: ModesState, *, results: FilteredResults) -> None:
    first, *others = page.sections
    st.html(heading(page.title))
    if state.group not in ("", first.group.key):
        known = ", ".join(section.group.key for section in page.in_order)
        text = f"No results are of the group {shortened(state.group, limit=80)!r}."
        banners([f"{text} The first one is shown; there is {known}."])
    if others:
        st.html(overview_table(page.in_order, state=state))
        st.html(caption(GROUP_CAPTION))
        st.html(heading(section_title(first), level=2))
    _show_section(first, state, results=results)
    if others:
        st.html(heading("Other groups", level=2))
        st.html(Markup().join(_folded(section) for section in others))


def _show_section(section: GroupSection, state: ModesState, *, results: FilteredResults) -> None:
    group = section.group
    st.html(banner(*section.answer.sentences))
    if group.choice.modes:
        st.html(two_columns(mode_table(group), calls_table(group)))
        rows = chart_rows(group)
        spec = computed_once(modes_spec)(rows, cache=state.cache)
        draw_legend(modes_legend(rows))
        draw_chart(spec, key="modes")
        st.html(caption(CHART_CAPTION))
    st.html(heading("Model by model", level=2))
    cells = {cell.summary.case.key: cell for cell in results.cells}
    draw_table(model_table(group, cells), key=f"models-{group.key}")
    st.html(caption(MODEL_CAPTION))


def _folded(section: GroupSection) -> Markup:
    content = banner(*section.answer.sentences)
    if section.group.choice.modes:
        content += two_columns(mode_table(section.group), calls_table(section.group))
    return collapsible(section_title(section), content)
