"""Compare the modes of torch.compile over the newest results, group by group.

Method: results of one phase, shape, dtype and device are a group, and only these are averaged
(`choice`). A mode with the same code as another one has that one's numbers. It is not
recommended if that holds for most models. The rule of all surfaces (`model_means`) selects the
compared modes and the models that count. If the recommended mode fails for a model, or
was not measured for it, the model gets the best one of its other modes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from compile_hud.db.records.alerts import MISSING_WORDS, Alert
from compile_hud.db.records.metrics import COLD, WARM, speedup_latencies, speedup_name
from compile_hud.db.records.results import Outcome, Phase, same_code_as
from compile_hud.db.records.summaries import LatestCell, MeasurementSummary
from compile_hud.db.records.triage import missing_cases
from compile_hud.runner.analysis.modes.choice import (
    EAGER,
    Choice,
    Cost,
    ModeCost,
    best_of_model,
    choose_mode,
)
from compile_hud.runner.analysis.modes.records import (
    GROUP_DIMENSIONS,
    MODES,
    CellState,
    ModeCell,
    ModeDecision,
    ModeGroup,
    ModelException,
    ModelRow,
    Recommendation,
)
from compile_hud.runner.analysis.stats.break_even import calls_to_pay_back
from compile_hud.runner.analysis.stats.estimates import Estimate
from compile_hud.runner.analysis.stats.model_means import ModelShape, ModeNumber, mode_means

_COMPILE_METRICS = {COLD: "compile_cold_s", WARM: "compile_warm_s"}

# The newest results of a model by variant.
_Variants = Mapping[str, LatestCell]


def compare_modes(
    cells: Iterable[LatestCell],
    *,
    alerts: Iterable[Alert],
    cache: str = COLD,
    calls: int | None = None,
) -> tuple[ModeGroup, ...]:
    """Return the comparison of the modes for each group that has a mode, in order of the groups.

    `cells` and `alerts` are of one machine and one toolchain; a missing or overdue case counts as
    failing. `cache` selects cold or warm compile time. `calls` is the expected number of calls per
    process, None for a long-lived process.
    """
    missing = {
        key: MISSING_WORDS.get(alert.kind, alert.kind)
        for key, alert in missing_cases(alerts).items()
    }
    parts: dict[tuple[str, ...], dict[str, dict[str, LatestCell]]] = {}
    for cell in cells:
        case = cell.summary.case
        if case.variant in (EAGER, *MODES) and not case.is_reference:
            key = tuple(str(getattr(case, name)) for name in GROUP_DIMENSIONS)
            parts.setdefault(key, {}).setdefault(case.model, {})[case.variant] = cell
    groups = {
        key: models
        for key, models in sorted(parts.items(), key=lambda item: _order(item[0]))
        if any(set(variants) - {EAGER} for variants in models.values())
    }
    varied = [index for index, names in enumerate(zip(*groups, strict=True)) if len(set(names)) > 1]
    return tuple(
        _group(
            key,
            models,
            label=", ".join(key[index] for index in varied),
            missing=missing,
            cache=cache,
            calls=calls,
        )
        for key, models in groups.items()
    )


def _order(key: tuple[str, ...]) -> tuple[object, ...]:
    return (list(Phase).index(Phase(key[0])), *key)


def _group(
    key: tuple[str, ...],
    models: Mapping[str, _Variants],
    *,
    label: str,
    missing: Mapping[str, str],
    cache: str,
    calls: int | None,
) -> ModeGroup:
    cells = {
        model: _mode_cells(variants, missing=missing, cache=cache)
        for model, variants in sorted(models.items())
        if set(variants) - {EAGER}
    }
    costs = {
        mode: {model: cost for model, row in cells.items() if (cost := _cost_in(row, mode))}
        for mode in MODES
    }
    means = mode_means(
        {
            mode: {
                ModelShape(model): ModeNumber(cost.speedup, cells[model][mode].runs_as)
                for model, cost in column.items()
            }
            for mode, column in costs.items()
        }
    )
    costs = {mode: column for mode, column in costs.items() if mode not in means.stand_ins}
    choice = choose_mode(
        {mode: costs[mode] for mode in costs if mode not in means.sparse}, twins=_twins(cells)
    )
    rows = tuple(
        ModelRow(model=model, cells=row, best=_variant(_own_best(costs, model, calls=calls)))
        for model, row in cells.items()
    )
    measured = [cell.summary.measurements for row in models.values() for cell in row.values()]
    return ModeGroup(
        **dict(zip(GROUP_DIMENSIONS, key, strict=True)),
        label=label,
        cache=cache,
        speedup=speedup_name(item["speedup"].method for item in measured if "speedup" in item),
        rows=rows,
        choice=choice,
        stand_ins=means.stand_ins,
        unavailable=_unavailable(rows),
        sparse=means.sparse,
        recommendation=_recommendation(choice, rows, costs=costs, calls=calls),
    )


def _mode_cells(
    variants: _Variants, *, missing: Mapping[str, str], cache: str
) -> dict[str, ModeCell]:
    """Return the modes of one model; one with the same code as another has its costs."""
    own = {
        mode: _cost(variants[mode].summary.measurements, eager=variants.get(EAGER), cache=cache)
        for mode in MODES
        if mode in variants and variants[mode].summary.case.key not in missing
    }
    cells = {}
    newest = max(variants.values(), key=lambda cell: cell.run_started_at)
    for mode in MODES:
        if mode not in variants:
            continue
        summary = variants[mode].summary
        source = same_code_as(summary.outcome, summary.reason)
        gone = missing.get(summary.case.key, "")
        cost = None if gone else own.get(source or mode)
        is_other = summary.effective_mode not in ("", summary.case.mode)
        cells[mode] = ModeCell(
            case=summary.case,
            outcome=summary.outcome,
            state=CellState.OK if cost else _state(summary.outcome, is_missing=bool(gone)),
            reason="" if cost else gone or _reason(variants[mode], source=source, cache=cache),
            cost=cost,
            break_even=None
            if cost is None
            else calls_to_pay_back(cost.compile_s, latency=cost.latency, speedup=cost.speedup),
            runs_as=source or (summary.effective_mode if is_other else ""),
            other_revisions=tuple(
                name for name, _, _ in variants[mode].differing_revisions(newest)
            ),
        )
    return cells


def _state(outcome: Outcome, *, is_missing: bool) -> CellState:
    """Return the state of a mode without numbers."""
    if outcome is Outcome.UNAVAILABLE:
        return CellState.UNAVAILABLE
    if is_missing:
        return CellState.FAILING
    if not outcome.is_attempted:
        return CellState.NOT_MEASURED
    return CellState.NO_NUMBERS if outcome.is_success else CellState.FAILING


def _reason(cell: LatestCell, *, source: str, cache: str) -> str:
    if source:
        return f"same code as {source}"
    if cell.summary.outcome is not Outcome.OK:
        return str(cell.summary.outcome).replace("_", " ")
    has_compile_time = _COMPILE_METRICS[cache] in cell.summary.measurements
    return "no speedup" if has_compile_time else "no compile time"


def _cost(
    measured: Mapping[str, MeasurementSummary], *, eager: LatestCell | None, cache: str
) -> Cost | None:
    """Return the cost of a mode for a model, None if a number of it is missing."""
    speedup = measured.get("speedup")
    compiled = measured.get(_COMPILE_METRICS[cache])
    if speedup is None or compiled is None:
        return None
    # The latency is on the clock of the speedup: wall time grows with any other load.
    _, clock = speedup_latencies([speedup.method])
    latency = measured.get(clock) or measured.get("latency_s")
    if latency is None:
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


def _estimate(measured: MeasurementSummary) -> Estimate:
    return Estimate(measured.median, measured.low, measured.high)


def _cost_in(row: Mapping[str, ModeCell], mode: str) -> Cost | None:
    return row[mode].cost if mode in row else None


def _twins(cells: Mapping[str, Mapping[str, ModeCell]]) -> dict[str, str]:
    """Return the modes with the code of another one for more than half of their models."""
    ran = {
        mode: [row[mode].runs_as for row in cells.values() if _cost_in(row, mode) is not None]
        for mode in MODES
    }
    return {
        mode: other
        for mode, names in ran.items()
        for other, number in Counter(names).items()
        if other and 2 * number > len(names)
    }


def _unavailable(rows: Sequence[ModelRow]) -> tuple[str, ...]:
    """Return the modes that no model has and some model cannot have on this device."""
    states = {mode: {row.cells[mode].state for row in rows if mode in row.cells} for mode in MODES}
    return tuple(
        mode
        for mode, present in states.items()
        if CellState.UNAVAILABLE in present and CellState.OK not in present
    )


def _own_best(
    costs: Mapping[str, Mapping[str, Cost]], model: str, *, calls: int | None
) -> ModeCost | None:
    own = {mode: column[model] for mode, column in costs.items() if model in column}
    return best_of_model(own, calls=calls)


def _variant(mode: ModeCost | None) -> str:
    return "" if mode is None else mode.variant


def _recommendation(
    choice: Choice,
    rows: Sequence[ModelRow],
    *,
    costs: Mapping[str, Mapping[str, Cost]],
    calls: int | None,
) -> Recommendation:
    if not choice.modes:
        return Recommendation(decision=ModeDecision.NO_COHORT, calls=calls)
    mode = choice.best_for(calls)
    if mode is None:
        worth = [item for item in choice.modes if item.variant in choice.candidates]
        if not worth:
            return Recommendation(decision=ModeDecision.NO_GAIN, best=choice.modes[0], calls=calls)
        first = min(worth, key=lambda item: item.break_even.value if item.break_even else 0.0)
        return Recommendation(decision=ModeDecision.TOO_FEW_CALLS, best=first, calls=calls)
    return Recommendation(
        decision=ModeDecision.SHIP,
        mode=mode,
        best=mode,
        runs_as=_always_runs_as(mode.variant, rows),
        calls=calls,
        relative_time=None if calls is None else choice.relative_time(mode.variant, calls=calls),
        exceptions=tuple(_exceptions(mode.variant, rows, costs=costs, calls=calls)),
    )


def _exceptions(
    variant: str,
    rows: Iterable[ModelRow],
    *,
    costs: Mapping[str, Mapping[str, Cost]],
    calls: int | None,
) -> Iterator[ModelException]:
    """Yield the models without a success in a mode that the device has."""
    for row in rows:
        cell = row.cells.get(variant)
        state = CellState.NOT_MEASURED if cell is None else cell.state
        if state in (CellState.FAILING, CellState.NOT_MEASURED):
            yield ModelException(
                model=row.model,
                reason="" if cell is None else cell.reason,
                is_failure=state is CellState.FAILING,
                mode=_own_best(costs, row.model, calls=calls),
            )


def _always_runs_as(variant: str, rows: Iterable[ModelRow]) -> str:
    """Return the single mode that ran for `variant` in every ok case, "" without such."""
    cells = [row.cells[variant] for row in rows if variant in row.cells]
    ran = {cell.runs_as for cell in cells if cell.cost is not None}
    return ran.pop() if len(ran) == 1 else ""
