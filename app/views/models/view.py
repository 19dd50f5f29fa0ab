"""The page of the zoo's models: coverage and health."""

from __future__ import annotations

import streamlit as st

from compile_hud.app import clock
from compile_hud.app.components.case_filters import (
    draw_filters,
    draw_silence,
    load_filled,
    load_filtered_results,
    show_nothing_fits,
)
from compile_hud.app.components.latest_results import latest_facts
from compile_hud.app.components.page_frame import link_button, state_page, type_in
from compile_hud.app.components.table.view import draw_table
from compile_hud.app.data.latest_results import load_trends
from compile_hud.app.ui.html import caption, heading
from compile_hud.app.ui.urls import ModelsState, cases_url, parse_models, without
from compile_hud.app.views.models.data import (
    MODELS_METRICS,
    NOISE_METRIC,
    ModelHistory,
    fitting,
    load_last_oks,
    load_summaries,
    model_healths,
)
from compile_hud.app.views.models.tables import models_table, models_title
from compile_hud.db.shared.text import none_of

CAPTION = (
    "Cases that are ok, by mode. Noise: typical night-to-night change over the last 30 nights,"
    " steps excluded."
    " The table scrolls sideways for more columns."
)


def show() -> None:
    """Draw the page of models."""
    state, problems = parse_models(st.query_params.to_dict())
    overview = load_filled(problems)
    if overview is None:
        return
    results = load_filtered_results(overview, state, metrics=MODELS_METRICS)
    with st.container(horizontal=True, gap="small"):
        draw_filters(state, overview, results=results)
        type_in("Search", name="text", value=state.text, width=200)
    draw_silence(results)
    if not results.cells:
        show_nothing_fits(state, overview, results=results, everything=ModelsState())
        return
    where = {"machine": results.machine, "toolchain": results.toolchain}
    known = ModelHistory(
        trends=load_trends(**where, metric=NOISE_METRIC).value,
        last_ok=load_last_oks(**where).value,
        summaries=load_summaries(results.candidates),
    )
    healths = model_healths(
        results.cells, alerts=results.alerts_in_toolchain, known=known, now=clock.now()
    )
    shown = fitting(healths, state)
    if not shown:
        text = [
            f"{none_of(len(healths), 'model', verb='contain')} this text in its name, family or"
            " description.",
            f"Leaving the search empty shows {len(healths)}.",
        ]
        state_page("Nothing matches the filters", text=text)
        link_button("Show everything", cases_url(without(state, "text")))
        return
    st.html(heading(models_title(shown)))
    st.html(latest_facts(results.cells, now=clock.now(), runs=overview.runs))
    draw_table(models_table(shown, **where), key="models")
    st.html(caption(CAPTION))
