"""One case result in full, drawn on the page of its run."""

from __future__ import annotations

import streamlit as st

from compile_hud.app.components.breadcrumbs import SUMMARY, case_tabs
from compile_hud.app.components.page_frame import draw_chart
from compile_hud.app.components.run_request_form import RunChoice, run_request_form
from compile_hud.app.components.trend.rows import result_samples_chart
from compile_hud.app.data.commands import repro
from compile_hud.app.data.page_records import RunPage
from compile_hud.app.data.series import load_result_samples
from compile_hud.app.ui.charts import sweep_spec
from compile_hud.app.ui.format import metric_label, outcome_label
from compile_hud.app.ui.html import banner, caption, collapsible, command_line, heading
from compile_hud.app.ui.urls import RunPageState, run_url, series_url
from compile_hud.app.views.kernel_diff.data import load_runs_of_kernels
from compile_hud.app.views.kernel_diff.links import has_kernels, kernel_links
from compile_hud.app.views.runs.data import sweep_of
from compile_hud.app.views.runs.launches import (
    compile_stack,
    launch_table,
    steps_table,
    training_stack,
)
from compile_hud.app.views.runs.measurements import measurement_table, missing_table
from compile_hud.app.views.runs.shape_sweep import SWEEP_CAPTION, sweep_rows, sweep_table
from compile_hud.app.views.runs.tables import (
    accuracy_table,
    location_tables,
    other_details,
    reasons,
    result_facts,
    tolerance_facts,
    warning_table,
)
from compile_hud.app.views.series.tables import samples_caption
from compile_hud.db.jobs.queue import suite_of_case
from compile_hud.db.records.results import Outcome
from compile_hud.db.records.summaries import ResultSummary

_LOG_HEIGHT = 320
_SHORT_LOG_LINES = 14
# The tables of what each launch reports, by its name in the details of a result.
_LAUNCH_TABLES = ("conditions", "telemetry", "compile", "sampling")


def show_case(page: RunPage, state: RunPageState) -> None:
    """Draw the case that the URL names, or the reason why there is nothing to draw."""
    result = next((item for item in page.results if item.case.key == state.case), None)
    if result is None:
        planned = any(case.key == state.case for case in page.run.plan)
        why = "has no result yet" if planned else "is not in the plan of this run"
        st.html(banner(f"Case {state.case} {why}."))
        return
    st.html(heading(f"{result.case.model} {result.case.variant}", level=2))
    where = {"machine": page.run.machine, "toolchain": page.run.toolchain}
    st.html(
        case_tabs(
            result.case,
            run_id=page.run.id,
            current=SUMMARY,
            profiled_run_id=page.run.id if has_kernels(result) else "",
            **where,
        )
    )
    st.html(result_facts(result))
    if result.reason:
        st.html(banner(f"{outcome_label(result.outcome)}: {result.reason}"))
    if result.warnings:
        st.html(warning_table(result))
    if result.measurements:
        st.html(measurement_table(result, run=page.run))
    if missing := missing_table(result.details):
        st.html(missing)
    if state.samples:
        _show_samples(result, metric=state.samples)
    _show_parts(result)
    _show_sweep(result)
    _show_explanations(result)
    _show_next(page, result)


def _show_samples(result: ResultSummary, *, metric: str) -> None:
    measured = result.measurements.get(metric)
    if measured is None:
        st.html(banner(f"This result has no {metric_label(metric)}."))
        return
    st.html(heading(f"Samples: {metric_label(metric)}", level=3))
    samples = load_result_samples(result.id, metric=metric).value
    if not samples:
        st.html(banner("[samples] nights removed these samples; the median remains."))
        return
    spec = result_samples_chart(measured, samples=samples)
    draw_chart(spec, key="case-samples")
    st.html(caption(samples_caption(measured.num_samples)))


def _show_parts(result: ResultSummary) -> None:
    """Draw the components of the numbers: compile phases, parts of a step, distances from the
    oracle.
    """
    stacks = (compile_stack(result), training_stack(result))
    for content in (*stacks, accuracy_table(result), tolerance_facts(result)):
        if content:
            st.html(content)


def _show_sweep(result: ResultSummary) -> None:
    """Draw the results of other shapes in the compiled model, if there are any."""
    sweep = sweep_of(result.details)
    if sweep is None:
        return
    variant = result.case.variant
    st.html(heading("Other shapes", level=3))
    st.html(sweep_table(sweep, variant=variant))
    spec = sweep_spec(
        sweep_rows(sweep, variant=variant),
        axis=sweep.axis.replace("_", " "),
        title=f"latency ({sweep.scale.unit})",
    )
    draw_chart(spec, key="case-shapes")
    st.html(caption(SWEEP_CAPTION))


def _show_explanations(result: ResultSummary) -> None:
    for title, content in location_tables(result):
        st.html(heading(title, level=3))
        st.html(content)
    for title, texts in reasons(result):
        st.html(heading(f"{title}: {len(texts)}", level=3))
        for reason in texts:
            st.code(reason, language=None, wrap_lines=True)
    tables = [launch_table(result.details, name) for name in _LAUNCH_TABLES]
    tables.append(steps_table(result.details))
    titles = [*_LAUNCH_TABLES, "steps"]
    for title, content in zip(titles, tables, strict=True):
        if content:
            st.html(collapsible(f"Launches: {title}", content))
    if result.log_tail:
        with st.expander("End of the worker's log", expanded=result.outcome is not Outcome.OK):
            is_long = result.log_tail.count("\n") > _SHORT_LOG_LINES
            st.code(result.log_tail, language=None, height=_LOG_HEIGHT if is_long else "content")
    if details := other_details(result):
        with st.expander("Details"):
            st.json(details, expanded=1)


def _show_next(page: RunPage, result: ResultSummary) -> None:
    command = repro(result.case, toolchain=page.run.toolchain)
    st.html(command_line(command))
    links = []
    if has_kernels(result):
        runs = load_runs_of_kernels(result.case.key).value
        links = kernel_links(page, result, runs=runs)
    with st.container(horizontal=True):
        for label, url in links:
            st.link_button(label, url)
        st.link_button(
            "History of this case",
            series_url(result.case.key, machine=page.run.machine, toolchain=page.run.toolchain),
        )
        st.link_button("Close the case", run_url(page.run.id))
    run = page.run
    choice = RunChoice(
        suite=suite_of_case(result.case.key), toolchain=run.toolchain, machine=run.machine
    )
    run_request_form("Measure it again", [choice], key="case")
