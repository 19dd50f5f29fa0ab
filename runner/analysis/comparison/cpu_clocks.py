"""Decide which change of a CPU's clocks is one of the code.

Neighbours move the wall clock of a CPU by any factor, and its CPU time by 20 % and more (shared
caches, shared cores). The ratio of two functions interleaved in one process is stable. A change of
an absolute time therefore counts in two cases: the machine was quiet on both sides, or the time
moved against the eager iterations of the same process.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import numpy as np

from compile_hud.db.records.metrics import Direction
from compile_hud.db.records.results import CaseResult, Measurement, Verdict
from compile_hud.db.shared.text import signed_percent
from compile_hud.runner.analysis.comparison.measurements import (
    CHANGED,
    Comparison,
    Judgement,
    compare_logs,
    inconclusive,
)
from compile_hud.runner.analysis.comparison.noise_model import ComparisonNoise
from compile_hud.runner.analysis.stats.estimates import Spread
from compile_hud.runner.analysis.stats.launch_levels import launch_levels
from compile_hud.runner.analysis.stats.launch_noise import (
    PAIRED_CPU_SD,
    PAIRED_WALL_SD,
    PRIOR_DEGREES,
    run_sd,
)
from compile_hud.runner.analysis.stats.rounds import Pair

WALL, CPU = "latency_s", "latency_cpu_s"
EAGER_WALL, EAGER_CPU = "eager_latency_s", "eager_latency_cpu_s"
# A computation with a core of its own spends all of its wall time computing, except 1 to 2 %. One
# that is preempted a quarter of the time has most of its iterations untouched, so medians hide the
# preemption. It computes 10 % slower even in those iterations.
QUIET_RATIO = 1.1


def was_quiet(pair: Pair) -> bool:
    """Return whether all wall time was spent computing, in every launch of both sides.

    Interleaved eager iterations decide if there are any: a variant that waits by itself is no sign
    of a busy machine. Without CPU times the machine counts as quiet.
    """
    for wall_name, cpu_name in ((EAGER_WALL, EAGER_CPU), (WALL, CPU)):
        walls, cpus = pair.measurements(wall_name), pair.measurements(cpu_name)
        if walls is not None and cpus is not None:
            sides = zip(walls, cpus, strict=True)
            return all(_largest_share(wall, cpu) <= QUIET_RATIO for wall, cpu in sides)
    return True


def judge_clocks(
    pair: Pair,
    comparisons: Mapping[str, Comparison],
    judgements: Mapping[str, Judgement],
    *,
    is_quiet: bool,
) -> dict[str, Comparison]:
    """Return the judged comparisons of the wall clock and the CPU time."""
    judged: dict[str, Comparison] = {}
    if CPU in comparisons:
        judged[CPU] = _judge_cpu_time(pair, comparisons[CPU], judgements[CPU], is_quiet=is_quiet)
    if WALL in comparisons:
        paired = _against_eager(pair, (WALL, EAGER_WALL), judgements[WALL]) if is_quiet else None
        judged[WALL] = _judge_wall_clock(comparisons[WALL], cpu=judged.get(CPU), paired=paired)
    return judged


def judge_paired_clocks(comparisons: Mapping[str, Comparison]) -> dict[str, Comparison]:
    """Return the judged comparison of the wall clock with interleaved launches.

    Neighbours affect both sides alike, which the interval of the CPU time covers. The wall clock
    still needs the CPU time as a control.
    """
    if WALL not in comparisons:
        return {}
    return {WALL: _judge_wall_clock(comparisons[WALL], cpu=comparisons.get(CPU), paired=None)}


def _judge_cpu_time(
    pair: Pair, cpu: Comparison, judgement: Judgement, *, is_quiet: bool
) -> Comparison:
    if is_quiet or cpu.ratio is None or not cpu.is_relevant:
        return cpu
    paired = _against_eager(pair, (CPU, EAGER_CPU), judgement)
    if paired is not None and paired.verdict is _verdict(cpu.ratio):
        text = f"CPU time {_percent(cpu)}: it moved against eager{_interval(paired)}"
        return _vouched(cpu, text)
    if cpu.verdict not in CHANGED:
        return cpu
    return inconclusive(
        f"CPU time moved by {_percent(cpu)} while the machine was busy"
        f"{', and eager with it' if paired is not None else ''}: measure again when it is quiet",
        of=cpu,
    )


def _judge_wall_clock(
    wall: Comparison, *, cpu: Comparison | None, paired: Comparison | None
) -> Comparison:
    if wall.ratio is None or not wall.is_relevant or (cpu is None and paired is None):
        return wall
    for control, text in ((cpu, "CPU time moved as well"), (paired, "it moved against eager")):
        if control is not None and control.verdict is _verdict(wall.ratio):
            return _vouched(wall, f"wall clock {_percent(wall)}: {text}{_interval(control)}")
    return inconclusive(
        f"wall clock moved by {_percent(wall)}, and nothing vouches for it: the machine was busy",
        of=wall,
    )


def _verdict(ratio: float) -> Verdict:
    return Verdict.REGRESSION if ratio > 1 else Verdict.IMPROVEMENT


def _vouched(time: Comparison, reason: str) -> Comparison:
    verdict = _verdict(time.ratio or 1)
    return dataclasses.replace(time, verdict=verdict, is_significant=True, reason=reason)


def _against_eager(pair: Pair, names: tuple[str, str], judgement: Judgement) -> Comparison | None:
    sides = [_log_ratios(side, names) for side in (pair.baseline, pair.candidate)]
    if sides[0] is None or sides[1] is None:
        return None
    return compare_logs(
        sides[0],
        sides[1],
        direction=Direction.LOWER_IS_BETTER,
        judgement=dataclasses.replace(judgement, noise=_ratio_noise(names[0])),
    )


def _ratio_noise(clock: str) -> ComparisonNoise:
    """Return the noise of a time over that of eager in the same process."""
    sd = PAIRED_WALL_SD if clock == WALL else PAIRED_CPU_SD
    return ComparisonNoise(
        launch=Spread(sd=sd, degrees=PRIOR_DEGREES),
        run=Spread(sd=run_sd("speedup", device="cpu"), degrees=math.inf),
    )


def _log_ratios(result: CaseResult, names: tuple[str, str]) -> np.ndarray | None:
    """Return the logarithm of the ratio in each launch, None when they cannot be paired."""
    time, eager = result.measurement(names[0]), result.measurement(names[1])
    if time is None or eager is None or time.launches != eager.launches:
        return None
    if min(*time.samples, *eager.samples) <= 0:
        return None
    levels = [launch_levels(result, name) for name in names]
    return np.asarray(np.log(levels[0] / levels[1]))


def _largest_share(wall: Measurement, cpu: Measurement) -> float:
    """Return the largest wall time over CPU time of any launch, by all of its samples."""
    if wall.launches != cpu.launches or min(cpu.samples) <= 0:
        return math.inf
    indices = np.cumsum((0, *(wall.launches[:-1] or ())))
    sums = [np.add.reduceat(side.samples, indices) for side in (wall, cpu)]
    return float(np.max(sums[0] / sums[1]))


def _interval(control: Comparison) -> str:
    """Return the interval of the deciding control; that of the metric may include no change."""
    if control.low is None or control.high is None:
        return ""
    low, high = signed_percent(control.low - 1), signed_percent(control.high - 1)
    return f", by {low} to {high}"


def _percent(comparison: Comparison) -> str:
    return signed_percent((comparison.ratio or 1) - 1)
