"""The page of trends: how each compile mode developed over weeks and months."""

from __future__ import annotations

import functools
import shlex

import streamlit as st

from compile_hud.app import clock
from compile_hud.app.components.case_filters import (
    FilteredResults,
    draw_filters,
    draw_silence,
    load_filled,
    load_filtered_results,
)
from compile_hud.app.components.page_frame import (
    choose,
    draw_legend,
    link_button,
    or_all,
    state_page,
)
from compile_hud.app.components.shared_filters import choose_range
from compile_hud.app.components.trend.chart import DRAG_TEXT
from compile_hud.app.data.cache import shared_value
from compile_hud.app.data.page_records import Overview
from compile_hud.app.ui.html import caption, heading, inline_note, key_values, long_table
from compile_hud.app.ui.share import Share, file_name, show_share
from compile_hud.app.ui.urls import (
    ABSOLUTE,
    ALL_RUNS,
    SCALES,
    CompareState,
    TrendsState,
    cases_url,
    compare_url,
    without,
)
from compile_hud.app.views.overview.tables import learning_text
from compile_hud.app.views.trends.charts import panels_legend
from compile_hud.app.views.trends.data import csv_of, load_trends, trends_state
from compile_hud.app.views.trends.markdown import trends_markdown
from compile_hud.app.views.trends.panel_chart import draw_column
from compile_hud.app.views.trends.tables import (
    MAX_COLUMNS,
    bounds_of,
    brush_bounds,
    mark_table,
    panel_columns,
    part_words,
    range_facts,
    summary_table,
    trend_label,
)
from compile_hud.runner.analysis.trends.answers import headline
from compile_hud.runner.analysis.trends.records import DIMENSIONS, TREND_METRICS, ModeTrends
from compile_hud.runner.analysis.trends.trends import TREND_MODES

# The keys of all charts begin with it: pictures have all of them.
CHARTS_KEY = "trends-chart"
CAPTION = (
    "Geometric means over the models of a phase with numbers in every mode. Models that come or go"
    " move no line."
)
CHART_CAPTION = f"A click opens the run. {DRAG_TEXT}."
_NUM_MARKS = 12


def show() -> None:
    """Draw the page of trends."""
    state, problems = trends_state(st.query_params.to_dict())
    overview = load_filled(problems)
    if overview is None:
        return
    results = load_filtered_results(overview, state, metrics=("speedup",))
    _show_filters(state, overview, results=results)
    draw_silence(results)
    loaded = load_trends(
        state, machine=results.machine, toolchain=results.toolchain, now=clock.now()
    )
    trends = loaded.value
    if len(trends.runs) < 2:
        _show_nothing(state, overview, results=results, trends=trends)
        return
    st.html(heading(headline(trends)))
    st.html(key_values(range_facts(trends)))
    _show_part(state, trends)
    st.html(summary_table(trends, state=state))
    st.html(caption(CAPTION))
    _show_charts(state, trends, version=loaded.version)
    _show_share(state, trends)
    _show_marks(trends)


def _show_filters(state: TrendsState, overview: Overview, *, results: FilteredResults) -> None:
    with st.container(horizontal=True, gap="small"):
        choose_range(state.range)
        choose(
            "Metric",
            name="metric",
            options=["", *TREND_METRICS],
            value=state.metric,
            format_func=lambda name: trend_label(name) if name else "all",
            width=190,
        )
        choose(
            "Mode",
            name="mode",
            options=["", *TREND_MODES],
            value=state.mode,
            format_func=or_all,
            width=170,
        )
        choose(
            "By",
            name="by",
            options=["", *DIMENSIONS],
            value=state.by,
            format_func=lambda name: name or "all models",
            width=130,
        )
        choose(
            "Values",
            name="scale",
            options=SCALES,
            value=state.scale,
            default=ABSOLUTE,
            format_func={"absolute": "absolute", "relative": "change in %"}.__getitem__,
            width=140,
        )
        draw_filters(state, overview, results=results)


def _show_nothing(
    state: TrendsState, overview: Overview, *, results: FilteredResults, trends: ModeTrends
) -> None:
    """Draw the reason why there are fewer than two runs, and what to do."""
    learning = learning_text(overview.runs, machine=results.machine, toolchain=results.toolchain)
    if learning and not trends.runs:
        learning = f"{learning}; none fits the filters"
    if learning:
        text = "A trend needs two runs with results. Schedule one each night, or run one now."
        commands = ["hud run", "hud schedule   # the schedules of hud.toml"]
        state_page(learning, text=[text], commands=commands)
        return
    text = "Fewer than two runs of this range fit the filters."
    everything = TrendsState(machine=state.machine, toolchain=state.toolchain, range=ALL_RUNS)
    links = [("Show all runs and models", cases_url(everything))]
    state_page("No trend to show", text=[text], links=links)


def _show_part(state: TrendsState, trends: ModeTrends) -> None:
    """Draw the brushed part, the way back, and the comparison of both ends."""
    first, last = bounds_of(trends)
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        link_button(
            "Compare first and newest run",
            compare_url(CompareState(baseline=first, candidate=last, model=state.model)),
        )
        if state.since or state.until:
            st.html(inline_note(part_words(state)), width="content")
            link_button("Show the whole range", cases_url(without(state, "since", "until")))


def _show_charts(state: TrendsState, trends: ModeTrends, *, version: int) -> None:
    columns = shared_value(
        ("panel columns", state, trends.machine, trends.toolchain, bounds_of(trends)),
        version=version,
        compute=functools.partial(panel_columns, trends, state=state),
    )
    num_all = len({(trend.label, trend.mode) for trend in trends.trends})
    draw_legend(panels_legend(columns))
    with st.container(horizontal=True, gap="small"):
        for column in columns:
            # Each part has its own key, so that a brush in the whole does not select in the part.
            key = file_name(CHARTS_KEY, column.title, state.since, state.until)
            part = draw_column(column, data_key=(version, state), key=key, has_brush=True)
            if part:
                st.query_params.update(brush_bounds(part))
                st.rerun()
    text = CHART_CAPTION
    if num_all > MAX_COLUMNS:
        text += f" The first {MAX_COLUMNS} of {num_all} are drawn; the table and CSV have all."
    st.html(caption(text))


def _show_share(state: TrendsState, trends: ModeTrends) -> None:
    command = trends_command(state, trends)
    show_share(
        Share(
            name=file_name("trends", trends.machine, state.metric, state.by),
            markdown=trends_markdown(trends, command=command),
            command=command,
            chart=CHARTS_KEY,
            csv=functools.partial(csv_of, trends),
        )
    )


def trends_command(state: TrendsState, trends: ModeTrends) -> str:
    """Return the command that prints these trends."""
    since = state.since or (f"{state.range}d" if state.range != ALL_RUNS else "2020-01-01")
    words = ["hud", "trends", "--since", since, "--machine", trends.machine]
    words += ["--until", state.until] if state.until else []
    words += ["--toolchain", trends.toolchain]
    for name in ("metric", "mode", "by", "model", "phase", "shape", "dtype", "device"):
        if value := getattr(state, name):
            words += [f"--{name}", value]
    return shlex.join(words)


def _show_marks(trends: ModeTrends) -> None:
    columns, rows = mark_table(trends)
    if rows:
        st.html(heading("What changed", level=2))
        st.html(
            long_table(columns, rows, label="changes", num_shown=_NUM_MARKS, rest="older changes")
        )
