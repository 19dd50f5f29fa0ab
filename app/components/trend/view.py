"""The trend of a series, drawn on its own page and on that of an alert."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from compile_hud.app.components.page_frame import draw_chart
from compile_hud.app.components.trend.chart import TREND_SELECTIONS, brushed, pair_of
from compile_hud.app.components.trend.rows import (
    trend_chart,
)
from compile_hud.app.components.trend.window import part_of
from compile_hud.app.data import store
from compile_hud.app.data.cache import computed_once
from compile_hud.app.data.commands import repro
from compile_hud.app.data.page_records import SeriesPage
from compile_hud.app.data.series import load_raw
from compile_hud.app.ui.charts import PICK, picked
from compile_hud.app.ui.format import (
    is_interval,
)
from compile_hud.app.ui.html import caption, command_line
from compile_hud.app.ui.share import go
from compile_hud.app.ui.urls import (
    CompareState,
    SeriesState,
    compare_url,
    moment_in,
    moment_out,
    run_url,
    series_url,
)
from compile_hud.db.records.results import Case

# The key of the chart begins with it.
TREND_KEY = "trend"
_POINTS_CAPTION = "Each point is one run: median and 95 % interval"
_SINGLE_CAPTION = "Each point is one run, of which there is one sample and so no interval"
_ALIKE_CAPTION = "Each point is one run: the median of samples that are all alike"
TREND_CAPTION = (
    "; a click opens the run, two clicks with shift"
    " compare two, and dragging along the time shows a part. The shade is the noise"
    " band of a level: its median (dashed) +- 3 robust standard deviations (from the"
    " median absolute deviation or the middle 70 %, whichever is larger) of its points, from 6"
    " points on. Dashed upright lines start a new baseline or noise that grew, or are annotations;"
    " a sloping one is a drift, first seen at its upright line, and a coloured stretch the time in"
    " which a change came, from the last good run to the first bad one; a level that begins without"
    " one is a recovery, a step with too little evidence, or one of another alert; ticks"
    " at the bottom are new revisions, crosses runs without a number."
)
NORMALISED_CAPTION = (
    "Hollow points are normalised for machine speed: they are judged, and the shade is theirs. A"
    " median away from its hollow point shows a slower or faster machine."
)


def show_trend(
    page: SeriesPage, *, metric: str, version: int, state: SeriesState | None = None
) -> None:
    """Draw the trend of `page`, its legend, and the command that measures it again.

    `version` is the store's at which the page was read. A click on a point opens its run, clicks
    with shift compare two runs, and a brush opens that part of the series. `state` is that of the
    page of the series, None on another page.
    """
    shown = state or SeriesState(case=page.case.key, metric=metric)
    part = part_of(page, since=moment_in(shown.since), until=moment_in(shown.until))
    samples = load_raw(part, metric=metric) if shown.raw else {}
    # Building a layered chart takes longer than everything else on a page.
    spec = computed_once(trend_chart)(
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
    # Each part has its own key, so that a brush in the whole does not select in the part.
    event = draw_chart(
        spec,
        key=f"{TREND_KEY} {shown.since} {shown.until}".strip(),
        on_select="rerun",
        selection_mode=list(TREND_SELECTIONS),
    )
    _follow(event, page=page, metric=metric, is_series=state is not None)
    st.html(caption(trend_caption(page)))
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
        st.link_button(f"Series from {since} to {until} UTC", url)


def show_repro(case: Case, *, toolchain: str) -> None:
    """Draw the command that measures `case` again, with a button that copies it."""
    st.html(command_line(repro(case, toolchain=toolchain)))


def draw_runs(spec: Mapping[str, Any], *, case_key: str, key: str) -> None:
    """Draw a chart of runs; a click on one opens it with the case."""
    event = draw_chart(spec, key=key, on_select="rerun", selection_mode=PICK)
    if run_id := picked(event, "run_id"):
        go(run_url(run_id, case_key=case_key))


def trend_caption(page: SeriesPage) -> str:
    """Return the legend of the trend of `page`."""
    if not page.points or any(is_interval(point.low, point.high) for point in page.points):
        text = _POINTS_CAPTION
    else:
        is_single = all(point.num_samples == 1 for point in page.points)
        text = _SINGLE_CAPTION if is_single else _ALIKE_CAPTION
    text += TREND_CAPTION
    return f"{text} {NORMALISED_CAPTION}" if page.normalised else text
