"""Error rates of trials, and their upper bounds. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

# Half-width of a 95 % interval, in standard deviations.
NORMAL_95 = 1.96

Trial = Mapping[str, Any]


def wilson_interval(num_hits: int, num_trials: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share; raise ValueError without trials."""
    if num_trials < 1:
        raise ValueError("a share needs at least one trial")
    share, weight = num_hits / num_trials, NORMAL_95**2 / num_trials
    middle = (share + weight / 2) / (1 + weight)
    margin = math.sqrt(weight * share * (1 - share) + weight**2 / 4) / (1 + weight)
    return max(0.0, middle - margin), min(1.0, middle + margin)


def summarise(trials: Sequence[Trial]) -> dict[str, Any]:
    """Return, for equal code and for each planted slowdown, the number of each verdict."""
    factors = sorted({trial["planted"] for trial in trials})
    return {_name(factor): _rates(trials, factor) for factor in factors}


def _name(factor: float) -> str:
    return "same_code" if factor == 1 else f"planted_{100 * (factor - 1):.0f}_percent"


def _rates(trials: Sequence[Trial], factor: float) -> dict[str, Any]:
    chosen = [trial for trial in trials if trial["planted"] == factor]
    is_hit = _has_verdict if factor == 1 else _is_detected
    hits = [trial for trial in chosen if is_hit(trial)]
    low, high = wilson_interval(len(hits), len(chosen))
    seconds = sorted(trial["seconds"] for trial in chosen)
    return {
        "num_trials": len(chosen),
        "num_false_verdicts" if factor == 1 else "num_found": len(hits),
        "share": round(len(hits) / len(chosen), 4),
        "share_interval": [round(low, 4), round(high, 4)],
        "median_seconds": seconds[len(seconds) // 2],
        "median_launches": sorted(trial["num_launches"] for trial in chosen)[len(chosen) // 2],
        "undecided": sum(trial["verdict"] == "inconclusive" for trial in chosen),
    }


def _has_verdict(trial: Trial) -> bool:
    """Return whether some row claims a change, whichever."""
    return bool(trial["changes"])


def _is_detected(trial: Trial) -> bool:
    """Return whether the gate would fail on the time, which was slowed down."""
    return bool(trial["verdict"] == "regression")
