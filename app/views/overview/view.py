"""The overview: cases that need attention, the modes, and every model x variant cell."""

from __future__ import annotations

import functools

import streamlit as st
from markupsafe import Markup

from compile_hud.app import clock
from compile_hud.app.components.case_filters import (
    FilteredResults,
    draw_filters,
    draw_silence,
    is_known,
    load_filled,
    load_filtered_results,
    show_nothing_fits,
)
from compile_hud.app.components.last_visit import last_visit
from compile_hud.app.components.machine_status import machine_notice
from compile_hud.app.components.matrix.result_matrix import (
    first_metric,
)
from compile_hud.app.components.shared_filters import choose_range
from compile_hud.app.data.cache import shared_value
from compile_hud.app.data.latest_results import shown_metrics
from compile_hud.app.data.mode_summaries import mode_summaries
from compile_hud.app.data.page_records import Overview
from compile_hud.app.ui.html import banner, caption, heading
from compile_hud.app.ui.urls import (
    OVERVIEW_METRICS,
    OverviewState,
    parse_overview,
)
from compile_hud.app.views.alerts.undo import show_undo
from compile_hud.app.views.overview.data import load_mode_trends, load_news, load_status, next_steps
from compile_hud.app.views.overview.matrix_view import show_matrix
from compile_hud.app.views.overview.mode_cards import cards_html, mode_cards, pooled_text
from compile_hud.app.views.overview.news import news_html
from compile_hud.app.views.overview.records import OverviewStatus
from compile_hud.app.views.overview.status_line import status_html, steps_html
from compile_hud.app.views.overview.tables import (
    alert_sections,
    dead_letter_notice,
)
from compile_hud.app.views.overview.trend_view import show_middle
from compile_hud.runner.analysis.trends.records import ModeTrends


def show() -> None:
    """Draw the overview."""
    state, problems = parse_overview(st.query_params.to_dict())
    overview = load_filled(problems)
    if overview is None:
        return
    metrics = shown_metrics(state.metric or OVERVIEW_METRICS[0])
    results = load_filtered_results(overview, state, metrics=("speedup", "latency_s", *metrics))
    metric = state.metric or first_metric(results.candidates)
    status = load_status(state, overview, results=results, now=clock.now())
    if results.cells or results.alerts:
        # Without results and alerts the page cannot claim that there is no regression.
        st.html(status_html(status, now=clock.now()))
    _show_filters(state, overview, results=results)
    draw_silence(results)
    if undelivered := dead_letter_notice(overview.dead_letters):
        st.html(banner(undelivered))
    if moved := machine_notice(overview.machine.get((results.machine, results.toolchain), ())):
        st.html(banner(*moved))
    if status.learning and is_known(results.machine, overview):
        st.html(steps_html(next_steps(status)))
    if results.cells or status.items:
        _show_modes(state, results, status=status)
    if results.cells:
        show_matrix(state, results, metric=metric)
        st.html(news_html(load_news(overview, results, since=last_visit()), now=clock.now()))
    else:
        everything = OverviewState(metric=state.metric)
        show_nothing_fits(state, overview, results=results, everything=everything)
    _show_others(state, results)
    show_undo()


def _show_modes(state: OverviewState, results: FilteredResults, *, status: OverviewStatus) -> None:
    loaded = load_mode_trends(state, results, now=clock.now())
    trends = loaded.value
    ends = tuple(run.id for run in (*trends.runs[:1], *trends.runs[-1:]))
    cards = shared_value(
        # The cards have dates of the reader's zone.
        ("mode cards", state, results.machine, results.toolchain, ends, str(clock.zone())),
        version=loaded.version,
        compute=functools.partial(_cards, state, results, trends),
    )
    if cards:
        st.html(cards)
        if pooled := pooled_text(cell.summary.case for cell in results.cells):
            st.html(caption(pooled))
    show_middle(state, loaded, status=status)


def _cards(state: OverviewState, results: FilteredResults, trends: ModeTrends) -> str:
    summaries = mode_summaries(results.cells, alerts=results.alerts_in_toolchain)
    return cards_html(mode_cards(summaries, trends=trends, state=state))


def _show_filters(state: OverviewState, overview: Overview, *, results: FilteredResults) -> None:
    with st.container(horizontal=True, gap="small"):
        choose_range(state.range)
        draw_filters(state, overview, results=results)


def _show_others(state: OverviewState, results: FilteredResults) -> None:
    """Draw the open alerts that need no attention."""
    sections = alert_sections(
        state,
        results.alerts,
        now=clock.now(),
        names_toolchain=results.has_several_toolchains,
    )
    if sections:
        st.html(heading("Open alerts that need no attention", level=2) + Markup().join(sections))
