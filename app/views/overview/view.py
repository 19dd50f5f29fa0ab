"""The overview: cases that need attention, the modes, and every model x variant cell."""

from __future__ import annotations

from collections.abc import Sequence

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
from compile_hud.app.ui.html import banner, caption, heading, metric_tiles, table
from compile_hud.app.ui.pagination import FirstRows, first_note, show_rest
from compile_hud.app.ui.urls import OVERVIEW_METRICS, OverviewState, parse_overview
from compile_hud.app.views.overview.tables import (
    alert_sections,
    dead_letter_notice,
    learning_text,
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
    metrics = shown_metrics(state.metric or OVERVIEW_METRICS[0])
    results = load_filtered_results(overview, state, metrics=("speedup", "latency_s", *metrics))
    metric = state.metric or first_metric(results.candidates)
    _show_filters(state, overview, results=results, metric=metric)
    draw_silence(results)
    if undelivered := dead_letter_notice(overview.dead_letters):
        st.html(banner(undelivered))
    if moved := machine_notice(overview.machine.get((results.machine, results.toolchain), ())):
        st.html(banner(moved))
    if results.cells or results.alerts:
        # Without results and alerts the page cannot claim that there is no regression.
        _show_alerts(state, results, runs=overview.runs)
    if not results.cells:
        everything = OverviewState(metric=state.metric)
        show_nothing_fits(state, overview, results=results, everything=everything)
        return
    _show_cells(state, results=results, metric=metric, runs=overview.runs)


def _show_filters(
    state: OverviewState, overview: Overview, *, results: FilteredResults, metric: str
) -> None:
    with st.container(horizontal=True, gap="small"):
        draw_filters(state, overview, results=results)
        choose(
            "Table shows",
            name="metric",
            options=OVERVIEW_METRICS,
            value=metric,
            format_func=metric_label,
            width=160,
        )


def _show_alerts(
    state: OverviewState, results: FilteredResults, *, runs: Sequence[RunSummary]
) -> None:
    title, sections = alert_sections(
        state,
        results.alerts,
        now=clock.now(),
        newest_runs=results.newest_runs,
        common=common_dimensions(cell.summary.case for cell in results.candidates),
        names_toolchain=results.has_several_toolchains,
    )
    learning = learning_text(runs, machine=results.machine, toolchain=results.toolchain)
    # A regression that is known already is more than what is still being learnt.
    st.html(heading(title if sections or not learning else learning))
    if text := unwatched_text(results.cells, alerts=results.alerts):
        st.html(caption(text))
    if sections:
        st.html("".join(sections))


def _show_cells(
    state: OverviewState, *, results: FilteredResults, metric: str, runs: Sequence[RunSummary]
) -> None:
    cells, alerts = results.cells, results.alerts_in_toolchain
    st.html(metric_tiles(mode_tile(summary) for summary in mode_summaries(cells, alerts=alerts)))
    trends = load_trends(machine=results.machine, toolchain=results.toolchain, metric=metric).value
    now = clock.now()
    first = FirstRows(num_rows=num_rows_of(cells), requested=state.rows)
    matrix = build_matrix(
        cells, alerts=alerts, metric=metric, now=now, trends=trends, num_shown=first.num_shown
    )
    measurements = [cell.summary.measurements for cell in cells]
    shown = speedup_label(measurements) if metric == "speedup" else metric_label(metric)
    st.html(heading(f"Latest results: {shown}", level=2))
    names_toolchain = results.has_several_toolchains
    st.html(latest_facts(cells, now=now, names_toolchain=names_toolchain, runs=runs))
    rows = table(matrix.columns, matrix.rows, label="latest results, model by variant")
    st.html(first_note(first, order="what needs attention comes first") + rows)
    if matrix.legend:
        st.html(caption(matrix.legend))
    show_rest(first)
