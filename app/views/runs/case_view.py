"""One case result in full, drawn on the page of its run."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from compile_hud.app.components.breadcrumbs import PARTS, SUMMARY, case_tabs
from compile_hud.app.components.page_frame import draw_chart, draw_legend, link_button, state_page
from compile_hud.app.components.run_request_form import RunChoice, run_request_form
from compile_hud.app.components.trend.legend import samples_legend
from compile_hud.app.components.trend.rows import result_samples_chart
from compile_hud.app.data.commands import repro
from compile_hud.app.data.page_records import RunPage
from compile_hud.app.data.series import load_result_samples
from compile_hud.app.ui.charts import sweep_spec
from compile_hud.app.ui.format import outcome_label
from compile_hud.app.ui.html import banner, caption, collapsible, command_line, heading
from compile_hud.app.ui.urls import (
    ACCURACY,
    COMPILE,
    FINDINGS,
    LOG,
    MEMORY,
    RunPageState,
    run_url,
    series_url,
)
from compile_hud.app.views.kernel_diff.data import load_runs_of_kernels
from compile_hud.app.views.kernel_diff.links import has_kernels, kernel_links
from compile_hud.app.views.memory.tables import peak_of
from compile_hud.app.views.memory.view import show_peak
from compile_hud.app.views.runs.cache_table import cache_table
from compile_hud.app.views.runs.compilation_table import compilation_table, compiler_log
from compile_hud.app.views.runs.data import sweep_of
from compile_hud.app.views.runs.findings import FINDINGS_CAPTION, findings_table
from compile_hud.app.views.runs.launches import (
    compile_stack,
    launch_table,
    steps_table,
    training_stack,
)
from compile_hud.app.views.runs.measurements import in_groups, measurement_table, missing_table
from compile_hud.app.views.runs.shape_sweep import (
    SWEEP_CAPTION,
    sweep_legend,
    sweep_rows,
    sweep_table,
)
from compile_hud.app.views.runs.tables import (
    accuracy_table,
    location_tables,
    other_details,
    reasons,
    result_facts,
    tolerance_facts,
    warning_table,
)
from compile_hud.db.jobs.queue import suite_of_case
from compile_hud.db.records.metrics import metric_label
from compile_hud.db.records.results import Outcome
from compile_hud.db.records.summaries import ResultSummary

_LOG_HEIGHT = 320
_SHORT_LOG_LINES = 14
# The tables of what each launch reports, by its name in the details of a result.
_LAUNCH_TABLES = ("conditions", "telemetry", "sampling")


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
            current=PARTS.get(state.tab, SUMMARY),
            profiled_run_id=page.run.id if has_kernels(result) else "",
            **where,
        )
    )
    if result.reason:
        st.html(banner(f"{outcome_label(result.outcome)}: {result.reason}"))
    parts = {
        MEMORY: _show_memory,
        COMPILE: _show_compile,
        ACCURACY: _show_accuracy,
        FINDINGS: _show_findings,
        LOG: _show_log,
    }
    if state.tab:
        parts[state.tab](page, result)
    else:
        _show_summary(page, result, state)
    _show_next(page, result)


def _show_summary(page: RunPage, result: ResultSummary, state: RunPageState) -> None:
    st.html(result_facts(result))
    if result.warnings:
        st.html(warning_table(result))
    if result.measurements:
        own_s = page.own_eager_s.get(result.case.key)
        st.html(measurement_table(result, run=page.run, own_eager_s=own_s))
    if missing := missing_table(result.details):
        st.html(missing)
    if state.samples:
        _show_samples(result, metric=state.samples)
    if parts := training_stack(result):
        st.html(parts)
    _show_sweep(result)
    _show_launches(result, _LAUNCH_TABLES)
    if result.log_tail and result.outcome is not Outcome.OK:
        with st.expander("End of the worker's log", expanded=True):
            _draw_log(result)
    if details := other_details(result):
        with st.expander("Details"):
            st.json(details, expanded=1)


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
    draw_legend(samples_legend(samples, low=measured.low, high=measured.high))
    draw_chart(spec, key="case-samples")


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
    draw_legend(sweep_legend(sweep, variant=variant))
    draw_chart(spec, key="case-shapes")
    st.html(caption(SWEEP_CAPTION))


def _show_launches(result: ResultSummary, names: Sequence[str]) -> None:
    """Draw the reports of each launch, folded, and the duration of its steps."""
    tables = {name: launch_table(result.details, name) for name in names}
    tables["steps"] = steps_table(result.details)
    for title, content in tables.items():
        if content:
            st.html(collapsible(f"Launches: {title}", content))


def _show_memory(page: RunPage, result: ResultSummary) -> None:
    """Draw the metrics of memory, and the holders of it at the peak."""
    measured = in_groups(result, ("memory",))
    peak, problem = peak_of(result)
    if problem:
        st.html(banner(problem))
    if not measured.measurements and peak is None:
        _show_no_part("No memory data", result, eager="")
        return
    if measured.measurements:
        st.html(measurement_table(measured, run=page.run))
    show_peak(peak, result)


def _show_compile(page: RunPage, result: ResultSummary) -> None:
    """Draw the phases of compilation, and why the compiler stopped or started again."""
    measured = in_groups(result, ("compilation", "graphs"))
    stack, launches = compile_stack(result), launch_table(result.details, "compile")
    locations, lists = location_tables(result), reasons(result)
    if not (measured.measurements or stack or launches or locations or lists):
        _show_no_part("No compile data", result, eager="Eager mode compiles nothing.")
        return
    if measured.measurements:
        st.html(measurement_table(measured, run=page.run))
    if stack:
        st.html(stack)
    sections = [
        ("Compilations of the first launch", compilation_table(result)),
        ("Compile caches", cache_table(result, run=page.run)),
        *locations,
        ("Log of the compiler", compiler_log(result)),
    ]
    for title, content in sections:
        if content:
            st.html(heading(title, level=3))
            st.html(content)
    for title, texts in lists:
        st.html(heading(f"{title}: {len(texts)}", level=3))
        for reason in texts:
            st.code(reason, language=None, wrap_lines=True)
    if not (locations or lists):
        st.html(caption("No graph break and no recompile was reported."))
    if launches:
        st.html(heading("Launches", level=3))
        st.html(launches)


def _show_accuracy(page: RunPage, result: ResultSummary) -> None:
    """Draw the distances of the outputs from the oracle, and the tolerances."""
    measured = in_groups(result, ("accuracy",))
    if measured.measurements:
        st.html(measurement_table(measured, run=page.run))
    contents = [text for text in (accuracy_table(result), tolerance_facts(result)) if text]
    if not (contents or measured.measurements):
        reference = "Eager mode is the reference: the outputs of other modes are compared with it."
        _show_no_part("No accuracy data", result, eager=reference)
    for content in contents:
        st.html(content)


def _show_findings(page: RunPage, result: ResultSummary) -> None:
    """Draw the causes of extra time, the total first."""
    findings = page.findings.get(result.id, ())
    if not findings:
        text = "No rule found a cause of extra time in the kernels, samples and counters."
        state_page("No findings", text=[text])
        return
    latency = result.measurements.get("latency_s")
    st.html(
        findings_table(
            findings,
            run_id=page.run.id,
            case_key=result.case.key,
            latency_s=None if latency is None else latency.median,
        )
    )
    st.html(caption(FINDINGS_CAPTION))


def _show_log(_page: RunPage, result: ResultSummary) -> None:
    """Draw the end of the worker's log."""
    if not result.log_tail:
        _show_no_part("No log", result, eager="")
        return
    st.html(caption("The end of the worker's log. Text that looks like a secret is `***`."))
    _draw_log(result)


