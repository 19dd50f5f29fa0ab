"""The history of one case: trend with noise band, what changed when, samples of one point."""

from __future__ import annotations

import dataclasses

import streamlit as st

from compile_hud.app.components.annotations import show_annotations
from compile_hud.app.components.page_frame import notices, stale_note, state_page
from compile_hud.app.components.trend.view import show_trend
from compile_hud.app.data import store as data
from compile_hud.app.data.annotations import annotated
from compile_hud.app.ui.urls import (
    ModelsState,
    OverviewState,
    RunsState,
    cases_url,
    overview_url,
    parse_series,
    runs_url,
)
from compile_hud.app.views.series.view import (
    drawn_part,
    part_words,
    show_header,
    show_no_points,
    show_part,
    show_points,
    show_samples,
    show_series_share,
)
from compile_hud.db.errors import NotFoundError


def show() -> None:
    """Draw the series page."""
    state, problems = parse_series(st.query_params.to_dict())
    notices(problems)
    if not state.case:
        text = "Each cell of the overview, and each number of a run, leads to its history here."
        links = [
            ("Choose a cell of the overview", overview_url(OverviewState())),
            ("Choose a model", cases_url(ModelsState())),
            ("Choose a run", runs_url(RunsState())),
        ]
        state_page("Which series?", text=[text], links=links)
        return
    try:
        loaded = data.load_series_page(
            state.case, metric=state.metric, machine=state.machine, toolchain=state.toolchain
        )
    except NotFoundError as error:
        text = "The overview lists what was measured."
        links = [("To the overview", overview_url(OverviewState()))]
        state_page("No such series", text=[f"{error}.", text], links=links)
        return
    stale_note(loaded)
    page = annotated(loaded.value, metric=state.metric)
    show_header(page, state=state)
    if not page.points:
        show_no_points(page, state=state)
        return
    if not drawn_part(page, state=state).points:
        notices([f"Nothing was measured in {part_words(state)}; all is drawn."])
        state = dataclasses.replace(state, since="", until="")
    show_part(page, state=state)
    show_trend(page, metric=state.metric, generation=loaded.generation, state=state)
    show_series_share(page, state=state)
    show_annotations(page, metric=state.metric)
    show_samples(page, state=state, generation=loaded.generation)
    show_points(page, state=state)
