"""The ways to the detail pages, each step a link."""

from __future__ import annotations

from compile_hud.app.ui.html import breadcrumb
from compile_hud.app.ui.urls import (
    AlertsState,
    ModelsState,
    RunsState,
    alerts_url,
    cases_url,
    event_url,
    run_url,
    runs_url,
    series_url,
)
from compile_hud.db.records.results import Case


def case_path(case: Case, *, machine: str, toolchain: str, last: str) -> str:
    """Return the way to a page about `case`: `Models / vit / reduce-overhead / latency`."""
    where = {"machine": machine, "toolchain": toolchain}
    return breadcrumb(
        [
            ("Models", cases_url(ModelsState(**where))),
            (case.model, cases_url(ModelsState(model=case.model, **where))),
            (case.variant, series_url(case.key, machine=machine, toolchain=toolchain)),
            (last, ""),
        ]
    )


def run_path(run_id: str, *, case: Case | None = None) -> str:
    """Return the way to a run, or to one of its cases."""
    steps = [("Runs", runs_url(RunsState()))]
    if case is None:
        return breadcrumb([*steps, (run_id, "")])
    return breadcrumb([*steps, (run_id, run_url(run_id)), (f"{case.model} {case.variant}", "")])


def alert_path(title: str, *, event: tuple[str, str] | None = None) -> str:
    """Return the way to an event or an alert; `event` is the id and the name of its event."""
    steps = [("Alerts", alerts_url(AlertsState()))]
    if event is not None:
        steps.append((event[1], event_url(event[0])))
    return breadcrumb([*steps, (title, "")])
