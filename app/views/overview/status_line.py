"""The status line: open regressions, the last and the next run, and where they are. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from markupsafe import Markup

from compile_hud.app.ui.format import age, moment
from compile_hud.app.ui.html import Cell, Note, key_values
from compile_hud.app.ui.templates.environment import render
from compile_hud.app.ui.urls import AlertsState, CompareState, alerts_url, compare_url, run_url
from compile_hud.app.views.overview.records import KINDS, NextStep, OverviewStatus
from compile_hud.db.records.results import Outcome, RunState
from compile_hud.db.records.summaries import RunSummary
from compile_hud.db.shared.text import counted, short_revision, shortened

_REVISION_LENGTH = 32


def status_html(status: OverviewStatus, *, now: datetime) -> Markup:
    """Return the status line."""
    style, icon = "", "none"
    if status.items:
        style, icon = "bad", "bad"
    elif status.learning:
        icon = "part"
    return render(
        "overview.html",
        "status",
        style=style,
        icon=icon,
        title=status_title(status),
        href=alerts_url(AlertsState()) if status.items else "",
        words=status_note(status),
        facts=key_values(status_facts(status, now=now)),
    )


def status_title(status: OverviewStatus) -> str:
    """Return the number of open regressions; without any, the progress of the baseline."""
    if status.items:
        return counted(len(status.items), "open regression")
    return status.learning or "No open regressions"


def status_note(status: OverviewStatus) -> str:
    """Return the open regressions by kind, and the number that filters hide."""
    counts = Counter(item.kind for item in status.items)
    texts = [f"{counts[kind]} {kind}" for kind in KINDS if counts[kind]]
    if num_new := sum(item.is_new for item in status.items):
        texts.insert(0, f"{num_new} new")
    elif status.items:
        texts.insert(0, "none new")
    if status.num_hidden:
        texts.append(f"{status.num_hidden} more hidden by the filters")
    if status.num_elsewhere:
        texts.append(f"{status.num_elsewhere} on other machines")
    if not status.items and status.learning:
        texts.append("regressions are judged once there is a baseline")
    return ", ".join(texts)


def status_facts(status: OverviewStatus, *, now: datetime) -> list[tuple[str, Cell]]:
    """Return last and next run, torch and machine."""
    run = status.run
    facts = []
    if run is not None:
        facts.append(("last run", _run_cell(run, status=status, now=now)))
    facts.append(("next run", _next_cell(status, now=now)))
    notes = (Note(text=status.device),) if status.device else ()
    facts.append(("machine", Cell(text=status.machine, notes=notes)))
    if run is not None:
        revision = short_revision(run.run.revision)
        torch = Cell(
            text=shortened(revision, limit=_REVISION_LENGTH),
            title=revision,
            notes=(Note(text=f"toolchain {status.toolchain}"),) if status.names_toolchain else (),
        )
        facts.append(("torch", torch))
    return facts


def _run_cell(summary: RunSummary, *, status: OverviewStatus, now: datetime) -> Cell:
    run = summary.run
    notes = [Note(text=_outcomes_text(summary))]
    if status.has_previous_run:
        compared = compare_url(CompareState(candidate=run.id))
        notes.append(Note(text="compare with previous", href=compared))
    return Cell(
        text=age(run.started_at, now=now),
        href=run_url(run.id),
        title=f"{run.id}, suite {run.suite}, {moment(run.started_at)}",
        notes=tuple(notes),
    )


def _outcomes_text(summary: RunSummary) -> str:
    """Return the ok cases of a run, `19 of 20 ok`, and its state if it has not ended."""
    numbers = summary.num_by_outcome
    num_attempted = sum(number for outcome, number in numbers.items() if outcome.is_attempted)
    num_ok = numbers.get(Outcome.OK, 0) + numbers.get(Outcome.SAME_CODE, 0)
    text = f"{num_ok} of {num_attempted} ok"
    is_over = summary.run.state is RunState.FINISHED
    return text if is_over else f"{summary.run.state}, {text}"


def _next_cell(status: OverviewStatus, *, now: datetime) -> Cell:
    upcoming = status.next_run
    if upcoming is None:
        note = "no schedule has a next run" if status.has_scheduler else "no scheduler is running"
        return Cell(text="not scheduled", style="quiet", notes=(Note(text=note),))
    return Cell(
        text=age(upcoming.at, now=now),
        title=moment(upcoming.at),
        notes=(Note(text=f"schedule {upcoming.schedule}"),),
    )


def steps_html(steps: Sequence[NextStep]) -> Markup:
    """Return the next steps side by side, each with its settings and its command."""
    return render("overview.html", "steps", items=steps)
