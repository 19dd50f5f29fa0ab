"""How well estimates of one quantity agree, tool by tool. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import chi2

OURS = "compile hud"
# Not a tool that one installs, but what PyTorch's own benchmarks/dynamo runner does: beside the
# goal, and the hardest to beat for a speedup.
INTERLEAVED = "interleaved loop"
QUANTITIES = ("eager_s", "compiled_s", "speedup")
GOAL = 0.5

Estimate = Mapping[str, Any]


def variation(values: Sequence[float]) -> dict[str, Any]:
    """Return the coefficient of variation with its 95 % interval; raise ValueError below two."""
    if len(values) < 2:
        raise ValueError("a coefficient of variation needs at least two values")
    share = float(np.std(values, ddof=1) / np.mean(values))
    degrees = len(values) - 1
    low, high = (math.sqrt(degrees / float(chi2.ppf(p, degrees))) for p in (0.975, 0.025))
    return {
        "cv": round(share, 5),
        "cv_interval": [round(share * low, 5), round(share * high, 5)],
        "median": float(np.median(values)),
        "num_estimates": len(values),
    }


def summarise(estimates: Sequence[Estimate]) -> dict[str, Any]:
    """Return the coefficients of variation by quantity, model and tool, and ours over the best."""
    by_quantity = {}
    for quantity in QUANTITIES:
        models = {}
        for model in dict.fromkeys(item["model"] for item in estimates):
            tools = _tools([item for item in estimates if item["model"] == model], quantity)
            if tools:
                models[model] = {"tools": tools, **_ours_over_best(tools)}
        ratios = [row["ours_over_best"] for row in models.values() if "ours_over_best" in row]
        by_quantity[quantity] = {"models": models, **_overall(ratios)}
    return by_quantity


def _tools(estimates: Sequence[Estimate], quantity: str) -> dict[str, Any]:
    values: dict[str, list[float]] = {}
    for item in estimates:
        values.setdefault(item["tool"], []).append(value_of(item, quantity))
    return {tool: variation(own) for tool, own in values.items() if len(own) > 1}


def value_of(estimate: Estimate, quantity: str) -> float:
    """Return a quantity of an estimate; a peer's speedup is the ratio of its two latencies."""
    if quantity == "speedup" and "speedup" not in estimate:
        return float(estimate["eager_s"] / estimate["compiled_s"])
    return float(estimate[quantity])


def _ours_over_best(tools: Mapping[str, Any]) -> dict[str, Any]:
    peers = {tool: row["cv"] for tool, row in tools.items() if tool not in (OURS, INTERLEAVED)}
    if OURS not in tools or not peers:
        return {}
    best = min(peers, key=lambda tool: peers[tool])
    if not peers[best]:
        return {}
    ratio = tools[OURS]["cv"] / peers[best]
    found = {"best_peer": best, "ours_over_best": round(ratio, 3), "is_reached": ratio <= GOAL}
    if INTERLEAVED in tools and tools[INTERLEAVED]["cv"]:
        ratio = tools[OURS]["cv"] / tools[INTERLEAVED]["cv"]
        found["ours_over_interleaved"] = round(ratio, 3)
    return found


def _overall(ratios: Sequence[float]) -> dict[str, Any]:
    if not ratios or min(ratios) <= 0:
        return {}
    mean = math.exp(float(np.mean(np.log(ratios))))
    return {
        "geometric_mean_of_ours_over_best": round(mean, 3),
        "num_reached": sum(ratio <= GOAL for ratio in ratios),
        "num_models": len(ratios),
    }
