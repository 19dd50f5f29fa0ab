"""The ways to the detail pages, each step a link."""

from __future__ import annotations

from compile_hud.app.ui.html import breadcrumb, tab_links
from compile_hud.app.ui.urls import (
    CASE_TABS,
    AlertsState,
    ModelsState,
    RunsState,
    alerts_url,
    cases_url,
    event_url,
    kernels_url,
    model_url,
    run_url,
    runs_url,
    series_url,
)
from compile_hud.db.records.results import Case

# The pages of a case.
SUMMARY, HISTORY, KERNELS = "Summary", "History", "Kernels"
# Further parts of a case in one run, by the names in their addresses.
PARTS = {name: name.capitalize() for name in CASE_TABS}


def case_path(case: Case, *, machine: str, toolchain: str, last: str) -> str:
    """Return the way to a page about `case`: `Models / vit / reduce-overhead / latency`."""
    where = {"machine": machine, "toolchain": toolchain}
    return breadcrumb(
        [
            ("Models", cases_url(ModelsState(**where))),
            (case.model, model_url(case.model, **where)),
            (case.variant, series_url(case.key, machine=machine, toolchain=toolchain)),
            (last, ""),
        ]
    )


def model_path(model: str, *, machine: str, toolchain: str) -> str:
    """Return the way to the page of a model."""
    models = cases_url(ModelsState(machine=machine, toolchain=toolchain))
    return breadcrumb([("Models", models), (model, "")])


def case_tabs(
    case: Case,
    *,
    run_id: str,
    machine: str,
    toolchain: str,
    current: str,
    profiled_run_id: str = "",
) -> str:
    """Return links to the pages of `case`; `current` is the name of the page with them.

    The summary and its further parts are those of the run `run_id`, the kernels are those of
    `profiled_run_id`, empty for no kernels.
    """
    tabs = {
        SUMMARY: run_url(run_id, case_key=case.key),
        HISTORY: series_url(case.key, machine=machine, toolchain=toolchain),
    }
    if profiled_run_id:
        tabs[KERNELS] = kernels_url(profiled_run_id, case_key=case.key)
    tabs |= {label: run_url(run_id, case_key=case.key, tab=name) for name, label in PARTS.items()}
    return tab_links([(name, "" if name == current else href) for name, href in tabs.items()])


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
