"""The history of one case: trend with noise band, environment changes, samples of one point."""

from __future__ import annotations

import dataclasses
import functools
from datetime import datetime

import streamlit as st

from compile_hud.app import clock
from compile_hud.app.components.annotations import show_annotations
from compile_hud.app.components.breadcrumbs import HISTORY, case_path, case_tabs
from compile_hud.app.components.page_frame import (
    banners,
    choose,
    draw_chart,
    draw_legend,
    stale_note,
    state_page,
)
from compile_hud.app.components.shared_filters import choose_range, first_moment
from compile_hud.app.components.table.view import draw_table
from compile_hud.app.components.trend.legend import samples_legend
from compile_hud.app.components.trend.rows import samples_chart, scale_of
from compile_hud.app.components.trend.view import TREND_KEY, show_repro, show_trend
from compile_hud.app.components.trend.window import part_of
from compile_hud.app.data import store
from compile_hud.app.data.annotations import annotated
from compile_hud.app.data.cache import computed_once
from compile_hud.app.data.commands import repro
from compile_hud.app.data.page_records import SeriesPage
from compile_hud.app.data.series import load_result_samples, load_series_page, with_samples
from compile_hud.app.ui.format import local_moment, local_range
from compile_hud.app.ui.html import banner, heading, inline_note, key_values
from compile_hud.app.ui.share import Share, file_name, show_share
from compile_hud.app.ui.urls import (
    ALL_RUNS,
    DEFAULT_SERIES_METRIC,
    YES,
    ModelsState,
    OverviewState,
    RunsState,
    SeriesState,
    cases_url,
    end_in,
    moment_in,
    moment_out,
    overview_url,
    parse_series,
    runs_url,
)
from compile_hud.app.views.kernel_diff.data import load_runs_of_kernels
from compile_hud.app.views.runs.data import load_case_findings
from compile_hud.app.views.series import tables
from compile_hud.app.views.series.markdown import series_csv, series_markdown
from compile_hud.db.errors import NotFoundError
from compile_hud.db.records.metrics import metric_label
from compile_hud.db.records.triage import ONGOING
from compile_hud.db.shared.text import counted

_SHOWN_POINTS = 15


def show() -> None:
    """Draw the series page."""
    state, problems = parse_series(st.query_params.to_dict())
    banners(problems)
    if not state.case:
        text = "Each cell of the overview, and each number of a run, leads to its history here."
        links = [
            ("Choose a cell of the overview", overview_url(OverviewState())),
            ("Choose a model", cases_url(ModelsState())),
            ("Choose a run", runs_url(RunsState())),
        ]
        state_page("Select a model to see its history", text=[text], links=links)
        return
    try:
        loaded = load_series_page(
            state.case, metric=state.metric, machine=state.machine, toolchain=state.toolchain
        )
    except NotFoundError as error:
        text = "The overview lists what was measured."
        links = [("To the overview", overview_url(OverviewState()))]
        state_page("No such series", text=[f"{error}.", text], links=links)
        return
    stale_note(loaded)
    page = annotated(loaded.value, metric=state.metric)
    show_header(page, state=state)
    if not page.points:
        show_no_points(page, state=state)
        return
    if not drawn_part(page, state=state).points:
        banners([f"Nothing was measured in {part_words(state)}; all is drawn."])
        state = dataclasses.replace(state, since="", until="")
    drawn = in_range(page, state=state, now=clock.now())
    show_part(page, state=state, drawn=drawn)
    show_trend(page, metric=state.metric, version=loaded.version, state=drawn)
    show_series_share(page, state=state)
    show_annotations(page, metric=state.metric)
    show_samples(page, state=state, version=loaded.version)
    show_points(page, state=state)


def show_header(page: SeriesPage, *, state: SeriesState) -> None:
    """Draw the name of the series, its choices and its alerts."""
    name = f"{page.case.model} {page.case.variant}"
    st.html(
        case_path(
            page.case,
            machine=page.machine,
            toolchain=page.toolchain,
            last=metric_label(state.metric),
        )
    )
    st.html(heading(name))
    if page.points:
        st.html(
            case_tabs(
                page.case,
                run_id=page.points[-1].run_id,
                machine=page.machine,
                toolchain=page.toolchain,
                current=HISTORY,
                profiled_run_id=_last_profiled(page),
            )
        )
    st.html(key_values(tables.header_facts(page, metric=state.metric)))
    machines = sorted({header.machine for header in page.headers} | {page.machine})
    with st.container(horizontal=True, gap="small"):
        choose(
            "Metric",
            name="metric",
            options=tables.metrics_of(page),
            value=state.metric,
            default=DEFAULT_SERIES_METRIC,
            format_func=metric_label,
            width=240,
        )
        choose_range(state.range)
        choose("Machine", name="machine", options=machines, value=page.machine, width=240)
        if len(page.toolchains) > 1:
            choose(
                "Toolchain",
                name="toolchain",
                options=page.toolchains,
                value=page.toolchain,
                width=240,
            )
    if notice := tables.newer_outcome_notice(page):
        banners([notice])
    if siblings := tables.sibling_table(page, metric=state.metric):
        st.html(siblings)
    for lines in tables.alert_notices(page, metric=state.metric):
        st.html(banner(*lines))
    if links := tables.alert_links(page, metric=state.metric):
        st.html(links)
    if page.points:
        run_id = page.points[-1].run_id
        findings = load_case_findings(run_id, page.case.key).value
        if links := tables.finding_links(findings, run_id=run_id, case_key=page.case.key):
            st.html(links)


