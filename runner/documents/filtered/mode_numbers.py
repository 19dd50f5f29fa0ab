"""The comparison of the modes as JSON: every number with its interval, the answer as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compile_hud.db.shared.text import counted
from compile_hud.runner.analysis.modes.answers import answer_for, shipped_mode, summary_of
from compile_hud.runner.analysis.modes.choice import MIN_GAIN, ModeCost
from compile_hud.runner.analysis.modes.records import (
    GROUP_DIMENSIONS,
    ModeCell,
    ModeGroup,
    ModelException,
    ModelRow,
)
from compile_hud.runner.analysis.stats.estimates import Estimate


def comparison_json(groups: Sequence[ModeGroup], *, runs: Mapping[str, str]) -> dict[str, Any]:
    """Return the groups as a JSON object; `runs` has the run of each result by case key."""
    return {
        "cache": groups[0].cache,
        "calls": groups[0].recommendation.calls,
        "min_gain": MIN_GAIN,
        "title": summary_of(groups),
        "groups": [_group_json(group, runs=runs) for group in groups],
    }


def _group_json(group: ModeGroup, *, runs: Mapping[str, str]) -> dict[str, Any]:
    recommendation, answer = group.recommendation, answer_for(group)
    choice = group.choice
    best = recommendation.best
    return {
        **{name: getattr(group, name) for name in GROUP_DIMENSIONS},
        "title": answer.title,
        "sentences": list(answer.sentences),
        "recommendation": {
            "decision": str(recommendation.decision),
            "mode": shipped_mode(group) or None,
            "best": None if best is None else best.variant,
            "gain": None if best is None else _gain_json(best.speedup),
            "break_even_calls": None if best is None else _estimate_json(best.break_even),
            "relative_time": recommendation.relative_time,
            "exceptions": [_exception_json(item) for item in recommendation.exceptions],
        },
        "cohort": list(choice.cohort),
        "num_models": len(group.models),
        "modes": [_mode_json(mode, group) for mode in choice.modes],
        "not_compared": {
            **{mode: group.stand_in_text(mode) for mode in group.stand_ins},
            **dict.fromkeys(group.unavailable, "not available on this device"),
            **{
                mode: f"numbers of {counted(number, 'model')}"
                for mode, number in group.sparse.items()
            },
        },
        "spans": [
            {
                "mode": span.variant,
                "from_calls": span.from_calls,
                "relative_time": span.relative_time,
            }
            for span in choice.spans
        ],
        "models": [_model_json(row, runs=runs) for row in group.rows],
    }


def _mode_json(mode: ModeCost, group: ModeGroup) -> dict[str, Any]:
    return {
        "mode": mode.variant,
        "speedup": _estimate_json(mode.speedup),
        "compile_s": _estimate_json(mode.compile_s),
        "memory_ratio": _estimate_json(mode.memory),
        "break_even_calls": _estimate_json(mode.break_even),
        "is_worth": mode.is_worth,
        "pareto_front": str(mode.front),
        "beaten_by": list(mode.beaten_by),
        "num_ok": group.num_ok(mode.variant),
    }


def _exception_json(item: ModelException) -> dict[str, Any]:
    return {
        "model": item.model,
        "reason": item.reason,
        "is_failure": item.is_failure,
        "mode": None if item.mode is None else item.mode.variant,
        "speedup": None if item.mode is None else _estimate_json(item.mode.speedup),
    }


def _model_json(row: ModelRow, *, runs: Mapping[str, str]) -> dict[str, Any]:
    return {
        "model": row.model,
        "best": row.best or None,
        "modes": [
            _cell_json(mode, cell, run_id=runs[cell.case.key]) for mode, cell in row.cells.items()
        ],
    }


def _cell_json(mode: str, cell: ModeCell, *, run_id: str) -> dict[str, Any]:
    cost = cell.cost
    return {
        "mode": mode,
        "case": cell.case.key,
        "run_id": run_id,
        "state": str(cell.state),
        "outcome": str(cell.outcome),
        "reason": cell.reason,
        "runs_as": cell.runs_as or None,
        "other_revisions": list(cell.other_revisions),
        "speedup": None if cost is None else _estimate_json(cost.speedup),
        "latency_s": None if cost is None else _estimate_json(cost.latency),
        "compile_s": None if cost is None else _estimate_json(cost.compile_s),
        "memory_ratio": None if cost is None else _estimate_json(cost.memory),
        "break_even_calls": _estimate_json(cell.break_even),
    }


def _gain_json(speedup: Estimate) -> dict[str, float]:
    return {"value": speedup.value - 1, "low": speedup.low - 1, "high": speedup.high - 1}


def _estimate_json(estimate: Estimate | None) -> dict[str, float] | None:
    if estimate is None:
        return None
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}
