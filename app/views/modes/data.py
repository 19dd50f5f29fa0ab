"""Comparison of the compile modes over the latest results: calls the analysis. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compile_hud.app.components.result_matrix import DIMENSIONS, common_dimensions
from compile_hud.app.data.mode_summaries import MODE_ORDER, missing_cases, subject_of
from compile_hud.app.ui.format import speedup_label
from compile_hud.app.ui.urls import COLD
from compile_hud.app.views.modes.records import (
    CallsRow,
    ModelCell,
    ModelRow,
    ModeRow,
    ModesPage,
    NumberWithInterval,
)
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.results import Case, Outcome
from compile_hud.db.records.summaries import LatestCell, MeasurementSummary
from compile_hud.runner.analysis.stats.break_even import calls_to_pay_back
from compile_hud.runner.analysis.stats.estimates import Estimate
from compile_hud.runner.analysis.studies.mode_choice import Choice, Cost, choose_mode

MODES = MODE_ORDER[1:]
_EAGER = MODE_ORDER[0]
# The page computes with these metrics.
MODES_METRICS = (
    "speedup",
    "latency_s",
    "latency_cpu_s",
    "compile_cold_s",
    "compile_warm_s",
    "peak_bytes",
    "eager_peak_bytes",
)


def modes_page(cells: Sequence[LatestCell], *, alerts: Sequence[Alert], cache: str) -> ModesPage:
    """Return the comparison of the modes; `cells` and `alerts` are of one machine and one
    toolchain.

    `cache` selects cold or warm compile time. A missing or overdue case counts as not ok, whatever
    its newest result was.
    """
    missing = {key: alert.kind for key, alert in missing_cases(alerts).items()}
    by_subject: dict[str, dict[str, LatestCell]] = {}
    for cell in cells:
        if cell.summary.case.variant in MODE_ORDER:
            cells_by_variant = by_subject.setdefault(subject_of(cell.summary.case), {})
            cells_by_variant[cell.summary.case.variant] = cell
    costs: dict[str, dict[str, Cost]] = {mode: {} for mode in MODES}
    rows = []
    for subject, variants in sorted(by_subject.items()):
        eager = variants.get(_EAGER)
        cells_by_mode = {}
        for mode in MODES:
            if mode not in variants:
                continue
            kind = missing.get(variants[mode].summary.case.key, "")
            cost = None if kind else _cost(variants[mode], eager=eager, cache=cache)
            if cost is not None:
                costs[mode][subject] = cost
            cells_by_mode[mode] = _model_cell(variants[mode], cost=cost, missing=kind)
        if cells_by_mode:
            case = next(iter(variants.values())).summary.case
            rows.append(ModelRow(case=case, cells=cells_by_mode))
    ran_as = _ran_as(rows)
    choice = choose_mode({mode: costs[mode] for mode in MODES if mode not in ran_as})
    speedup = speedup_label(cell.summary.measurements for cell in cells)
    return _page(choice, rows, speedup=speedup, ran_as=ran_as)


def grouped(cells: Sequence[LatestCell]) -> dict[str, list[LatestCell]]:
    """Return the cells by phase and shape, and by what else differs between cases of a model."""
    common = common_dimensions([cell.summary.case for cell in cells])
    varied = [name for name in DIMENSIONS if name not in common]
    groups: dict[str, list[LatestCell]] = {}
    for cell in sorted(cells, key=lambda item: _key(item.summary.case, varied)):
        groups.setdefault(_key(cell.summary.case, varied), []).append(cell)
    return groups


def _key(case: Case, varied: Sequence[str]) -> str:
    return ", ".join(str(getattr(case, name)) for name in varied)


def _ran_as(rows: Sequence[ModelRow]) -> dict[str, str]:
    """Return the modes that another mode ran for, with that mode.

    If that mode was not measured itself, the first mode that fell back to it stands in for it.
    """
    ran: dict[str, set[str]] = {mode: set() for mode in MODES}
    for row in rows:
        for mode, cell in row.cells.items():
            if cell.speedup is not None:
                ran[mode].add(cell.ran_as or mode)
    measured = {mode for mode in MODES if mode in ran[mode]}
    instead_of = {}
    for mode in MODES:
        instead = next(iter(ran[mode])) if len(ran[mode]) == 1 else mode
        if instead == mode:
            continue
        if instead in measured:
            instead_of[mode] = instead
        measured.add(instead)
    return instead_of


def _page(
    choice: Choice, rows: Sequence[ModelRow], *, speedup: str, ran_as: Mapping[str, str]
) -> ModesPage:
    num_ok = {
        mode: sum(mode in row.cells and row.cells[mode].speedup is not None for row in rows)
        for mode in MODES
    }
    return ModesPage(
        modes=tuple(
            ModeRow(
                variant=mode.variant,
                speedup=_spread(mode.speedup),
                compile_s=_spread(mode.compile_s),
                memory=None if mode.memory is None else _spread(mode.memory),
                beaten_by=mode.beaten_by,
                num_common=len(choice.cohort),
                num_subjects=len(rows),
                num_ok=num_ok[mode.variant],
            )
            for mode in choice.modes
        ),
        spans=tuple(
            CallsRow(
                variant=span.variant,
                from_calls=span.from_calls,
                relative_time=span.relative_time,
            )
            for span in choice.spans
        ),
        best="" if choice.best is None else choice.best.variant,
        rows=tuple(rows),
        speedup=speedup,
        ran_as=ran_as,
    )


def _cost(cell: LatestCell, *, eager: LatestCell | None, cache: str) -> Cost | None:
    """Return the cost of a mode for a model, None if a number of it is missing."""
    measured = cell.summary.measurements
    # The interval is that of the speedup's clock: wall time grows with any other load of the
    # machine.
    latency = measured.get("latency_cpu_s") or measured.get("latency_s")
    speedup = measured.get("speedup")
    compiled = measured.get("compile_cold_s" if cache == COLD else "compile_warm_s")
    if latency is None or speedup is None or compiled is None:
        return None
    if min(latency.low, speedup.low, compiled.low) <= 0:
        return None
    return Cost(
        speedup=_estimate(speedup),
        latency=_estimate(latency),
        compile_s=_estimate(compiled),
        memory=_memory(measured, eager=eager),
    )


def _memory(
    measured: Mapping[str, MeasurementSummary], *, eager: LatestCell | None
) -> Estimate | None:
    """Return the peak of a mode over that of eager, in the same process if that is known."""
    eager_peak = measured.get("eager_peak_bytes")
    if eager_peak is None and eager is not None:
        eager_peak = eager.summary.measurements.get("peak_bytes")
    peak = measured.get("peak_bytes")
    if peak is None or eager_peak is None or min(peak.low, eager_peak.low) <= 0:
        return None
    return Estimate(
        peak.median / eager_peak.median, peak.low / eager_peak.high, peak.high / eager_peak.low
    )


def _model_cell(cell: LatestCell, *, cost: Cost | None, missing: str) -> ModelCell:
    summary = cell.summary
    ran_as = "" if summary.effective_mode in ("", summary.case.mode) else summary.effective_mode
    if cost is None:
        why = missing or ("no compile time" if summary.outcome is Outcome.OK else "")
        return ModelCell(case=summary.case, outcome=summary.outcome, missing=why, ran_as=ran_as)
    calls = calls_to_pay_back(cost.compile_s, latency=cost.latency, speedup=cost.speedup)
    return ModelCell(
        case=summary.case,
        outcome=summary.outcome,
        speedup=_spread(cost.speedup),
        break_even=None if calls is None else _spread(calls),
        ran_as=ran_as,
    )


def _estimate(measured: MeasurementSummary) -> Estimate:
    return Estimate(measured.median, measured.low, measured.high)


def _spread(estimate: Estimate) -> NumberWithInterval:
    return NumberWithInterval(value=estimate.value, low=estimate.low, high=estimate.high)