def show_series_share(page: SeriesPage, *, state: SeriesState) -> None:
    """Draw the buttons that share the series."""
    command = repro(page.case, toolchain=page.toolchain)
    share = Share(
        name=file_name(page.case.model, page.case.variant, state.metric),
        markdown=series_markdown(page, metric=state.metric, command=command),
        command=command,
        chart=TREND_KEY,
        csv=functools.partial(series_csv, page, metric=state.metric),
    )
    show_share(share)


def in_range(page: SeriesPage, *, state: SeriesState, now: datetime) -> SeriesState:
    """Return `state` with the first moment of its range as the bound, if it has no bounds.

    The range reaches back to the last good run of an ongoing alert, and to the chosen result. It
    has no bound where it would leave out every point or none.
    """
    first = first_moment(state.range, now=now)
    if first is None or first > page.points[-1].at or state.since or state.until:
        return state
    needed = [alert.last_good or alert.first_bad for alert in page.alerts if alert.state in ONGOING]
    moments = [point.at for point in page.points if point.result_id == state.result]
    since = min([first, *(run.at for run in needed), *moments])
    # A whole day, so that the chart stays the same all day.
    since = since.replace(hour=0, minute=0, second=0, microsecond=0)
    is_partial = page.points[0].at < since
    return dataclasses.replace(state, since=moment_out(since)) if is_partial else state


def show_part(page: SeriesPage, *, state: SeriesState, drawn: SeriesState) -> None:
    """Draw the bounds of the part that is drawn, the way back, and the switch of single samples.

    `drawn` has the bounds of the range where `state` has none.
    """
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        st.session_state["raw"] = bool(state.raw)
        st.checkbox("Single samples", key="raw", on_change=_switch_raw)
        part = drawn_part(page, state=drawn)
        if state.raw and (num := len(with_samples(part))) < len(part.points):
            st.html(inline_note(f"of the newest {counted(num, 'run')}"), width="content")
        if num_older := len(page.points) - len(part.points):
            text = (
                part_words(drawn) if state.since or state.until else counted(num_older, "older run")
            )
            st.html(inline_note(text), width="content")
            st.button("Show all", key="whole", on_click=_show_whole)


def drawn_part(page: SeriesPage, *, state: SeriesState) -> SeriesPage:
    """Return `page` with the points of the part that `state` selects."""
    return part_of(page, since=moment_in(state.since), until=end_in(state.until))


def part_words(state: SeriesState) -> str:
    """Return the bounds that `state` selects, `2026-01-03 01:00 UTC+1 to the newest`."""
    return local_range(moment_in(state.since), end_in(state.until))


def _switch_raw() -> None:
    if st.session_state["raw"]:
        st.query_params["raw"] = YES
    else:
        st.query_params.pop("raw", None)


def _show_whole() -> None:
    for name in ("since", "until"):
        st.query_params.pop(name, None)
    st.query_params["range"] = ALL_RUNS


def show_no_points(page: SeriesPage, *, state: SeriesState) -> None:
    """Draw the facts of a series without a number."""
    metrics = ", ".join(metric_label(name) for name in tables.metrics_of(page))
    has_several = len(page.toolchains) > 1
    where = f"{page.machine} in toolchain {page.toolchain}" if has_several else page.machine
    text = [f"This case has no values of {metric_label(state.metric)} on {where}."]
    there = "Over all toolchains it has" if has_several else "It has"
    text.append(f"{there}: {metrics}." if metrics else "It never ended ok, so it has no numbers.")
    state_page("No points", text=text)
    if outcomes := tables.outcome_table(page.outcomes, case_key=page.case.key):
        st.html(outcomes)
    show_repro(page.case, toolchain=page.toolchain)
    command = repro(page.case, toolchain=page.toolchain)
    show_share(Share(name=file_name(page.case.model, page.case.variant), command=command))


def _profiled(page: SeriesPage) -> set[str]:
    """Return the ids of the runs that have kernels of the case."""
    return {run.run_id for run in load_runs_of_kernels(page.case.key).value}


def _last_profiled(page: SeriesPage) -> str:
    """Return the id of the newest point with kernels of the case, empty for none."""
    profiled = _profiled(page)
    ids = [point.run_id for point in page.points if point.run_id in profiled]
    return ids[-1] if ids else ""


def show_points(page: SeriesPage, *, state: SeriesState) -> None:
    """Draw the points, newest first."""
    rows = tables.point_table(
        page,
        metric=state.metric,
        scale=scale_of(page, metric=state.metric),
        profiled=_profiled(page),
    )
    st.html(heading("Points", level=2))
    draw_table(rows, key="points", max_rows=_SHOWN_POINTS)
    without = tables.outcomes_without_value(page)
    if outcomes := tables.outcome_table(without, case_key=page.case.key):
        st.html(heading("Runs without a value", level=2))
        st.html(outcomes)


def show_samples(page: SeriesPage, *, state: SeriesState, version: int) -> None:
    """Draw the samples of the chosen result, of the latest without one."""
    point = next((item for item in page.points if item.result_id == state.result), None)
    if state.result and point is None:
        st.html(banner(f"This series has no result {state.result}; its latest is shown."))
    point = point or page.points[-1]
    samples = load_result_samples(point.result_id, metric=state.metric).value
    st.html(heading(f"Samples of {local_moment(point.at)}", level=2))
    facts = tables.point_facts(page, point, metric=state.metric, profiled=_profiled(page))
    st.html(key_values(facts))
    spec = computed_once(samples_chart)(
        store.store_url(),
        version,
        (page.machine, page.toolchain),
        metric=state.metric,
        result_id=point.result_id,
        _page=page,
        _samples=samples,
    )
    draw_legend(samples_legend(samples, low=point.low, high=point.high))
    draw_chart(spec, key="samples")
