"""The middle of the overview: the trend of the modes, and next to it what needs attention."""

from __future__ import annotations

import dataclasses
import functools

import streamlit as st
from markupsafe import Markup

from compile_hud.app import clock
from compile_hud.app.auth import access
from compile_hud.app.components.author import remembered_name
from compile_hud.app.components.page_frame import draw_chart, link_button, switch
from compile_hud.app.data import store
from compile_hud.app.data.cache import computed_once, shared_value
from compile_hud.app.data.page_records import Loaded
from compile_hud.app.ui.charts import PICK, picked
from compile_hud.app.ui.html import caption, heading
from compile_hud.app.ui.share import go
from compile_hud.app.ui.urls import (
    OVERVIEW_TRENDS,
    OverviewState,
    TrendsState,
    cases_url,
    decide_url,
    run_url,
)
from compile_hud.app.views.alerts.undo import acknowledge
from compile_hud.app.views.overview.attention import (
    attention_heading,
    event_html,
    head,
    nothing_text,
)
from compile_hud.app.views.overview.charts import TrendPlot, modes_legend, trend_spec
from compile_hud.app.views.overview.data import load_attention
from compile_hud.app.views.overview.records import AttentionItem, OverviewStatus
from compile_hud.app.views.overview.tables import trend_metrics, trend_plots
from compile_hud.app.views.trends.tables import bounds_of, trend_label
from compile_hud.db.shared.access_rules import Role
from compile_hud.runner.analysis.trends.records import ModeTrends

_SHARES = (2, 1)
# Streamlit wraps columns in small windows only; the style sheet wraps these earlier.
_KEY = "overview-middle"


def show_middle(
    state: OverviewState, loaded: Loaded[ModeTrends], *, status: OverviewStatus
) -> None:
    """Draw the trend in two thirds and the list of events in one third."""
    with st.container(key=_KEY):
        left, right = st.columns(_SHARES, gap="medium")
        with left:
            _show_trend(state, loaded)
        with right:
            _show_attention(status)


def _show_trend(state: OverviewState, loaded: Loaded[ModeTrends]) -> None:
    trends = loaded.value
    names = {item.name for item in dataclasses.fields(TrendsState)}
    shared = {
        item.name: getattr(state, item.name)
        for item in dataclasses.fields(OverviewState)
        if item.name in names and item.name not in ("metric", "rows")
    }
    more = cases_url(TrendsState(**shared, metric=state.trend))
    st.html(head("Trend", text="all trends", href=more))
    switch(
        "Metric of the trend",
        name="trend",
        options=trend_metrics(trends, chosen=state.trend),
        value=state.trend,
        default=OVERVIEW_TRENDS[0],
        format_func=trend_label,
    )
    plots = _plots(state, trends, version=loaded.version)
    if not plots:
        st.html(caption("A trend needs two runs with results in this range."))
    for plot in plots:
        _show_plot(plot, state=state, version=loaded.version, is_small=len(plots) > 1)


def _plots(state: OverviewState, trends: ModeTrends, *, version: int) -> list[TrendPlot]:
    if not trends.runs:
        return []
    return shared_value(
        ("trend plots", state, trends.machine, trends.toolchain, bounds_of(trends)),
        version=version,
        compute=functools.partial(trend_plots, trends, metric=state.trend),
    )


def _show_plot(plot: TrendPlot, *, state: OverviewState, version: int, is_small: bool) -> None:
    title = heading(plot.title, level=3) if plot.title else Markup()
    st.html(title + modes_legend(plot))
    spec = computed_once(_spec)(
        store.store_url(), version, state, plot.title, is_small, plot.time, _plot=plot
    )
    event = draw_chart(
        spec,
        key=f"trend-{plot.title}-{state.trend}",
        on_select="rerun",
        selection_mode=[PICK],
    )
    if run_id := picked(event, "run_id"):
        go(run_url(run_id))


def _spec(
    url: str,
    version: int,
    state: OverviewState,
    title: str,
    is_small: bool,
    time: tuple[str, str],
    *,
    _plot: TrendPlot,
) -> dict[str, object]:
    del url, version, state, title, time
    return trend_spec(_plot, is_small=is_small)


def _show_attention(status: OverviewStatus) -> None:
    attention = load_attention(status)
    st.html(attention_heading(attention))
    if not attention.items:
        st.html(caption(nothing_text(status.learning)))
    with st.container(key="attention", gap=None):
        for item in attention.items:
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                st.html(event_html(item, now=clock.now()))
                _show_button(item)


def _show_button(item: AttentionItem) -> None:
    """Draw the button that acknowledges an event, for those who may."""
    person = access.present()
    if not person.may(Role.TRIAGER):
        return
    if not (person.is_signed_in or remembered_name()):
        # The page of the alert asks for a name.
        link_button("Triage", decide_url(item.worst.id))
        return
    st.button(
        "Acknowledge",
        key=f"acknowledge-{item.worst.id}",
        help="Someone is working on it. It closes when the level recovers.",
        on_click=acknowledge,
        args=(item.alerts,),
    )