def _draw_log(result: ResultSummary) -> None:
    is_long = result.log_tail.count("\n") > _SHORT_LOG_LINES
    st.code(result.log_tail, language=None, height=_LOG_HEIGHT if is_long else "content")


def _show_no_part(title: str, result: ResultSummary, *, eager: str) -> None:
    """Draw the reason why a part of the case has nothing to show."""
    if eager and result.case.is_eager:
        text = eager
    elif result.outcome is Outcome.OK:
        text = "This run stored none for the case. Imported and synthetic results have none."
    else:
        text = f"Outcome: {outcome_label(result.outcome)}. This run stored nothing for this part."
    state_page(title, text=[text])


def _show_next(page: RunPage, result: ResultSummary) -> None:
    command = repro(result.case, toolchain=page.run.toolchain)
    st.html(command_line(command))
    links = []
    if has_kernels(result):
        runs = load_runs_of_kernels(result.case.key).value
        links = kernel_links(page, result, runs=runs)
    with st.container(horizontal=True):
        for label, url in links:
            link_button(label, url)
        link_button(
            "History of this case",
            series_url(result.case.key, machine=page.run.machine, toolchain=page.run.toolchain),
        )
        link_button("Close the case", run_url(page.run.id))
    run = page.run
    choice = RunChoice(
        suite=suite_of_case(result.case.key), toolchain=run.toolchain, machine=run.machine
    )
    run_request_form("Measure it again", [choice], key="case")
