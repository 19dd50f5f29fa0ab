"""Measure what sequential launches of a release save, and how often its answers are wrong.

Each simulated release has 300 cases under two toolchains, 12 of them slower by a planted change.
The noise between launches of a case is drawn from a range. `hud release` measures them with its own
code; only launches are simulated. The same cases are then measured with an equal number of launches
each: the smallest number of a look that finds as many changes and leaves as few cases open.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.precision.rates import wilson_interval
from benchmarks.startup import RESULTS, commit, describe_machine
from compile_hud.db.records.results import Verdict
from compile_hud.runner.analysis.comparison.paired import PairStandard, looks
from compile_hud.runner.analysis.release.runs import MIN_LAUNCHES, ReleaseRules
from compile_hud.runner.analysis.release.sign_off import (
    JudgedPair,
    judge_together,
    paired_results,
    standard_of,
)
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.paired_launches import OpenPair, PairSide
from compile_hud.runner.protocol.messages import MeasureSettings, Workload
from compile_hud.runner.release.sequential import SequentialMeasurement
from tests.support.builders import make_case
from tests.support.fakes import Draw, FakeExecutor, draw_latencies

# 1: first version.
SCHEMA_VERSION = 1
NUM_CASES, NUM_SLOWER = 300, 12
CHANGES = (0.07, 0.10, 0.15)
# The relative spread between launches: the range of the calm launches of a CPU and of a GPU.
LAUNCH_SDS = {"cpu": (0.004, 0.02), "gpu": (0.001, 0.008)}
RULES = ReleaseRules(baseline="a", candidate="b")


@dataclass(frozen=True, slots=True)
class Planted:
    """A simulated release: the noise of each case, and which ones are slower."""

    launch_sds: np.ndarray
    slower: frozenset[int]
    change: float
    seed: int

    def cases(self) -> list[tuple[PairSide, PairSide]]:
        """Return the cases, each with an executor of its own for both sides."""
        return [self._case(number) for number in range(NUM_CASES)]

    def _case(self, number: int) -> tuple[PairSide, PairSide]:
        case = make_case(f"model{number:03}", mode="default", device="cpu")
        baseline, candidate = (
            PairSide(
                executor=FakeExecutor(draw=self._draw(number, is_candidate=is_candidate)),
                order=CaseOrder(
                    run_id="run",
                    case=case,
                    workload=Workload(build="fake", config={}, num_samples=1, num_tokens=None),
                    settings=MeasureSettings(),
                ),
            )
            for is_candidate in (False, True)
        )
        return baseline, candidate

    def _draw(self, number: int, *, is_candidate: bool) -> Draw:
        is_slower = is_candidate and number in self.slower
        return draw_latencies(
            0.01 * (1 + self.change if is_slower else 1.0),
            launch_sd=float(self.launch_sds[number]),
            seed=(self.seed * NUM_CASES + number) * 2 + is_candidate,
        )


def plant(change: float, *, noise: str, seed: int) -> Planted:
    """Return a release with NUM_SLOWER cases slower by `change`."""
    generator = np.random.default_rng(seed)
    low, high = (math.log(end) for end in LAUNCH_SDS[noise])
    return Planted(
        launch_sds=np.exp(generator.uniform(low, high, NUM_CASES)),
        slower=frozenset(generator.choice(NUM_CASES, NUM_SLOWER, replace=False).tolist()),
        change=change,
        seed=seed,
    )


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of one release: called planted changes, other called cases, and open ones."""

    num_called: int
    num_false: int
    num_open: int
    num_launches: int


def sequential(planted: Planted) -> Answer:
    """Return the answer of `hud release`."""
    measurement = SequentialMeasurement(
        rules=RULES,
        num_cases=NUM_CASES,
        budget=None,
        now=lambda: datetime.now(timezone.utc),
        notify=lambda _event: None,
    )
    results = list(measurement.measure(iter(planted.cases()), lambda: False))
    pairs = paired_results([before for before, _ in results], [after for _, after in results])
    judged = judge_together(pairs, standard=standard_of(RULES, num_cases=NUM_CASES))
    return _answer(judged, planted, num_launches=measurement.num_launches)


