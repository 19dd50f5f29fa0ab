"""The trend of a series, drawn on its own page and on that of an alert."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from compile_hud.app.components.page_frame import draw_chart, draw_legend, link_button
from compile_hud.app.components.trend.chart import DRAG_TEXT, TREND_SELECTIONS, brushed, pair_of
from compile_hud.app.components.trend.rows import trend_with_legend
from compile_hud.app.components.trend.window import part_of
from compile_hud.app.data import store
from compile_hud.app.data.cache import computed_once
from compile_hud.app.data.commands import repro
from compile_hud.app.data.page_records import SeriesPage
from compile_hud.app.data.series import load_raw
from compile_hud.app.ui.charts import PICK, picked
from compile_hud.app.ui.format import local_moment
from compile_hud.app.ui.html import caption, command_line
from compile_hud.app.ui.share import go
from compile_hud.app.ui.urls import (
    CompareState,
    SeriesState,
    compare_url,
    end_in,
    moment_in,
    moment_out,
    run_url,
    series_url,
)
from compile_hud.db.records.results import Case

# The key of the chart begins with it.
TREND_KEY = "trend"
TREND_CAPTION = f"A click opens the run, and two clicks with Shift compare two runs. {DRAG_TEXT}."


def show_trend(
    page: SeriesPage, *, metric: str, version: int, state: SeriesState | None = None
) -> None:
    """Draw the trend of `page`, its legend, and the command that measures it again.

    `version` is the store's at which the page was read. A click on a point opens its run, clicks
    with shift compare two runs, and a brush opens that part of the series. `state` is that of the
    page of the series, None on another page.
    """
    shown = state or SeriesState(case=page.case.key, metric=metric)
    part = part_of(page, since=moment_in(shown.since), until=end_in(shown.until))
    samples = load_raw(part, metric=metric) if shown.raw else {}
    # Building a layered chart takes longer than everything else on a page.
    spec, signs, note = computed_once(trend_with_legend)(
        store.store_url(),
        version,
        page.case.key,
        page.machine,
        page.toolchain,
        [alert.id for alert in page.alerts],
        (shown.since, shown.until, shown.raw),
        metric=metric,
        _page=part,
        _samples=samples,
    )
    draw_legend(signs)
    # Each part has its own key, so that a brush in the whole does not select in the part.
    event = draw_chart(
        spec,
        key=f"{TREND_KEY} {shown.since} {shown.until}".strip(),
        on_select="rerun",
        selection_mode=list(TREND_SELECTIONS),
    )
    _follow(event, page=page, metric=metric, is_series=state is not None)
    for text in filter(None, (note, TREND_CAPTION)):
        st.html(caption(text))
    show_repro(page.case, toolchain=page.toolchain)


def _follow(event: Mapping[str, Any], *, page: SeriesPage, metric: str, is_series: bool) -> None:
    """Open the page that a click or a brush in the trend selects."""
    if pair := pair_of(event):
        in_order = {point.run_id: index for index, point in enumerate(page.points)}
        first, last = sorted(pair, key=lambda run_id: in_order.get(run_id, -1))
        go(compare_url(CompareState(baseline=first, candidate=last, model=page.case.model)))
    if run_id := picked(event, "run_id"):
        go(run_url(run_id, case_key=page.case.key))
    if part := brushed(event):
        since, until = map(moment_out, part)
        if is_series:
            st.query_params.update({"since": since, "until": until})
            st.rerun()
        url = series_url(
            page.case.key,
            metric=metric,
            machine=page.machine,
            toolchain=page.toolchain,
            part=(since, until),
        )
        link_button(f"Series from {' to '.join(map(local_moment, part))}", url)


def show_repro(case: Case, *, toolchain: str) -> None:
    """Draw the command that measures `case` again, with a button that copies it."""
    st.html(command_line(repro(case, toolchain=toolchain)))


def draw_runs(spec: Mapping[str, Any], *, case_key: str, key: str) -> None:
    """Draw a chart of runs; a click on one opens it with the case."""
    event = draw_chart(spec, key=key, on_select="rerun", selection_mode=PICK)
    if run_id := picked(event, "run_id"):
        go(run_url(run_id, case_key=case_key))
