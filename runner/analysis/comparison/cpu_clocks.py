"""Decide which change of a CPU's clocks is one of the code.

Neighbours move the wall clock of a CPU by any factor, and its CPU time by 20 % and more (shared
caches, shared cores). The ratio of two functions interleaved in one process is stable. A change of
an absolute time therefore counts in two cases: the machine was quiet on both sides, or the time
moved against the eager iterations of the same process. The verdict of a time agrees with the
interval next to it: if that includes no change, another row decides, and the time names it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
# Eager's time by the time that it is measured in turn with.
EAGER_CLOCKS = {WALL: EAGER_WALL, CPU: EAGER_CPU}
SPEEDUP = "speedup"
# The largest ratio of wall time to CPU time on a quiet machine. A computation with a core of its
# own spends all of its wall time computing, except 1 to 2 %. One that is preempted a quarter of the
# time has most of its iterations untouched, so medians hide the preemption. It computes 10 % slower
# even in those iterations.
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
    ratio = SPEEDUP if SPEEDUP in comparisons else ""
    if CPU in comparisons:
        paired = None if is_quiet else against_eager(pair, CPU, judgements[CPU])
        judged[CPU] = _judge_cpu_time(comparisons[CPU], paired, is_quiet=is_quiet, decider=ratio)
    if WALL in comparisons:
        paired = against_eager(pair, WALL, judgements[WALL]) if is_quiet else None
        controls = (
            _Control(judged.get(CPU), text="CPU time moved as well", decider=CPU),
            _Control(paired, text="it moved against eager", decider=ratio),
        )
        judged[WALL] = _judge_wall_clock(comparisons[WALL], controls)
    return judged


def judge_paired_clocks(comparisons: Mapping[str, Comparison]) -> dict[str, Comparison]:
    """Return the judged comparison of the wall clock with interleaved launches.

    Neighbours affect both sides alike, which the interval of the CPU time covers. The wall clock
    still needs the CPU time as a control.
    """
    if WALL not in comparisons:
        return {}
    cpu = _Control(comparisons.get(CPU), text="CPU time moved as well", decider=CPU)
    return {WALL: _judge_wall_clock(comparisons[WALL], (cpu,))}


def _judge_cpu_time(
    cpu: Comparison, paired: Comparison | None, *, is_quiet: bool, decider: str
) -> Comparison:
    if is_quiet or cpu.ratio is None or not cpu.is_relevant:
        return cpu
    if paired is not None and paired.verdict is _verdict(cpu.ratio):
        control = _Control(paired, text="it moved against eager", decider=decider)
        return _vouched(cpu, control, name="CPU time")
    if cpu.verdict not in CHANGED:
        return cpu
    return inconclusive(
        f"CPU time moved by {_percent(cpu)} while the machine was busy"
        f"{', and eager with it' if paired is not None else ''}: measure again when it is quiet",
        of=cpu,
    )


@dataclass(frozen=True, slots=True)
class _Control:
    """A comparison that vouches for a time if it changed likewise, and the row that shows it."""

    comparison: Comparison | None
    text: str
    decider: str


def _judge_wall_clock(wall: Comparison, controls: Sequence[_Control]) -> Comparison:
    known = [item for item in controls if item.comparison is not None]
    if wall.ratio is None or not wall.is_relevant or not known:
        return wall
    for control in known:
        assert control.comparison is not None
        if control.comparison.verdict is _verdict(wall.ratio):
            return _vouched(wall, control, name="wall clock")
    return inconclusive(
        f"wall time {_percent(wall)}, not confirmed by another clock: the machine was busy",
        of=wall,
    )


def _verdict(ratio: float) -> Verdict:
    return Verdict.REGRESSION if ratio > 1 else Verdict.IMPROVEMENT


def _vouched(time: Comparison, control: _Control, *, name: str) -> Comparison:
    """Return `time` with the verdict of its control, if its own interval includes a change only.

    Otherwise it is inconclusive, and names the row that decides.
    """
    assert control.comparison is not None
    assert time.ratio is not None
    text = f"{name} {_percent(time)}: {control.text}{_interval(control.comparison)}"
    if excludes_no_change(time):
        verdict = _verdict(time.ratio)
        return dataclasses.replace(time, verdict=verdict, is_significant=True, reason=text)
    decider = f"; {control.decider} decides" if control.decider else ""
    reason = f"its own interval includes no change. {text}{decider}"
    return inconclusive(reason, of=time, decided_by=control.decider)


def excludes_no_change(comparison: Comparison) -> bool:
    """Return whether the interval shown is wholly on one side of no change."""
    low, high = comparison.low, comparison.high
    return low is not None and high is not None and not low <= 1 <= high


def against_eager(pair: Pair, clock: str, judgement: Judgement) -> Comparison | None:
    """Return the comparison of a time over that of eager in the same processes.

    None where launches of both are not those of the same processes.
    """
    names = (clock, EAGER_CLOCKS[clock])
    sides = [_log_ratios(side, names) for side in (pair.baseline, pair.candidate)]
    if sides[0] is None or sides[1] is None:
        return None
    return compare_logs(
        sides[0],
        sides[1],
        direction=Direction.LOWER_IS_BETTER,
        judgement=dataclasses.replace(judgement, noise=_ratio_noise(clock)),
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