def fixed(planted: Planted, *, numbers: Sequence[int]) -> list[Answer]:
    """Return the answer of each number of launches, equal for all cases, with one look."""
    standard = PairStandard(fail_above=RULES.fail_above, num_looks=1, num_cases=NUM_CASES)
    opened = [OpenPair(sides) for sides in planted.cases()]
    answers = []
    for number in numbers:
        results = []
        for pair in opened:
            while pair.num_pairs < number:
                pair.launch()
            results.append(pair.results())
        pairs = paired_results([before for before, _ in results], [after for _, after in results])
        judged = judge_together(pairs, standard=standard)
        answers.append(_answer(judged, planted, num_launches=2 * number * NUM_CASES))
    return answers


def _answer(judged: Sequence[JudgedPair], planted: Planted, *, num_launches: int) -> Answer:
    called = {
        int(item.pair.baseline.case.model.removeprefix("model"))
        for item in judged
        if item.time is not None and item.time.comparison.verdict is Verdict.REGRESSION
    }
    return Answer(
        num_called=len(called & planted.slower),
        num_false=len(called - planted.slower),
        num_open=sum(not item.is_decided for item in judged),
        num_launches=num_launches,
    )


def measure(change: float, *, noise: str, num_releases: int, seed: int) -> dict[str, Any]:
    """Return the rates of many releases with one size of change and one range of noise."""
    schedule = looks(MIN_LAUNCHES, RULES.max_launches)
    ours, equal = [], []
    for number in range(num_releases):
        planted = plant(change, noise=noise, seed=seed + number)
        ours.append(sequential(planted))
        equal.append(fixed(planted, numbers=schedule))
    num_planted = NUM_SLOWER * num_releases
    num_others = (NUM_CASES - NUM_SLOWER) * num_releases
    num_called = sum(item.num_called for item in ours)
    num_open = sum(item.num_open for item in ours)
    launches = sum(item.num_launches for item in ours)
    sums = [
        {
            "launches_a_side": pairs,
            "called": sum(release[index].num_called for release in equal),
            "false": sum(release[index].num_false for release in equal),
            "open": sum(release[index].num_open for release in equal),
            "launches": sum(release[index].num_launches for release in equal),
        }
        for index, pairs in enumerate(schedule)
    ]
    as_good = [item for item in sums if item["called"] >= num_called and item["open"] <= num_open]
    needed = as_good[0] if as_good else None
    return {
        "change": change,
        "noise": noise,
        "launch_sd": list(LAUNCH_SDS[noise]),
        "num_releases": num_releases,
        "recall": num_called / num_planted,
        "recall_interval": wilson_interval(num_called, num_planted),
        "false_rate": sum(item.num_false for item in ours) / num_others,
        "open_rate": num_open / (NUM_CASES * num_releases),
        "launches": launches,
        "fixed": sums,
        "as_good_launches_a_side": None if needed is None else needed["launches_a_side"],
        "share_of_fixed": launches / (sums[-1] if needed is None else needed)["launches"],
    }


def main() -> None:
    """Measure and write the document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--releases", type=int, default=20, dest="num_releases")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, default=RESULTS / "release_allocation.json")
    arguments = parser.parse_args()
    document = {
        "schema_version": SCHEMA_VERSION,
        "measured_at": datetime.now(timezone.utc).isoformat(),
        "machine": describe_machine(),
        "commit": commit(),
        "num_cases": NUM_CASES,
        "num_slower": NUM_SLOWER,
        "results": [
            measure(change, noise=noise, num_releases=arguments.num_releases, seed=arguments.seed)
            for noise in LAUNCH_SDS
            for change in CHANGES
        ],
    }
    arguments.output.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    for item in document["results"]:
        print(json.dumps({key: value for key, value in item.items() if key != "fixed"}))


if __name__ == "__main__":
    main()
