"""The page of one model, with its facts, cases, trends, alerts and failures."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from compile_hud.app import clock
from compile_hud.app.components.breadcrumbs import model_path
from compile_hud.app.components.case_filters import (
    FilteredResults,
    draw_filters,
    draw_silence,
    load_filled,
    load_filtered_results,
    show_nothing_fits,
)
from compile_hud.app.components.matrix.result_matrix import build_matrix, first_metric
from compile_hud.app.components.page_frame import draw_legend, link_button, state_page
from compile_hud.app.components.run_request_form import RunChoice, run_request_form
from compile_hud.app.components.shared_filters import choose_range, range_label
from compile_hud.app.data.latest_results import load_trends
from compile_hud.app.data.page_records import Overview
from compile_hud.app.ui.html import caption, chips, command_line, heading, key_values
from compile_hud.app.ui.share import Share, file_name, show_share
from compile_hud.app.ui.urls import (
    ModelsState,
    ModelState,
    ModesState,
    TrendsState,
    cases_url,
    kernels_url,
    model_url,
    parse_model,
    series_url,
)
from compile_hud.app.views.model.data import (
    MODEL_METRICS,
    TREND_METRIC,
    code_fact,
    load_measured_models,
    load_model_trends,
    model_command,
    nearest_models,
    newest_kernels,
)
from compile_hud.app.views.model.tables import (
    MAX_TRENDS,
    alert_table,
    case_matrix,
    failure_table,
    group_label,
    groups_of,
    model_facts,
    state_chips,
)
from compile_hud.app.views.models.data import (
    NOISE_METRIC,
    ModelHistory,
    load_last_oks,
    load_summaries,
    model_healths,
)
from compile_hud.app.views.trends.charts import panels_legend
from compile_hud.app.views.trends.panel_chart import draw_column
from compile_hud.app.views.trends.tables import panel_columns
from compile_hud.db.jobs.queue import suite_of_case
from compile_hud.db.records.imported import is_imported
from compile_hud.db.shared.text import counted_of, shortened

CHARTS_KEY = "model-trend"
_NAME_LENGTH = 80
CASES_CAPTION = (
    "Speedup over eager, and below it the latencies, eager first. Cells with a colour have an open"
    " alert. Each leads to its history."
)


def show() -> None:
    """Draw the page of a model."""
    state, problems = parse_model(st.query_params.to_dict())
    overview = load_filled(problems)
    if overview is None:
        return
    if not state.model:
        links = [("Choose a model", cases_url(ModelsState(machine=state.machine)))]
        state_page("No model selected", text=["Each model has a page of its own."], links=links)
        return
    results = load_filtered_results(overview, state, metrics=MODEL_METRICS)
    where = {"machine": results.machine, "toolchain": results.toolchain}
    st.html(model_path(state.model, **where))
    st.html(heading(state.model))
    if not results.cells and _show_unmeasured(state, results):
        return
    if results.cells:
        _show_facts(overview, results, state)
    with st.container(horizontal=True, gap="small"):
        choose_range(state.range)
        draw_filters(state, overview, results=results)
    draw_silence(results)
    if not results.cells:
        show_nothing_fits(
            state, overview, results=results, everything=ModelState(model=state.model)
        )
        return
    _show_links(state, results)
    _show_cases(results)
    _show_trends(state, results)
    _show_problems(results, model=state.model)
    _show_commands(state, results)


def _show_unmeasured(state: ModelState, results: FilteredResults) -> bool:
    """Draw where a model has results, if it has none here; return False if a filter is the cause.

    Without a result anywhere there is no such model.
    """
    known = load_measured_models().value
    shown = repr(shortened(state.model, limit=_NAME_LENGTH))
    everything = ("All models", cases_url(ModelsState()))
    places = known.get(state.model, ())
    if not places:
        near = [(name, model_url(name)) for name in nearest_models(state.model, known)]
        text = [f"No result is of a model {shown}."]
        text += ["Models with a similar name:"] if near else []
        state_page("No such model", text=text, links=[*near, everything])
        return True
    if not results.candidates or (results.machine, results.toolchain) in places:
        return False
    where = [
        (f"{machine}, {toolchain}", model_url(state.model, machine=machine, toolchain=toolchain))
        for machine, toolchain in places
    ]
    here = f"{results.machine} in toolchain {results.toolchain}"
    text = [f"No result of {shown} is of {here}. It was measured on:"]
    state_page("Not measured here", text=text, links=[*where, everything])
    return True


def _show_facts(overview: Overview, results: FilteredResults, state: ModelState) -> None:
    where = {"machine": results.machine, "toolchain": results.toolchain}
    summaries = load_summaries(results.cells)
    known = ModelHistory(
        trends=load_trends(**where, metric=NOISE_METRIC).value,
        last_ok=load_last_oks(**where).value,
        summaries=summaries,
    )
    (health,) = model_healths(
        results.cells, alerts=results.alerts_in_toolchain, known=known, now=clock.now()
    )
    if health.summary:
        st.html(caption(health.summary))
    st.html(chips(state_chips(health, cells=results.cells)))
    code = code_fact(state.model, runs=overview.runs, machine=results.machine)
    facts = model_facts(health, cells=results.cells, code=code, now=clock.now())
    st.html(key_values(facts))


def _show_links(state: ModelState, results: FilteredResults) -> None:
    where = {"machine": results.machine, "toolchain": results.toolchain, "model": state.model}
    first = next(
        (cell for cell in results.cells if cell.summary.case.variant != "eager"), results.cells[0]
    )
    links = [
        ("Trends", cases_url(TrendsState(**where, range=state.range))),
        ("Modes", cases_url(ModesState(**where))),
        (
            "History",
            series_url(
                first.summary.case.key, machine=results.machine, toolchain=results.toolchain
            ),
        ),
    ]
    if kernels := newest_kernels(results.cells):
        links.append(("Kernels", kernels_url(kernels.run_id, case_key=kernels.case.key)))
    with st.container(horizontal=True, gap="small"):
        for label, url in links:
            link_button(label, url)


def _show_cases(results: FilteredResults) -> None:
    metric = first_metric(results.cells)
    trends = load_trends(machine=results.machine, toolchain=results.toolchain, metric=metric).value
    matrix = build_matrix(
        results.cells,
        alerts=results.alerts_in_toolchain,
        metric=metric,
        now=clock.now(),
        trends=trends,
    )
    st.html(heading("Cases", level=2))
    st.html(case_matrix(matrix))
    st.html(caption(CASES_CAPTION))
    if matrix.legend:
        st.html(caption(matrix.legend))


def _show_trends(state: ModelState, results: FilteredResults) -> None:
    groups = groups_of(results.cells)
    st.html(heading(f"Speedup by mode, {range_label(state.range)}", level=2))
    loaded = [
        load_model_trends(
            state, case, machine=results.machine, toolchain=results.toolchain, now=clock.now()
        )
        for case in groups[:MAX_TRENDS]
    ]
    drawn = [
        (case, panel_columns(item.value, state=TrendsState(metric=TREND_METRIC)), item.version)
        for case, item in zip(groups, loaded, strict=False)
        if len(item.value.runs) > 1 and item.value.trends
    ]
    if not drawn:
        text = "No mode has two speedups in this range. A longer range, or further runs show them."
        st.html(caption(text))
        return
    draw_legend(panels_legend([column for _, columns, _ in drawn for column in columns]))
    for case, columns, version in drawn:
        if len(groups) > 1:
            st.html(heading(group_label(case), level=3))
        with st.container(horizontal=True, gap="small"):
            for column in columns:
                key = file_name(CHARTS_KEY, group_label(case), column.title, state.range)
                draw_column(column, data_key=(version, state, case.key), key=key)
    if len(groups) > MAX_TRENDS:
        first = counted_of(MAX_TRENDS, len(groups), "combination")
        text = f"The first {first}. The filters select another."
        st.html(caption(text))


def _show_problems(results: FilteredResults, *, model: str) -> None:
    now = clock.now()
    alerts = [alert for alert in results.alerts_in_toolchain if alert.case.model == model]
    st.html(heading("Alerts", level=2))
    st.html(alert_table(alerts, now=now) or caption("No alert of this model is open."))
    st.html(heading("Failures", level=2))
    failures = failure_table(results.cells, now=now)
    st.html(failures or caption("No case of this model failed in its newest run."))


def _show_commands(state: ModelState, results: FilteredResults) -> None:
    toolchain = results.toolchain
    if is_imported(toolchain):
        return
    command = model_command(state.model, toolchain=toolchain)
    st.html(heading("Measure it again", level=2))
    st.html(command_line(command))
    run_request_form("Queue a case", _choices(results), key="model")
    show_share(Share(name=file_name("model", state.model), command=command, chart=CHARTS_KEY))


def _choices(results: FilteredResults) -> Sequence[RunChoice]:
    return [
        RunChoice(
            suite=suite_of_case(cell.summary.case.key),
            toolchain=results.toolchain,
            machine=results.machine,
        )
        for cell in results.cells
    ]
