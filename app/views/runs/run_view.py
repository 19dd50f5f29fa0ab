"""One run: its facts, the outcomes of its cases (worst first), and one case in full."""

from __future__ import annotations

import streamlit as st

from compile_hud.app.components.breadcrumbs import run_path
from compile_hud.app.components.machine_status import machine_notice, moved_cell, reference_table
from compile_hud.app.components.page_frame import banners, not_found_page, stale_note
from compile_hud.app.components.run_request_form import run_request_form, suites_of
from compile_hud.app.components.table.view import cached_table, draw_table
from compile_hud.app.data.commands import repro, run_command
from compile_hud.app.data.page_records import RunPage
from compile_hud.app.ui.format import outcome_label
from compile_hud.app.ui.html import Cell, Note, banner, collapsible, heading, key_values
from compile_hud.app.ui.share import Share, file_name, show_share
from compile_hud.app.ui.urls import RunPageState, parse_run, run_url
from compile_hud.app.views.runs.case_table import case_table
from compile_hud.app.views.runs.case_view import show_case
from compile_hud.app.views.runs.data import load_run_page
from compile_hud.app.views.runs.logs import failed_logs, show_live_log
from compile_hud.app.views.runs.markdown import run_markdown
from compile_hud.app.views.runs.tables import (
    environment_table,
    run_dimensions,
    run_times,
)
from compile_hud.db.errors import NotFoundError
from compile_hud.db.records.results import CUSTOM_SUITE, Case, Outcome, RunState
from compile_hud.db.shared.model_code import revisions_text
from compile_hud.db.shared.text import counted


def show() -> None:
    """Draw the run page."""
    state, problems = parse_run(st.query_params.to_dict())
    banners(problems)
    try:
        loaded = load_run_page(state.run)
    except NotFoundError as error:
        not_found_page("No such run", error)
        return
    stale_note(loaded)
    page = loaded.value
    st.html(run_path(page.run.id, case=_case_of(page, state)))
    _show_header(page)
    _show_share(page, state)
    if state.case:
        show_case(page, state)
    if page.run.state is RunState.RUNNING:
        show_live_log(page.run.id)
    _show_cases(page, version=loaded.version)
    if logs := failed_logs(page.results):
        st.html(heading("Logs of cases that failed", level=2))
        st.html(logs)
    if references := reference_table(page):
        st.html(heading("Reference cases", level=2))
        st.html(references)
    st.html(
        collapsible(
            f"Environment: {counted(len(page.run.environment), 'fact')}",
            environment_table(page.run.environment),
        )
    )


def _first_case_url(page: RunPage, outcome: Outcome) -> str:
    result = next(result for result in page.results if result.outcome is outcome)
    return run_url(page.run.id, case_key=result.case.key)


def _show_header(page: RunPage) -> None:
    run = page.run
    st.html(heading(f"Run {run.id}"))
    counts = {
        outcome: sum(result.outcome is outcome for result in page.results) for outcome in Outcome
    }
    outcomes = ", ".join(
        f"{number} {outcome_label(outcome)}"
        for outcome, number in counts.items()
        if number and outcome.is_expected
    )
    bad = tuple(
        Note(text=f"{number} {outcome_label(outcome)}", href=_first_case_url(page, outcome))
        for outcome, number in counts.items()
        if number and not outcome.is_expected
    )
    cases = f"{len(page.results)} of {len(run.plan)}"
    if outcomes or not bad:
        cases = f"{cases}: {outcomes or 'none yet'}"
    pairs = [
        ("state", Cell(text=str(run.state))),
        ("cases", Cell(text=cases, notes=bad)),
        ("revision", Cell(text=run.revision)),
        *([("model code", Cell(text=code))] if (code := revisions_text(run)) else []),
        *run_dimensions(run),
        ("machine", Cell(text=run.machine)),
        ("suite", Cell(text=run.suite)),
        ("toolchain", Cell(text=run.toolchain)),
        ("trigger", Cell(text=run.trigger)),
        *run_times(page),
        *([("machine drift", moved_cell(page.machine))] if page.machine else []),
        ("environment", Cell(text=run.fingerprint[:12], title=f"fingerprint {run.fingerprint}")),
    ]
    st.html(key_values(pairs))
    if moved := machine_notice(page.machine):
        st.html(banner(*moved))
    # A selection by hand has no name that a job could have.
    if run.suite != CUSTOM_SUITE and run.state is not RunState.RUNNING:
        run_request_form("Run it again", suites_of([run]), key="run")


def _show_cases(page: RunPage, *, version: int) -> None:
    st.html(heading("Cases", level=2))
    table = cached_table(case_table, page, key=page.run.id, version=version)
    draw_table(table, key=f"cases-{page.run.id}")


def _case_of(page: RunPage, state: RunPageState) -> Case | None:
    return next((item.case for item in page.results if item.case.key == state.case), None)


def _show_share(page: RunPage, state: RunPageState) -> None:
    case = _case_of(page, state)
    command = repro(case, toolchain=page.run.toolchain) if case else run_command(page.run)
    key = case.key if case else ""
    share = Share(
        name=file_name("run", page.run.id),
        url=run_url(page.run.id, case_key=key, tab=state.tab, samples=state.samples),
        markdown=run_markdown(page, case=key, command=command),
        command=command,
    )
    show_share(share)
