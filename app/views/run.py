"""One run: what it was, how its cases ended (worst first), and one case in full."""

from __future__ import annotations

import streamlit as st

from app import data
from app.casetable import case_table
from app.components import notices, stale_note, state_page
from app.detail import (
    environment_table,
    measurement_table,
    other_details,
    reasons,
    result_facts,
    warning_table,
)
from app.format import duration, moment, outcome_label
from app.markup import Cell, facts, folded, heading, notice, table
from app.matrix import common_dimensions
from app.pages import RunPage
from app.state import parse_run, run_url, series_url
from db.errors import NotFoundError
from db.records import Outcome
from db.summaries import ResultSummary

_LOG_HEIGHT = 320
_SHORT_LOG_LINES = 14


def show() -> None:
    """Draw the run page."""
    state, problems = parse_run(st.query_params.to_dict())
    notices(problems)
    try:
        loaded = data.load_run_page(state.run)
    except NotFoundError as error:
        state_page("No such run", text=[f"{error}", "The page Runs lists all there are."])
        return
    stale_note(loaded)
    page = loaded.value
    _show_header(page)
    if state.case:
        _show_case(page, case_key=state.case)
    columns, rows = case_table(page)
    st.html(heading("Cases", level=2))
    st.html(table(columns, rows, label="cases of the run"))
    st.html(
        folded(
            f"Environment: {len(page.run.environment)} facts",
            environment_table(page.run.environment),
        )
    )


def _show_header(page: RunPage) -> None:
    run = page.run
    st.html(heading(f"Run {run.id}"))
    took_s = sum((item.finished_at - item.started_at).total_seconds() for item in page.results)
    counts = {
        outcome: sum(result.outcome is outcome for result in page.results) for outcome in Outcome
    }
    outcomes = ", ".join(
        f"{number} {outcome_label(outcome)}" for outcome, number in counts.items() if number
    )
    pairs = [
        ("state", Cell(text=str(run.state))),
        ("cases", Cell(text=f"{len(page.results)} of {len(run.plan)}: {outcomes or 'none yet'}")),
        ("revision", Cell(text=run.revision)),
        *((name, Cell(text=value)) for name, value in common_dimensions(run.plan).items()),
        ("machine", Cell(text=run.machine)),
        ("suite", Cell(text=run.suite)),
        ("toolchain", Cell(text=run.toolchain)),
        ("trigger", Cell(text=run.trigger)),
        ("started", Cell(text=moment(run.started_at))),
        ("took", Cell(text=duration(took_s) if page.results else "-")),
        ("environment", Cell(text=run.fingerprint[:12], title=f"fingerprint {run.fingerprint}")),
    ]
    st.html(facts(pairs))


def _show_case(page: RunPage, *, case_key: str) -> None:
    result = next((item for item in page.results if item.case.key == case_key), None)
    if result is None:
        planned = any(case.key == case_key for case in page.run.plan)
        why = "has no result yet" if planned else "is not in the plan of this run"
        st.html(notice(f"Case {case_key} {why}."))
        return
    st.html(heading(f"{result.case.model} {result.case.variant}", level=2))
    st.html(result_facts(result))
    if result.reason:
        st.html(notice(f"{outcome_label(result.outcome)}: {result.reason}"))
    if result.measurements:
        st.html(measurement_table(result, run=page.run))
    _show_explanations(result)
    command = data.repro(result.case, toolchain=page.run.toolchain)
    st.code(command, language="bash", wrap_lines=True)
    with st.container(horizontal=True):
        st.link_button(
            "History of this case",
            series_url(result.case.key, machine=page.run.machine, toolchain=page.run.toolchain),
        )
        st.link_button("Close the case", run_url(page.run.id))


def _show_explanations(result: ResultSummary) -> None:
    if result.warnings:
        st.html(warning_table(result))
    for title, found in reasons(result):
        st.html(heading(f"{title}: {len(found)}", level=3))
        for reason in found:
            st.code(reason, language=None, wrap_lines=True)
    if result.log_tail:
        with st.expander("End of the worker's log", expanded=result.outcome is not Outcome.OK):
            is_long = result.log_tail.count("\n") > _SHORT_LOG_LINES
            st.code(result.log_tail, language=None, height=_LOG_HEIGHT if is_long else "content")
    if details := other_details(result):
        with st.expander("Details"):
            st.json(details, expanded=1)
