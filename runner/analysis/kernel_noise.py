"""Whether a kernel takes longer, or its calls only vary.

Method: of a kernel's calls number, mean and minimum are kept, and no spread. If times lie above
their minimum as an exponential distribution does, mean - minimum is their standard deviation, and
(mean - minimum) / sqrt(n) that of the mean over n calls. A kernel moved when the means differ by
more than TOLERANCE_ERRORS of what both sides make together and by more than FLOOR, and the minima
by more than FLOOR as well, in the same direction: what disturbs some calls moves the mean, but
leaves the fastest call as it was.
Assumptions: calls are independent; how fast a machine is changes between two runs by less than
FLOOR, which nothing in one profile can tell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from db.metrics import METRICS
from runner.analysis.kernel_groups import Group

# By chance one kernel in four hundred is beyond three standard errors.
TOLERANCE_ERRORS = 3.0
# What is not worth anyone's time in a whole iteration is not in a kernel either.
FLOOR = METRICS["latency_s"].relevance_floor


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """How the time of one call moved; of `is_mean_alone` the fastest call knows nothing."""

    is_slower: bool
    is_beyond_noise: bool
    is_mean_alone: bool


def move_of(before: Group, after: Group, *, num_iterations: tuple[int, int]) -> Move:
    """Return how the time of one call moved; `num_iterations` is over how many it was profiled."""
    mean = _log_ratio(before.mean_s, after.mean_s)
    minimum = _log_ratio(before.fastest_s, after.fastest_s)
    errors_s = [
        _standard_error(group, num_iterations=number)
        for group, number in zip((before, after), num_iterations, strict=True)
    ]
    tolerance_s = TOLERANCE_ERRORS * math.hypot(*errors_s)
    floor = math.log1p(FLOOR)
    is_mean_beyond = abs(mean) > floor and abs(after.mean_s - before.mean_s) > tolerance_s
    is_minimum_beyond = abs(minimum) > floor and (mean > 0) == (minimum > 0)
    return Move(
        is_slower=mean > 0,
        is_beyond_noise=is_mean_beyond and is_minimum_beyond,
        is_mean_alone=is_mean_beyond and not is_minimum_beyond,
    )


def _standard_error(group: Group, *, num_iterations: int) -> float:
    """Return that of the mean call, in seconds: kernels at other places may take another time."""
    errors_s = [
        kernel.count
        * (kernel.mean_s - kernel.min_s)
        / math.sqrt(max(1.0, kernel.count * num_iterations))
        for kernel in group.kernels
    ]
    return math.hypot(*errors_s) / group.count if group.count else 0.0


def _log_ratio(before_s: float, after_s: float) -> float:
    """Return the logarithm of after / before; infinite where one of them took no time."""
    if before_s == after_s:
        return 0.0
    if before_s == 0 or after_s == 0:
        return math.inf if before_s == 0 else -math.inf
    return math.log(after_s) - math.log(before_s)
