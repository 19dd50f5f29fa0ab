"""The overview: what needs somebody, what each mode is worth, and every model x variant cell."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app import data
from app.casefilters import draw_filters, show_nothing_fits
from app.cases import Placed, placed
from app.components import choose, empty_store, no_result, notices, stale_note
from app.computed import mode_summaries
from app.format import metric_label
from app.machine import machine_notice
from app.markup import heading, notice, table, tiles
from app.matrix import build_matrix
from app.pages import Overview
from app.state import (
    DEFAULT_OVERVIEW_METRIC,
    OVERVIEW_METRICS,
    OverviewState,
    parse_overview,
)
from app.summary import alert_sections, dead_letter_notice, latest_facts, mode_tile
from db.records import Alert
from db.summaries import LatestCell


def show() -> None:
    """Draw the overview."""
    state, problems = parse_overview(st.query_params.to_dict())
    loaded = data.load_overview()
    notices(problems)
    stale_note(loaded)
    overview = loaded.value
    if not overview.runs:
        empty_store(data.store_name())
        return
    if not overview.cells:
        no_result(overview.runs)
        return
    place = placed(overview, state)
    _show_filters(state, overview, place=place)
    if undelivered := dead_letter_notice(overview.dead_letters):
        st.html(notice(undelivered))
    if moved := machine_notice(overview.machine.get((place.machine, place.toolchain), ())):
        st.html(notice(moved))
    _show_alerts(state, place.alerts, names_toolchain=place.has_several_toolchains)
    if not place.cells:
        everything = OverviewState(metric=state.metric)
        show_nothing_fits(state, overview, place=place, everything=everything)
        return
    _show_cells(state, place.cells, alerts=place.alerts_in_toolchain)


def _show_filters(state: OverviewState, overview: Overview, *, place: Placed) -> None:
    with st.container(horizontal=True, gap="small"):
        draw_filters(state, overview, place=place)
        choose(
            "Table shows",
            name="metric",
            options=OVERVIEW_METRICS,
            value=state.metric,
            default=DEFAULT_OVERVIEW_METRIC,
            format_func=metric_label,
            width=160,
        )


def _show_alerts(state: OverviewState, alerts: Sequence[Alert], *, names_toolchain: bool) -> None:
    title, sections = alert_sections(state, alerts, now=data.now(), names_toolchain=names_toolchain)
    st.html(heading(title, level=2))
    for section in sections:
        st.html(section)


def _show_cells(
    state: OverviewState, cells: Sequence[LatestCell], *, alerts: Sequence[Alert]
) -> None:
    st.html(tiles(mode_tile(summary) for summary in mode_summaries(cells, alerts=alerts)))
    now = data.now()
    matrix = build_matrix(cells, alerts=alerts, metric=state.metric, now=now)
    st.html(heading(f"Latest results: {metric_label(state.metric)}", level=2))
    st.html(latest_facts(cells, now=now))
    st.html(table(matrix.columns, matrix.rows, label="latest results, model by variant"))
