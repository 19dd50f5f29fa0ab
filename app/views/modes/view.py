"""The page of modes: speedup against compile time and memory, and break-even calls."""

from __future__ import annotations

import streamlit as st

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
from compile_hud.app.components.page_frame import choose, draw_chart
from compile_hud.app.data.cache import computed_once
from compile_hud.app.data.page_records import Overview
from compile_hud.app.ui.html import banner, caption, heading, two_columns
from compile_hud.app.ui.pagination import FirstRows, first_note, show_rest
from compile_hud.app.ui.urls import CACHES, COLD, ModesState, parse_modes
from compile_hud.app.views.modes.chart import modes_spec
from compile_hud.app.views.modes.data import MODES_METRICS, grouped, modes_page
from compile_hud.app.views.modes.records import ModesPage
from compile_hud.app.views.modes.tables import (
    answer,
    calls_table,
    chart_rows,
    mode_table,
    model_table,
)

CHART_CAPTION = (
    "Geometric means over the models that are ok in every mode, with the 95 % interval of the"
    " speedup. Filled: on the Pareto front; hollow: another mode is better in one of speedup,"
    " compile time and memory, and worse in none. The line joins the front of speedup and compile"
    " time; what is filled below it needs less memory. The dashed line is eager."
)
MODEL_CAPTION = (
    "Speedup over eager in the same process, and the break-even: the number of calls until the"
    " compile time is recovered, none if the speedup is not significant. Bold: the fastest mode of"
    " a model that ran as itself and beats eager."
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
        everything = ModesState(cache=state.cache)
        show_nothing_fits(state, overview, results=results, everything=everything)
        return
    groups = grouped(results.cells)
    if len(groups) > 1:
        st.html(heading("Modes by phase and shape"))
    for name, cells in groups.items():
        page = modes_page(cells, alerts=results.alerts_in_toolchain, cache=state.cache)
        _show_answer(page, state, name=name if len(groups) > 1 else "")
    page = modes_page(results.cells, alerts=results.alerts_in_toolchain, cache=state.cache)
    st.html(latest_facts(results.cells, now=clock.now(), runs=overview.runs))
    if page.rows:
        _show_models(page, results, rows=state.rows)


def _show_models(page: ModesPage, results: FilteredResults, *, rows: str) -> None:
    st.html(heading("Model by model", level=2))
    first = FirstRows(num_rows=len(page.rows), requested=rows)
    cells = {cell.summary.case.key: cell for cell in results.cells}
    note = first_note(first, order="by name")
    st.html(note + model_table(page, cells, num_shown=first.num_shown))
    show_rest(first)
    st.html(caption(MODEL_CAPTION))


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


def _show_answer(page: ModesPage, state: ModesState, *, name: str) -> None:
    """Draw the answer for the cases of one phase and shape, called `name` if there are several."""
    title, sentences = answer(page, cache=state.cache)
    st.html(heading(f"{name}: {title}", level=2) if name else heading(title))
    st.html(banner(" ".join(sentences)))
    if not page.modes:
        return
    st.html(two_columns(mode_table(page), calls_table(page)))
    spec = computed_once(modes_spec)(chart_rows(page), cache=state.cache)
    draw_chart(spec, key=f"modes-{name}" if name else "modes")
    st.html(caption(CHART_CAPTION))
