"""The length of a night on a GPU with and without compile ahead, by the product's own scheduler.

The night has 30 models under 5 modes in inference and training, three launches each. Seconds come
from the ledger of GPU campaigns: each launch takes those of a recorded launch of its phase and
mode, drawn with a fixed seed. For modes without launches in training, those of `default` are
scaled as in inference. Clocks are simulated: `Phases` starts launches in
lanes that only say how long they take. The benchmarks of an autotuner count as compiling, although
they take turns on the device.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.gpu.ledger import read_ledger
from benchmarks.startup import RESULTS, describe_machine
from compile_hud.db.records.results import Case, Outcome, Phase
from compile_hud.runner.execution.ahead.phases import LANES_PER_PROCESS, Phases
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.protocol.messages import MeasureSettings, Workload
from tests.support.builders import make_case
from tests.support.runs.virtual_lanes import LaunchCost, VirtualClock, VirtualLane

# 1: first version.
SCHEMA_VERSION = 1
NUM_MODELS = 30
NUM_LAUNCHES = 3
MODES = ("eager", "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
NUM_CORES = 16
SEED = 0
# A night may take this multiple of the device seconds or of the compile seconds on all lanes.
GOAL = 1.25
# These steps of a launch need the device to themselves; it waits for its turn before them.
_TURN = "turn"
_START = "fingerprint"


Costs = Mapping[tuple[Phase, str, bool], Sequence[LaunchCost]]


def ledger_costs() -> Costs:
    """Return the costs of the recorded launches by phase, mode, and whether it is the first one."""
    costs: dict[tuple[Phase, str, bool], list[LaunchCost]] = defaultdict(list)
    for document in read_ledger():
        for result in document.results:
            if result.outcome is not Outcome.OK or result.case.variant != result.case.mode:
                continue
            for number, steps in enumerate(result.details.get("steps") or ()):
                if steps:
                    key = (result.case.phase, result.case.mode, number == 0)
                    costs[key].append(_cost(steps))
    return costs


def _cost(steps: Sequence[Mapping[str, Any]]) -> LaunchCost:
    by_name = {step["name"]: step for step in steps}
    until = by_name.get(_TURN)
    start_s, end_s = by_name[_START]["start_s"], steps[-1]["end_s"]
    if until is None:
        return LaunchCost(compile_s=0.0, device_s=end_s - start_s)
    return LaunchCost(compile_s=until["start_s"] - start_s, device_s=end_s - until["end_s"])


def draw_night(costs: Costs, *, seed: int) -> dict[str, list[LaunchCost]]:
    """Return the costs of the launches of each case by its key, in the order of the plan."""
    draw = random.Random(seed)
    night: dict[str, list[LaunchCost]] = {}
    for number in range(NUM_MODELS):
        for phase in (Phase.INFERENCE, Phase.TRAINING):
            for mode in MODES:
                case = make_case(model=f"model-{number}", mode=mode, variant=mode, phase=phase)
                night[case.key] = [
                    _draw(costs, phase, mode, is_first=launch == 0, draw=draw)
                    for launch in range(NUM_LAUNCHES)
                ]
    return night


def _draw(
    costs: Costs, phase: Phase, mode: str, *, is_first: bool, draw: random.Random
) -> LaunchCost:
    known = costs.get((phase, mode, is_first))
    if known:
        return draw.choice(known)
    # The first launches of other modes, or the later ones of inference, are the nearest of all.
    base = draw.choice(costs[(phase, "default" if mode != "eager" else mode, True)])
    scale = _mean(costs, mode, is_first=is_first) / _mean(
        costs, "default" if mode != "eager" else mode, is_first=True
    )
    return LaunchCost(compile_s=base.compile_s * scale, device_s=base.device_s)


def _mean(costs: Costs, mode: str, *, is_first: bool) -> float:
    """Return the mean compile seconds in inference; later launches of a rare mode are default's."""
    known = (
        costs.get((Phase.INFERENCE, mode, is_first))
        or costs[(Phase.INFERENCE, "default", is_first)]
    )
    return max(1e-9, statistics.fmean(cost.compile_s for cost in known))


def simulate(
    night: Mapping[str, Sequence[LaunchCost]], *, num_processes: int, longest_first: bool
) -> dict[str, Any]:
    """Return the length of the night with `num_processes` compilations at a time."""
    clock = VirtualClock()
    lanes = [VirtualLane(clock, night) for _ in range(LANES_PER_PROCESS * num_processes)]
    groups = [frozenset({number}) for number in range(num_processes)]
    phases = Phases(lanes, core_groups=groups, pause=clock.pause)
    keys = sorted(night, key=lambda key: -night[key][0].compile_s) if longest_first else night
    num_results = sum(1 for _ in phases.measure(_orders(keys)))
    assert num_results == len(night)
    compile_s = sum(cost.compile_s for launches in night.values() for cost in launches)
    bound_s = max(clock.device_s, compile_s / num_processes)
    return {
        "num_processes": num_processes,
        "longest_first": longest_first,
        "night_s": clock.now_s,
        "alone_s": compile_s + clock.device_s,
        "compile_s": compile_s,
        "device_s": clock.device_s,
        "bound_s": bound_s,
        "ratio_to_bound": clock.now_s / bound_s,
        "ratio_to_alone": clock.now_s / (compile_s + clock.device_s),
    }


def _orders(keys: Iterable[str]) -> Iterable[CaseOrder]:
    workload = Workload(build="", config={}, num_samples=1, num_tokens=None)
    for key in keys:
        yield CaseOrder(
            run_id="night", case=_case(key), workload=workload, settings=MeasureSettings()
        )


def _case(key: str) -> Case:
    model, phase, _shape, _dtype, mode, _device = key.split("/")
    return make_case(model=model, phase=Phase(phase), mode=mode, variant=mode)


def main() -> int:
    """Simulate the nights, print and write the document; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=RESULTS / "compile_ahead.json")
    options = parser.parse_args()
    night = draw_night(ledger_costs(), seed=SEED)
    rows = [
        simulate(night, num_processes=number, longest_first=longest_first)
        for longest_first in (False, True)
        for number in (1, 2, NUM_CORES // 4, NUM_CORES // 2)
    ]
    for row in rows:
        order = "longest first" if row["longest_first"] else "in order of the plan"
        print(
            f"{row['num_processes']} at a time, {order}: {row['night_s'] / 3600:.2f} h"
            f" ({row['ratio_to_bound']:.2f} of the bound, {row['ratio_to_alone']:.2f} of alone)"
        )
    document = {
        "schema_version": SCHEMA_VERSION,
        "benchmark": "compile_ahead",
        "at": datetime.now(timezone.utc).isoformat(),
        "machine": describe_machine(),
        "num_models": NUM_MODELS,
        "modes": MODES,
        "num_launches": NUM_LAUNCHES,
        "lanes_per_process": LANES_PER_PROCESS,
        "goal": GOAL,
        "nights": rows,
    }
    options.output.parent.mkdir(parents=True, exist_ok=True)
    options.output.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
