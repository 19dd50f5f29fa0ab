"""All runs, newest first."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import streamlit as st

from compile_hud.app import clock
from compile_hud.app.components.machine_status import moved_cell
from compile_hud.app.components.page_frame import banners, choose, stale_note, state_page
from compile_hud.app.components.run_request_form import run_request_form, suites_of
from compile_hud.app.data.latest_results import load_machine_moves
from compile_hud.app.data.page_records import MachineMove
from compile_hud.app.data.runs import load_newest_runs
from compile_hud.app.ui.format import age, duration, moment, outcome_label
from compile_hud.app.ui.html import Cell, HtmlColumn, Note, heading, table
from compile_hud.app.ui.pagination import FirstRows, first_note, show_rest
from compile_hud.app.ui.progress import progress_of
from compile_hud.app.ui.urls import parse_runs, run_url
from compile_hud.app.views.runs.tables import CASES_TOOK
from compile_hud.db.records.imported import is_imported
from compile_hud.db.records.results import CUSTOM_SUITE, Outcome, Run, RunState
from compile_hud.db.records.summaries import RunSummary
from compile_hud.db.shared.model_code import revisions_text
from compile_hud.db.shared.text import short_revision

_COLUMNS = (
    HtmlColumn(label="started"),
    HtmlColumn(label="run"),
    HtmlColumn(label="state"),
    HtmlColumn(label="ok", is_number=True),
    HtmlColumn(label="not ok", is_number=True),
    HtmlColumn(label="planned", is_number=True, is_spare=True),
    HtmlColumn(label="cases took", title=CASES_TOOK, is_number=True),
    HtmlColumn(label="suite", is_spare=True),
    HtmlColumn(label="trigger", is_spare=True),
    HtmlColumn(label="machine", is_spare=True),
    HtmlColumn(label="machine moved", title="by the reference cases, against the runs before"),
    HtmlColumn(label="toolchain", is_spare=True),
    HtmlColumn(label="revision"),
)


def show() -> None:
    """Draw the list of runs."""
    state, problems = parse_runs(st.query_params.to_dict())
    loaded = load_newest_runs()
    banners(problems)
    stale_note(loaded)
    st.html(heading("Runs"))
    if not loaded.value:
        state_page("No runs yet", text=["Runs will appear here."], commands=["hud run"])
        return
    machines = list(dict.fromkeys(summary.run.machine for summary in loaded.value))
    choose(
        "Machine",
        name="machine",
        options=["", *machines],
        value=state.machine,
        format_func=lambda value: value or "all",
        width=260,
    )
    named = [item.run for item in loaded.value if item.run.suite != CUSTOM_SUITE]
    run_request_form("Run now", suites_of(named), key="now")
    shown = [item for item in loaded.value if state.machine in ("", item.run.machine)]
    if not shown:
        text = f"No run was on machine {state.machine}. Machines: {', '.join(machines)}."
        state_page("Nothing matches the filter", text=[text])
        return
    moves = load_machine_moves().value
    first = FirstRows(num_rows=len(shown), requested=state.rows)
    rows = [
        _row(summary, moves.get(summary.run.id, ()), now=clock.now())
        for summary in shown[: first.num_shown]
    ]
    note = first_note(first, order="the newest come first")
    st.html(note + table(_COLUMNS, rows, label="runs"))
    show_rest(first)


def _row(summary: RunSummary, moves: Sequence[MachineMove], *, now: datetime) -> tuple[Cell, ...]:
    run = summary.run
    progress = progress_of(summary, now=now)
    numbers = summary.num_by_outcome
    not_ok = {outcome: number for outcome, number in numbers.items() if not outcome.is_expected}
    # A mode that shares its code or that the device lacks has no measurement, and nothing is wrong.
    others = [
        f"{number} {outcome_label(outcome)}"
        for outcome, number in numbers.items()
        if outcome.is_expected and outcome is not Outcome.OK
    ]
    is_over = run.state is not RunState.RUNNING
    is_timed = progress.num_done and not is_imported(run.toolchain)
    return (
        Cell(text=age(run.started_at, now=now), title=moment(run.started_at)),
        Cell(
            text=run.id,
            href=run_url(run.id),
            title=f"suite {run.suite}, {run.trigger}, {run.machine}, toolchain {run.toolchain}",
        ),
        Cell(text="silent" if progress.is_silent and not is_over else str(run.state)),
        Cell(
            text=str(numbers.get(Outcome.OK, 0)),
            notes=tuple(Note(text=text) for text in others),
        ),
        Cell(
            text=str(sum(not_ok.values())) if not_ok else "-",
            style="strong" if not_ok else "quiet",
            title=", ".join(f"{number} {outcome_label(name)}" for name, number in not_ok.items()),
        ),
        Cell(text=str(len(run.plan))),
        Cell(text=duration(progress.elapsed_s) if is_timed else "-"),
        Cell(text=run.suite),
        Cell(text=run.trigger),
        Cell(text=run.machine),
        moved_cell(moves),
        Cell(text=run.toolchain),
        _revision_cell(run),
    )


def _revision_cell(run: Run) -> Cell:
    code = revisions_text(run)
    notes = (Note(text=f"model code {code}"),) if code else ()
    return Cell(text=short_revision(run.revision), notes=notes)
