"""All runs, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import streamlit as st

from compile_hud.app import clock
from compile_hud.app.components.page_frame import banners, stale_note, state_page
from compile_hud.app.components.run_request_form import run_request_form, suites_of
from compile_hud.app.components.shared_filters import range_label
from compile_hud.app.components.table.filters import (
    Filter,
    FilterBar,
    draw_count,
    draw_filter_bar,
    options_of,
    show_no_match,
)
from compile_hud.app.components.table.view import draw_table
from compile_hud.app.data.latest_results import load_machine_moves
from compile_hud.app.data.runs import load_newest_runs
from compile_hud.app.ui.format import outcome_label
from compile_hud.app.ui.html import caption, heading
from compile_hud.app.ui.urls import RunsState, parse_runs
from compile_hud.app.views.runs.list_table import (
    SILENT,
    is_cut,
    matching_runs,
    runs_in_range,
    runs_table,
    state_of,
)
from compile_hud.db.records.results import CUSTOM_SUITE, Outcome, RunState
from compile_hud.db.records.summaries import RunSummary


def show() -> None:
    """Draw the list of runs."""
    state, problems = parse_runs(st.query_params.to_dict(), states=(*RunState, SILENT))
    loaded = load_newest_runs()
    banners(problems)
    stale_note(loaded)
    st.html(heading("Runs"))
    summaries = loaded.value
    if not summaries:
        state_page("No runs yet", text=["Runs will appear here."], commands=["hud run"])
        return
    now = clock.now()
    bar = _filter_bar(state, summaries, now=now)
    draw_filter_bar(bar)
    named = [item.run for item in summaries if item.run.suite != CUSTOM_SUITE]
    run_request_form("Run now", suites_of(named), key="now")
    ranged = runs_in_range(summaries, state, now=now)
    shown = matching_runs(ranged, state, now=now)
    if not shown:
        show_no_match(bar, len(ranged), noun="run")
        return
    if ranged is summaries and is_cut(state, now=now):
        st.html(caption(f"No run in the last {range_label(state.range)}: all are shown."))
    draw_count(len(shown), len(summaries), noun="run")
    draw_table(runs_table(shown, moves=load_machine_moves().value, now=now), key="runs")


def _filter_bar(state: RunsState, summaries: Sequence[RunSummary], *, now: datetime) -> FilterBar:
    runs = [item.run for item in summaries]
    outcomes = {outcome for item in summaries for outcome in item.num_by_outcome}
    filters = (
        Filter(
            name="machine",
            label="Machine",
            value=state.machine,
            options=options_of(run.machine for run in runs),
            width=190,
        ),
        Filter(
            name="suite",
            label="Suite",
            value=state.suite,
            options=options_of(run.suite for run in runs),
        ),
        Filter(
            name="toolchain",
            label="Toolchain",
            value=state.toolchain,
            options=options_of(run.toolchain for run in runs),
        ),
        Filter(
            name="state",
            label="State",
            value=state.state,
            options=options_of(state_of(item, now=now) for item in summaries),
            width=130,
        ),
        Filter(
            name="outcome",
            label="With outcome",
            value=state.outcome,
            options=tuple(str(outcome) for outcome in Outcome if outcome in outcomes),
            text_of=lambda value: outcome_label(value) or "any",
            width=140,
        ),
    )
    return FilterBar(
        filters=filters, range=state.range, text=state.text, days=(state.since, state.until)
    )
