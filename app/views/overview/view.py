"""The overview: what needs somebody, what each mode is worth, and every model x variant cell."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from compile_hud.app import clock
from compile_hud.app.components.case_filters import (
    Placed,
    draw_filters,
    draw_silence,
    load_filled,
    load_placed,
    show_nothing_fits,
)
from compile_hud.app.components.latest_results import latest_facts
from compile_hud.app.components.machine_status import machine_notice
from compile_hud.app.components.page_frame import choose
from compile_hud.app.components.result_matrix import (
    build_matrix,
    common_dimensions,
    first_metric,
    num_rows_of,
)
from compile_hud.app.data.latest_results import load_trends, shown_metrics
from compile_hud.app.data.mode_summaries import mode_summaries
from compile_hud.app.data.page_records import Overview
from compile_hud.app.ui.format import metric_label, speedup_label
from compile_hud.app.ui.html import caption, heading, notice, table, tiles
from compile_hud.app.ui.pagination import FirstRows, first_note, show_rest
from compile_hud.app.ui.urls import OVERVIEW_METRICS, OverviewState, parse_overview
from compile_hud.app.views.overview.tables import (
    alert_sections,
    dead_letter_notice,
    mode_tile,
    unwatched_text,
)
from compile_hud.db.records.summaries import RunSummary


def show() -> None:
    """Draw the overview."""
    state, problems = parse_overview(st.query_params.to_dict())
    overview = load_filled(problems)
    if overview is None:
        return
    asked = shown_metrics(state.metric or OVERVIEW_METRICS[0])
    place = load_placed(overview, state, metrics=("speedup", "latency_s", *asked))
    metric = state.metric or first_metric(place.candidates)
    _show_filters(state, overview, place=place, metric=metric)
    draw_silence(place)
    if undelivered := dead_letter_notice(overview.dead_letters):
        st.html(notice(undelivered))
    if moved := machine_notice(overview.machine.get((place.machine, place.toolchain), ())):
        st.html(notice(moved))
    if place.cells or place.alerts:
        # Of a place without either nobody can say that nothing needs anybody.
        _show_alerts(state, place)
    if not place.cells:
        everything = OverviewState(metric=state.metric)
        show_nothing_fits(state, overview, place=place, everything=everything)
        return
    _show_cells(state, place=place, metric=metric, runs=overview.runs)


def _show_filters(state: OverviewState, overview: Overview, *, place: Placed, metric: str) -> None:
    with st.container(horizontal=True, gap="small"):
        draw_filters(state, overview, place=place)
        choose(
            "Table shows",
            name="metric",
            options=OVERVIEW_METRICS,
            value=metric,
            format_func=metric_label,
            width=160,
        )


def _show_alerts(state: OverviewState, place: Placed) -> None:
    title, sections = alert_sections(
        state,
        place.alerts,
        now=clock.now(),
        newest_runs=place.newest_runs,
        common=common_dimensions(cell.summary.case for cell in place.candidates),
        names_toolchain=place.has_several_toolchains,
    )
    st.html(heading(title))
    if text := unwatched_text(place.cells, alerts=place.alerts):
        st.html(caption(text))
    if sections:
        st.html("".join(sections))


def _show_cells(
    state: OverviewState, *, place: Placed, metric: str, runs: Sequence[RunSummary]
) -> None:
    cells, alerts = place.cells, place.alerts_in_toolchain
    st.html(tiles(mode_tile(summary) for summary in mode_summaries(cells, alerts=alerts)))
    trends = load_trends(machine=place.machine, toolchain=place.toolchain, metric=metric).value
    now = clock.now()
    first = FirstRows(num_rows=num_rows_of(cells), asked=state.rows)
    matrix = build_matrix(
        cells, alerts=alerts, metric=metric, now=now, trends=trends, num_shown=first.num_shown
    )
    results = [cell.summary.measurements for cell in cells]
    shown = speedup_label(results) if metric == "speedup" else metric_label(metric)
    st.html(heading(f"Latest results: {shown}", level=2))
    names_toolchain = place.has_several_toolchains
    st.html(latest_facts(cells, now=now, names_toolchain=names_toolchain, runs=runs))
    rows = table(matrix.columns, matrix.rows, label="latest results, model by variant")
    st.html(first_note(first, order="what needs attention comes first") + rows)
    show_rest(first)
