"""Newest results of modes, whose eager takes 10 ms a call."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from compile_hud.db.records.results import Outcome
from compile_hud.db.records.summaries import LatestCell
from tests.support.builders import make_case
from tests.support.records.page_results import latest

EAGER_S = 0.010


def eager(model: str = "bert", **dimensions: Any) -> LatestCell:
    """Return a result of eager."""
    case = make_case(model, mode="eager", **dimensions)
    return latest(case, values={"latency_s": EAGER_S, "peak_bytes": 2e9})


def measured(
    mode: str, speedup: float, compile_s: float, *, model: str = "bert", **dimensions: Any
) -> LatestCell:
    """Return a result of a mode, with intervals of one per cent to either side."""
    values = {
        "latency_s": EAGER_S / speedup,
        "speedup": speedup,
        "compile_cold_s": compile_s,
        "compile_warm_s": compile_s / 10,
        "peak_bytes": 1e9,
    }
    return latest(make_case(model, mode=mode, **dimensions), values=values)


def without_numbers(
    mode: str, outcome: Outcome, *, model: str = "bert", reason: str = "", **dimensions: Any
) -> LatestCell:
    """Return a result of a mode that has no measurement."""
    case = make_case(model, mode=mode, **dimensions)
    return latest(case, outcome=outcome, reason=reason)


def same_code(mode: str, *, source: str = "default", model: str = "bert") -> LatestCell:
    """Return a result of a mode with the code of `source`."""
    return without_numbers(mode, Outcome.SAME_CODE, model=model, reason=f"same code as {source}")


def fallen_back(speedup: float, compile_s: float) -> LatestCell:
    """Return a result of max-autotune that fell back to default."""
    cell = measured("max-autotune", speedup, compile_s)
    return replace(cell, summary=replace(cell.summary, effective_mode="default"))


# default takes less time up to 45,000 calls, max-autotune from there on.
BOTH = (eager(), measured("default", 2.0, 5), measured("max-autotune", 2.5, 50))
