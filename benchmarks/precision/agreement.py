"""Agreement of estimates of one quantity, tool by tool. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import chi2

OURS = "compile hud"
# PyTorch's own benchmarks/dynamo runner works like this. It is no installable tool, so the goal
# excludes it, and it is the hardest to beat for a speedup.
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
            own = [item for item in estimates if item["model"] == model]
            tools = _tools(own, quantity)
            if tools:
                drift = shared_drift(own, quantity)
                models[model] = {"tools": tools, "drift": drift, **_ours_over_best(tools)}
        ratios = [row["ours_over_best"] for row in models.values() if "ours_over_best" in row]
        together = over_models(models)
        by_quantity[quantity] = {"models": models, **_overall(ratios), "over_models": together}
    return by_quantity


def over_models(models: Mapping[str, Any]) -> dict[str, Any]:
    """Return each tool's geometric mean of the coefficients of variation, and ours over the best.

    The best peer is chosen over all models: for one model, the minimum of several coefficients from
    a few estimates is mostly luck.
    """
    tools = [set(row["tools"]) for row in models.values()]
    means: dict[str, float] = {}
    for tool in sorted(set.intersection(*tools)) if tools else ():
        shares = [row["tools"][tool]["cv"] for row in models.values()]
        if min(shares) > 0:
            means[tool] = round(math.exp(float(np.mean(np.log(shares)))), 5)
    peers = {tool: mean for tool, mean in means.items() if tool not in (OURS, INTERLEAVED)}
    if OURS not in means or not peers:
        return {"cv": means}
    best = min(peers, key=lambda tool: peers[tool])
    ratio = means[OURS] / peers[best]
    return {
        "cv": means,
        "best_peer": best,
        "ours_over_best": round(ratio, 3),
        "is_reached": ratio <= GOAL,
    }


def shared_drift(estimates: Sequence[Estimate], quantity: str) -> float | None:
    """Return the coefficient of variation of the drift that all tools share, None without rounds.

    For each round it takes the median over tools of an estimate over the mean of its tool. A
    machine that is slower for a while is so for every tool, and none can correct that in an
    absolute time.
    """
    rounds = _rounds(estimates, quantity)
    if len(rounds) < 2:
        return None
    relative = rounds / rounds.mean(axis=0)
    return round(float(np.std(np.median(relative, axis=1), ddof=1)), 5)


def _rounds(estimates: Sequence[Estimate], quantity: str) -> np.ndarray:
    """Return the values of whole rounds, a row each and a column a tool."""
    values: dict[str, list[float]] = {}
    for item in estimates:
        values.setdefault(item["tool"], []).append(value_of(item, quantity))
    num_rounds = min((len(own) for own in values.values()), default=0)
    return np.array([own[:num_rounds] for own in values.values()]).T


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
    document = {"best_peer": best, "ours_over_best": round(ratio, 3), "is_reached": ratio <= GOAL}
    if INTERLEAVED in tools and tools[INTERLEAVED]["cv"]:
        ratio = tools[OURS]["cv"] / tools[INTERLEAVED]["cv"]
        document["ours_over_interleaved"] = round(ratio, 3)
    return document


def _overall(ratios: Sequence[float]) -> dict[str, Any]:
    if not ratios or min(ratios) <= 0:
        return {}
    mean = math.exp(float(np.mean(np.log(ratios))))
    return {
        "geometric_mean_of_ours_over_best": round(mean, 3),
        "num_reached": sum(ratio <= GOAL for ratio in ratios),
        "num_models": len(ratios),
    }
