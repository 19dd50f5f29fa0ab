"""The comparison of the modes on one machine, and as a JSON object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compile_hud.db.queries.alerts import load_alerts
from compile_hud.db.queries.latest import load_latest
from compile_hud.db.records.summaries import LatestCell
from compile_hud.db.records.triage import ONGOING
from compile_hud.db.shared.text import none_of, quoted
from compile_hud.db.store import Store
from compile_hud.runner.analysis.modes.comparison import compare_modes
from compile_hud.runner.analysis.modes.records import MODES_METRICS, ModeGroup
from compile_hud.runner.documents.filtered.mode_numbers import comparison_json
from compile_hud.runner.documents.filtered.scope import fits, selected_scope, suggestion
from compile_hud.runner.errors import NoSuchResult


@dataclass(frozen=True, slots=True, kw_only=True)
class ModeFilters:
    """The filters of the results and the price of compiling; None for those that were left out."""

    machine: str | None
    toolchain: str | None
    model: str | None
    phase: str | None
    shape: str | None
    cache: str
    calls: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModesDocument:
    """The modes for each phase and shape; `runs` has the run of each result by case key."""

    machine: str
    toolchain: str
    groups: Sequence[ModeGroup]
    runs: Mapping[str, str]

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as a JSON object."""
        return {
            "machine": self.machine,
            "toolchain": self.toolchain,
            **comparison_json(self.groups, runs=self.runs),
        }


def load_modes(store: Store, filters: ModeFilters) -> ModesDocument:
    """Return the modes of the newest results that `filters` select; raise NoSuchResult for none."""
    machine, toolchain = selected_scope(store, machine=filters.machine, toolchain=filters.toolchain)
    cells = _cells(store, filters, machine=machine, toolchain=toolchain)
    alerts = [
        alert
        for alert in load_alerts(store, states=ONGOING)
        if (alert.machine, alert.toolchain) == (machine, toolchain)
    ]
    groups = compare_modes(cells, alerts=alerts, cache=filters.cache, calls=filters.calls)
    if not groups:
        raise NoSuchResult(
            "none of these results is of a mode of torch.compile; only eager was measured",
            machine=machine,
            toolchain=toolchain,
        )
    return ModesDocument(
        machine=machine,
        toolchain=toolchain,
        groups=groups,
        runs={cell.summary.case.key: cell.run_id for cell in cells},
    )


def _cells(
    store: Store, filters: ModeFilters, *, machine: str, toolchain: str
) -> tuple[LatestCell, ...]:
    latest = load_latest(store, machine=machine, toolchain=toolchain, metrics=MODES_METRICS)
    cells = [cell for cell in latest if not cell.summary.case.is_reference]
    given = {name: getattr(filters, name) for name in ("model", "phase", "shape")}
    patterns = {name: pattern for name, pattern in given.items() if pattern is not None}
    fitting = tuple(cell for cell in cells if fits(cell.summary.case, patterns))
    if not fitting:
        shown = ", ".join(f"{name} {quoted(pattern)}" for name, pattern in patterns.items())
        has = "; ".join(_values_text(name, cells) for name in patterns)
        where = f"of {machine} (toolchain {toolchain})"
        text = none_of(len(cells), "result", where=where)
        hint = suggestion(patterns, cases=[cell.summary.case for cell in cells])
        raise NoSuchResult(
            f"{text[0].lower()}{text[1:]} {shown}; they have {has}{hint}",
            machine=machine,
            toolchain=toolchain,
            **patterns,
        )
    return fitting


def _values_text(name: str, cells: Sequence[LatestCell]) -> str:
    values = sorted({str(getattr(cell.summary.case, name)) for cell in cells})
    return f"{name} {', '.join(values)}"
