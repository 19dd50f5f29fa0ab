"""The matrix of the overview: the latest result of every model in every variant."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from compile_hud.app import clock
from compile_hud.app.components.case_filters import FilteredResults
from compile_hud.app.components.matrix.result_matrix import (
    build_matrix,
    select_rows,
    variants_in_order,
)
from compile_hud.app.components.page_frame import choose
from compile_hud.app.data.latest_results import load_trends
from compile_hud.app.ui.format import speedup_label
from compile_hud.app.ui.html import caption, chips, heading
from compile_hud.app.ui.pagination import FirstRows, first_note, show_rest
from compile_hud.app.ui.scripts import follow_links
from compile_hud.app.ui.urls import (
    MATRIX_FILTERS,
    OVERVIEW_METRICS,
    OverviewState,
    overview_url,
)
from compile_hud.app.views.overview.matrix_table import (
    legend_html,
    matrix_html,
    matrix_view,
    switches_html,
)
from compile_hud.app.views.overview.tables import unwatched_text
from compile_hud.db.records.metrics import metric_label


def show_matrix(state: OverviewState, results: FilteredResults, *, metric: str) -> None:
    """Draw the results that pass the filters, `metric` in each cell."""
    cells, alerts = results.cells, results.alerts_in_toolchain
    measurements = [cell.summary.measurements for cell in cells]
    shown = speedup_label(measurements) if metric == "speedup" else metric_label(metric)
    st.html(heading(f"Latest results: {shown}", level=2))
    view = matrix_view(state, variants=variants_in_order(cell.summary.case for cell in cells))
    counts = {
        name: len(select_rows(cells, alerts=alerts, only=name)) for name in ("", *MATRIX_FILTERS)
    }
    first = FirstRows(num_rows=counts[view.only], requested=state.rows)
    matrix = build_matrix(
        cells,
        alerts=alerts,
        metric=metric,
        now=clock.now(),
        trends=load_trends(
            machine=results.machine, toolchain=results.toolchain, metric=metric
        ).value,
        num_shown=first.num_shown,
        view=view,
        sort_url=lambda name: overview_url(replace(state, sort=view.next_sort(name))),
    )
    with st.container(horizontal=True, gap="medium", vertical_alignment="bottom"):
        choose(
            "Table shows",
            name="metric",
            options=OVERVIEW_METRICS,
            value=metric,
            format_func=metric_label,
            width=160,
        )
        st.html(switches_html(state, counts=counts) + chips(matrix.common.values()))
    order = "what needs attention comes first" if not view.sort else f"sorted by {view.column}"
    st.html(first_note(first, order=order) + matrix_html(matrix))
    if signs := legend_html(matrix, heat=view.heat):
        st.html(signs)
    if text := unwatched_text(cells, alerts=results.alerts):
        st.html(caption(text))
    show_rest(first)
    follow_links()
