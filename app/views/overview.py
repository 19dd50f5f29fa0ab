"""The overview: what needs somebody, what each mode is worth, and every model x variant cell."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app import data
from app.components import choose, empty_store, no_result, notices, stale_note, state_page
from app.computed import mode_summaries
from app.format import metric_label
from app.machine import machine_notice
from app.markup import heading, notice, table, tiles
from app.matrix import build_matrix
from app.pages import Overview
from app.ranking import lets_through
from app.state import (
    DEFAULT_OVERVIEW_METRIC,
    OVERVIEW_METRICS,
    OverviewState,
    overview_url,
    parse_overview,
)
from app.summary import (
    FILTERS,
    alert_sections,
    dead_letter_notice,
    matrix_facts,
    mode_tile,
    newest_toolchain,
    nothing_fits,
    toolchains_in,
)
from db.records import Alert
from db.summaries import LatestCell

_WIDTHS = {"machine": 210, "model": 190, "metric": 160}
_DEFAULT_WIDTH = 130


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
    machine = state.machine or overview.runs[0].run.machine
    on_machine = [cell for cell in overview.cells if cell.machine == machine]
    toolchain = state.toolchain or newest_toolchain(on_machine)
    cells = [cell for cell in on_machine if cell.toolchain == toolchain]
    alerts = [alert for alert in overview.alerts if alert.machine == machine]
    has_several = len((toolchains_in(overview) | {toolchain}) - {""}) > 1
    _show_filters(
        state, overview, machine=machine, toolchain=toolchain, has_several_toolchains=has_several
    )
    if undelivered := dead_letter_notice(overview.dead_letters):
        st.html(notice(undelivered))
    if moved := machine_notice(overview.machine.get((machine, toolchain), ())):
        st.html(notice(moved))
    _show_alerts(state, alerts, names_toolchain=has_several)
    in_toolchain = [alert for alert in alerts if alert.toolchain == toolchain]
    _show_cells(state, cells, alerts=in_toolchain, overview=overview)


def _show_filters(
    state: OverviewState,
    overview: Overview,
    *,
    machine: str,
    toolchain: str,
    has_several_toolchains: bool,
) -> None:
    machines = list(dict.fromkeys(cell.machine for cell in overview.cells))
    on_machine = [cell for cell in overview.cells if cell.machine == machine]
    cases = [cell.summary.case for cell in on_machine if cell.toolchain == toolchain]
    with st.container(horizontal=True, gap="small"):
        choose("Machine", name="machine", options=machines, value=machine, width=_width("machine"))
        if has_several_toolchains:
            choose(
                "Toolchain",
                name="toolchain",
                options=sorted({cell.toolchain for cell in on_machine}),
                value=toolchain,
                width=_width("toolchain"),
            )
        for name in FILTERS:
            values = sorted({str(getattr(case, name)) for case in cases})
            choose(
                name.capitalize(),
                name=name,
                options=["", *values],
                value=getattr(state, name),
                format_func=lambda value: value or "all",
                width=_width(name),
            )
        choose(
            "Table shows",
            name="metric",
            options=OVERVIEW_METRICS,
            value=state.metric,
            default=DEFAULT_OVERVIEW_METRIC,
            format_func=metric_label,
            width=_width("metric"),
        )


def _width(name: str) -> int:
    return _WIDTHS.get(name, _DEFAULT_WIDTH)


def _show_alerts(state: OverviewState, alerts: Sequence[Alert], *, names_toolchain: bool) -> None:
    title, sections = alert_sections(state, alerts, now=data.now(), names_toolchain=names_toolchain)
    st.html(heading(title, level=2))
    for section in sections:
        st.html(section)


def _show_cells(
    state: OverviewState,
    candidates: Sequence[LatestCell],
    *,
    alerts: Sequence[Alert],
    overview: Overview,
) -> None:
    cells = [cell for cell in candidates if lets_through(state, cell.summary.case)]
    if not cells:
        state_page("Nothing matches the filters", text=nothing_fits(state, overview, candidates))
        everything = OverviewState(metric=state.metric)
        st.link_button("Show everything", overview_url(everything))
        return
    st.html(tiles(mode_tile(summary) for summary in mode_summaries(cells, alerts=alerts)))
    now = data.now()
    matrix = build_matrix(cells, alerts=alerts, metric=state.metric, now=now)
    st.html(heading(f"Latest results: {metric_label(state.metric)}", level=2))
    st.html(matrix_facts(matrix, cells, now=now))
    st.html(table(matrix.columns, matrix.rows, label="latest results, model by variant"))
