"""The filters of the pages that show the latest results, and the state without a match."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import streamlit as st

from compile_hud.app import clock
from compile_hud.app.components.alert_rows import lets_through
from compile_hud.app.components.latest_results import silence_notice
from compile_hud.app.components.page_frame import (
    banners,
    choose,
    empty_store,
    link_button,
    no_result,
    or_all,
    stale_note,
    state_page,
)
from compile_hud.app.data import store
from compile_hud.app.data.latest_results import load_cells, load_overview, load_silent_schedulers
from compile_hud.app.data.page_records import Overview
from compile_hud.app.ui.html import banner
from compile_hud.app.ui.urls import CaseState, cases_url, query_params, without
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.summaries import LatestCell, Scope
from compile_hud.db.shared.text import none_of, shortened

FILTERS = ("model", "phase", "shape", "dtype", "device")
_WIDTHS = {"machine": 210, "model": 190}
_DEFAULT_WIDTH = 130
# An address may have a name of any length.
_NAME_LENGTH = 60
# A keyboard shortcut focuses this filter.
_SEARCHED = "model"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilteredResults:
    """The latest results of one machine in one toolchain, and those that pass the filters.

    `alerts` are all of the machine. `has_several_toolchains` says whether there are results or
    alerts of more than one toolchain.
    """

    machine: str
    toolchain: str
    candidates: tuple[LatestCell, ...]
    cells: tuple[LatestCell, ...]
    alerts: tuple[Alert, ...]
    has_several_toolchains: bool

    @property
    def newest_runs(self) -> set[str]:
        """Return the id of the newest run that has a result."""
        newest = max(self.candidates, key=lambda cell: cell.run_started_at, default=None)
        return set() if newest is None else {newest.run_id}

    @property
    def alerts_in_toolchain(self) -> tuple[Alert, ...]:
        """Return the alerts of the selected toolchain."""
        return tuple(alert for alert in self.alerts if alert.toolchain == self.toolchain)


def selected_scope(overview: Overview, state: CaseState) -> tuple[str, str]:
    """Return the machine and the toolchain that `state` selects in `overview`, which has a run.

    The default machine is that of the latest run. The default toolchain is that of the latest
    result on the machine, "" without one.
    """
    machine = state.machine or overview.runs[0].run.machine
    there = [scope for scope in overview.places if scope.machine == machine]
    newest = max(there, key=lambda scope: scope.newest_at, default=None)
    return machine, state.toolchain or (newest.toolchain if newest else "")


def is_known(machine: str, overview: Overview) -> bool:
    """Return whether a machine has a result, or a run that may get one."""
    return machine in {
        *(scope.machine for scope in overview.places),
        *(summary.run.machine for summary in overview.runs),
    }


def filter_results(
    overview: Overview, state: CaseState, *, candidates: tuple[LatestCell, ...]
) -> FilteredResults:
    """Return those of `candidates`, the latest results of the scope, that pass the filters of
    `state`.
    """
    machine, toolchain = selected_scope(overview, state)
    return FilteredResults(
        machine=machine,
        toolchain=toolchain,
        candidates=candidates,
        cells=tuple(cell for cell in candidates if lets_through(state, cell.summary.case)),
        alerts=tuple(alert for alert in overview.alerts if alert.machine == machine),
        has_several_toolchains=len((_toolchains_in(overview) | {toolchain}) - {""}) > 1,
    )


def nothing_fits(
    state: CaseState, overview: Overview, candidates: Sequence[LatestCell]
) -> list[str]:
    """Return sentences on the filters that exclude all of `candidates`, and on a remedy."""
    filters = query_params(state)
    if not candidates:
        return _nothing_there(filters, overview.places)
    names = [name for name in FILTERS if name in filters]
    filters_text = _filters_text(filters, names)
    one_less = [
        f"{name} ({num_left})"
        for name in names
        if (num_left := _num_fitting(without(state, name), candidates))
    ]
    advice = f"Setting one of these back to all shows results: {', '.join(one_less)}."
    return [
        f"{none_of(len(candidates), 'result', where='on this machine')} {filters_text}.",
        advice if one_less else "More than one of these filters must be set back to all.",
    ]


def _nothing_there(filters: Mapping[str, str], places: Sequence[Scope]) -> list[str]:
    names = [name for name in ("machine", "toolchain") if name in filters]
    shown = ", ".join(f"{scope.machine} (toolchain {scope.toolchain})" for scope in places)
    # With neither in the URL, the newest run is the first of its machine and has no result yet.
    filters_text = _filters_text(filters, names) or "the machine of the newest run"
    return [f"No result fits {filters_text}.", f"Machines with results: {shown}."]


def _filters_text(filters: Mapping[str, str], names: Sequence[str]) -> str:
    return ", ".join(f"{name} = {filters[name]}" for name in names)


def _toolchains_in(overview: Overview) -> set[str]:
    """Return the toolchains that have a result or an alert, of all machines."""
    measured = {scope.toolchain for scope in overview.places}
    return measured | {alert.toolchain for alert in overview.alerts}


def _num_fitting(state: CaseState, cells: Sequence[LatestCell]) -> int:
    return sum(lets_through(state, cell.summary.case) for cell in cells)


def load_filled(problems: Sequence[str]) -> Overview | None:
    """Draw the problems of the URL, and return the overview.

    Without a run or a result, draw the reason and return None.
    """
    loaded = load_overview()
    banners(problems)
    stale_note(loaded)
    overview = loaded.value
    if not overview.runs:
        empty_store(store.store_name())
        return None
    if not overview.places:
        no_result(overview.runs)
        return None
    return overview


def load_filtered_results(
    overview: Overview, state: CaseState, *, metrics: Sequence[str]
) -> FilteredResults:
    """Return the latest results that `state` selects, with the measurements of `metrics`."""
    machine, toolchain = selected_scope(overview, state)
    cells = load_cells(machine=machine, toolchain=toolchain, metrics=tuple(sorted(metrics))).value
    return filter_results(overview, state, candidates=cells)


def draw_filters(state: CaseState, overview: Overview, *, results: FilteredResults) -> None:
    """Draw the filters for machine, toolchain and cases; the caller provides the container."""
    machines = list(dict.fromkeys(item.machine for item in overview.places))
    choose(
        "Machine", name="machine", options=machines, value=results.machine, width=_width("machine")
    )
    if results.has_several_toolchains:
        on_machine = [item for item in overview.places if item.machine == results.machine]
        choose(
            "Toolchain",
            name="toolchain",
            options=[item.toolchain for item in on_machine],
            value=results.toolchain,
            width=_width("toolchain"),
        )
    for name in FILTERS:
        values = sorted({str(getattr(cell.summary.case, name)) for cell in results.candidates})
        if name != _SEARCHED and len(values) < 2 and not getattr(state, name):
            # A filter with a single value only takes space from the results.
            continue
        choose(
            name.capitalize(),
            name=name,
            options=["", *values],
            value=getattr(state, name),
            format_func=or_all,
            width=_width(name),
        )


def draw_silence(results: FilteredResults) -> None:
    """Draw a banner if the scheduler of the machine stopped sending heartbeats."""
    if late := load_silent_schedulers().get(results.machine):
        st.html(banner(*silence_notice(late, now=clock.now())))


def show_nothing_fits(
    state: CaseState, overview: Overview, *, results: FilteredResults, everything: CaseState
) -> None:
    """Draw the filters that exclude every result, and a link to the state `everything`."""
    if is_known(results.machine, overview):
        title, links = "Nothing matches the filters", []
        text = nothing_fits(state, overview, results.candidates)
    else:
        title = "No such machine"
        name = shortened(results.machine, limit=_NAME_LENGTH)
        text = [f"No result is of the machine {name!r}. Machines with results:"]
        machines = sorted({scope.machine for scope in overview.places})
        links = [
            (item, cases_url(dataclasses.replace(state, machine=item, toolchain="")))
            for item in machines
        ]
    state_page(title, text=text, links=links)
    link_button("Show everything", cases_url(everything))


def _width(name: str) -> int:
    return _WIDTHS.get(name, _DEFAULT_WIDTH)
