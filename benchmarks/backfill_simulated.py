"""Count the steps that a backfill puts at the right revision, and the launches it needs.

Histories of 32 revisions have 0 to 3 steps of 6 to 25 % up or down, at any revision. A launch
scatters by 1.5 %. The launches are drawn; the choice of revisions is that of `hud backfill`. The
comparison measures every revision with the same precision.

    python -m benchmarks.backfill_simulated

prints the figures, and writes them to benchmarks/results/backfill-simulated.json.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

from compile_hud.runner.analysis.comparison.backfill import (
    ANCHOR,
    CaseHistory,
    RevisionLevel,
    is_precise,
    level_of,
    next_revision,
    revision_for_detection,
    steps_of,
)
from compile_hud.runner.analysis.comparison.paired import looks

RESULTS = Path(__file__).parent / "results" / "backfill-simulated.json"
NUM_HISTORIES = 100
NUM_REVISIONS = 32
LAUNCH_SD = 0.015
STEP_SIZES = (0.06, 0.25)
FLOOR = 0.05
LEAST = 5
MIN_PAIRS, MAX_PAIRS = 4, 40


@dataclass(frozen=True, slots=True)
class Simulated:
    """The planted steps of a history, the reported ones, and the pairs of launches."""

    planted: frozenset[int]
    reported: frozenset[int]
    reported_by_all: frozenset[int]
    num_revisions: int
    num_pairs: int
    num_pairs_of_all: int


def measured(change: float, rng: np.random.Generator) -> tuple[RevisionLevel, int]:
    """Return the level of a revision with this log ratio, and its pairs of launches."""
    pairs = change + rng.normal(0, math.sqrt(2) * LAUNCH_SD, MAX_PAIRS)
    for number in looks(MIN_PAIRS, MAX_PAIRS):
        known = pairs[:number]
        margin = student.ppf(0.975, number - 1) * known.std(ddof=1) / math.sqrt(number)
        low, high = math.exp(known.mean() - margin), math.exp(known.mean() + margin)
        if is_precise(low, high, floor=FLOOR):
            break
    return level_of(math.exp(known.mean()), low=low, high=high), number


def simulate(seed: int, *, num_steps: int, least: int = LEAST, fills: bool = False) -> Simulated:
    """Return one backfill of a drawn history."""
    rng = np.random.default_rng(seed)
    planted = sorted(rng.choice(np.arange(1, NUM_REVISIONS), num_steps, replace=False))
    changes = np.zeros(NUM_REVISIONS)
    for index in planted:
        changes[index:] += rng.choice([-1, 1]) * math.log1p(rng.uniform(*STEP_SIZES))
    drawn = [measured(change, rng) for change in changes]
    levels: dict[int, RevisionLevel] = {0: ANCHOR}
    num_pairs = 0
    while (index := _next(levels, least, fills=fills)) is not None:
        levels[index], spent = drawn[index]
        num_pairs += spent
    steps = steps_of(CaseHistory(levels=levels).segments(), floor=FLOOR)
    every = {index: level for index, (level, _) in enumerate(drawn)} | {0: ANCHOR}
    all_steps = steps_of(CaseHistory(levels=every).segments(), floor=FLOOR)
    return Simulated(
        planted=frozenset(map(int, planted)),
        reported=frozenset(step.last for step in steps),
        reported_by_all=frozenset(step.last for step in all_steps),
        num_revisions=len(levels),
        num_pairs=num_pairs,
        num_pairs_of_all=sum(spent for _, spent in drawn[1:]),
    )


def _next(levels: Mapping[int, RevisionLevel], least: int, *, fills: bool) -> int | None:
    history = CaseHistory(levels=levels)
    index = next_revision([history], num_revisions=NUM_REVISIONS, floor=FLOOR, least=least)
    if index is not None or not fills:
        return index
    return revision_for_detection(history, num_revisions=NUM_REVISIONS, floor=FLOOR)


def figures(
    num_histories: int = NUM_HISTORIES, *, least: int = LEAST, fills: bool = False
) -> dict[str, Any]:
    """Return the figures of all histories, and by the number of steps."""
    runs = [
        (number % 4, simulate(number, num_steps=number % 4, least=least, fills=fills))
        for number in range(num_histories)
    ]
    by_steps = {
        str(steps): _summary([run for number, run in runs if number == steps]) for steps in range(4)
    }
    return {
        "num_histories": num_histories,
        "num_revisions": NUM_REVISIONS,
        "launch_sd": LAUNCH_SD,
        "floor": FLOOR,
        "least": least,
        "all": _summary([run for _, run in runs]),
        "by_steps": by_steps,
    }


def recorded() -> dict[str, Any]:
    """Return the figures, and those with as many points as the detector needs."""
    return {**figures(), "with_points_for_detection": figures(fills=True)["all"]}


def _summary(runs: list[Simulated]) -> dict[str, Any]:
    planted = sum(len(run.planted) for run in runs)
    num_right = sum(len(run.planted & run.reported) for run in runs)
    pairs = sum(run.num_pairs for run in runs)
    return {
        "num_histories": len(runs),
        "num_planted": planted,
        "num_right": num_right,
        "num_false": sum(len(run.reported - run.planted) for run in runs),
        "num_right_by_all": sum(len(run.planted & run.reported_by_all) for run in runs),
        "num_false_by_all": sum(len(run.reported_by_all - run.planted) for run in runs),
        "mean_revisions": round(sum(run.num_revisions for run in runs) / len(runs), 2),
        "num_pairs": pairs,
        "share_of_pairs": round(pairs / sum(run.num_pairs_of_all for run in runs), 3),
    }


def main() -> None:
    """Print and write the figures."""
    document = recorded()
    RESULTS.write_text(json.dumps(document, indent=1) + "\n")
    for name, row in {**document["by_steps"], "all": document["all"]}.items():
        print(name, row)


if __name__ == "__main__":
    main()
