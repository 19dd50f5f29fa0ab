"""Which of the latest results a page shows: of one machine and toolchain, and filtered. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from compile_hud.app.components.alert_rows import lets_through
from compile_hud.app.data.page_records import Overview
from compile_hud.app.ui.urls import CaseState, query_params, without
from compile_hud.db.records.results import Alert
from compile_hud.db.records.summaries import LatestCell, Place

FILTERS = ("model", "phase", "shape", "dtype", "device")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """The latest results of one machine in one toolchain, and those that the filters let through.

    `alerts` are all of the machine, `has_several_toolchains` says whether results or alerts of more
    than one toolchain are there.
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
        """Return the alerts of the toolchain that is shown."""
        return tuple(alert for alert in self.alerts if alert.toolchain == self.toolchain)


def shown_place(overview: Overview, state: CaseState) -> tuple[str, str]:
    """Return the machine and the toolchain that `state` shows of `overview`, which has a run.

    Without a machine in the URL it is that of the latest run, without a toolchain that of the
    latest result there, "" without one.
    """
    machine = state.machine or overview.runs[0].run.machine
    there = [place for place in overview.places if place.machine == machine]
    newest = max(there, key=lambda place: place.newest_at, default=None)
    return machine, state.toolchain or (newest.toolchain if newest else "")


def placed(overview: Overview, state: CaseState, *, candidates: tuple[LatestCell, ...]) -> Placed:
    """Return what `state` shows of `candidates`, the latest results at its place."""
    machine, toolchain = shown_place(overview, state)
    return Placed(
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
    """Return which filters leave nothing of `candidates`, and what they could be."""
    wanted = query_params(state)
    if not candidates:
        return _nothing_there(wanted, overview.places)
    names = [name for name in FILTERS if name in wanted]
    said = _said(wanted, names)
    one_less = [
        f"{name} ({num_left})"
        for name in names
        if (num_left := _num_fitting(without(state, name), candidates))
    ]
    advice = f"Setting one of these back to all shows results: {', '.join(one_less)}."
    return [
        f"None of the {len(candidates)} results on this machine fits {said}.",
        advice if one_less else "More than one of these filters must be set back to all.",
    ]


def _nothing_there(wanted: Mapping[str, str], places: Sequence[Place]) -> list[str]:
    names = [name for name in ("machine", "toolchain") if name in wanted]
    shown = ", ".join(f"{place.machine} (toolchain {place.toolchain})" for place in places)
    # With neither in the URL, the newest run is the first of its machine and has no result yet.
    said = _said(wanted, names) or "the machine of the newest run"
    return [f"No result fits {said}.", f"Machines with results: {shown}."]


def _said(wanted: Mapping[str, str], names: Sequence[str]) -> str:
    return ", ".join(f"{name} = {wanted[name]}" for name in names)


def _toolchains_in(overview: Overview) -> set[str]:
    """Return the toolchains that have a result or an alert, of all machines."""
    measured = {place.toolchain for place in overview.places}
    return measured | {alert.toolchain for alert in overview.alerts}


def _num_fitting(state: CaseState, cells: Sequence[LatestCell]) -> int:
    return sum(lets_through(state, cell.summary.case) for cell in cells)
