"""Noise of kernel times: does a kernel take longer, or do its calls only vary?

Method: a profile stores the number, mean and minimum of a kernel's calls, and no spread. If times
lie above their minimum as an exponential distribution does, mean - minimum is their standard
deviation, and (mean - minimum) / sqrt(n) that of the mean over n calls.

A kernel moved if three conditions apply. The means differ by more than TOLERANCE_ERRORS of both
sides' errors together and by more than a floor. The minima differ by more than the floor as well.
The direction is the same: a disturbance of some calls moves the mean, but not the fastest call. The
floor is FLOOR, or if more the variation of the latency's samples, MAX_DEVIATIONS of both sides. A
disturbance of all calls affects samples as well. These are taken over minutes, whereas a profile is
one look of less than a second.

The difference between the changes of the profiled iterations and of the latencies is the cost of
profiling, up to MAX_COST_S for each recorded call. Beyond that one of the two was disturbed. A
kernel that moved in the direction of disturbed profiled iterations then has no evidence.
Assumption: calls are independent except for the variation that the samples of the latency show.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from compile_hud.db.records.kernels import Kernel, Profile
from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.runner.analysis.judging.attribution_evidence import (
    MACHINE_WARNINGS,
    MEASUREMENT_WARNINGS,
)
from compile_hud.runner.analysis.kernels.grouping import Group, KernelSide

# By chance one kernel in four hundred is beyond three standard errors.
TOLERANCE_ERRORS = 3.0
# By chance one sample in twenty deviates more from the others.
MAX_DEVIATIONS = 2.0
# A change that is irrelevant for a whole iteration is irrelevant for a kernel too.
FLOOR = METRICS["latency_s"].relevance_floor
# Twice the measured cost of recording a call: 2.0 and 4.6 us in two results of a CPU.
MAX_COST_S = 10e-6
# The largest distance of a few iterations from the median of the samples without a disturbance.
MAX_APART = 0.1
# These warnings concern the amount of data, not its noise.
_OF_NUMBERS = ("few-samples", "few-launches")
_COMMUNICATION = "communication"
_NOISE_CODES = frozenset((*MACHINE_WARNINGS, *MEASUREMENT_WARNINGS)) - {*_OF_NUMBERS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Noise:
    """The uncertainty of the times of two sides.

    `num_iterations` is the number of profiled iterations of each side. `deviation` is the standard
    deviation of the logarithms of the samples of both sides together. `apart_s` is how much more
    the profiled iterations changed than the latencies, 0 if the cost of profiling can explain it.
    With `is_profile_off` the profiled iterations changed more than the latencies.
    """

    num_iterations: tuple[int, int] = (1, 1)
    deviation: float = 0.0
    apart_s: float = 0.0
    is_profile_off: bool = False

    @property
    def floor(self) -> float:
        """Return the logarithm of the ratio up to which a change is none."""
        return max(math.log1p(FLOOR), MAX_DEVIATIONS * self.deviation)


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """The change of the time of one call; `why` may name the noise if it is within noise.

    With `is_mean_beyond` the means differ by more than the calls vary, whatever their fastest did.
    """

    is_slower: bool
    is_beyond_noise: bool
    is_mean_beyond: bool = False
    why: str = ""


def deviation_of(samples: Sequence[float]) -> float:
    """Return the standard deviation of the logarithms of samples, about their relative one.

    It is half of the range from the 16th to the 84th percentile, so that a few disturbed samples do
    not matter. It is 0 for less than two samples, and if one took no time.
    """
    if len(samples) < 2 or min(samples) <= 0:
        return 0.0
    low, high = np.quantile(np.log(samples), (0.1587, 0.8413))
    return float(high - low) / 2


def noise_between(
    baseline: KernelSide, candidate: KernelSide, *, explained_s: float, change_s: float | None
) -> Noise:
    """Return the noise of two sides, given the changes of their rows and latencies.

    `change_s` is None if a side has no latency.
    """
    sides = (baseline, candidate)
    counts = [1 if side.profile is None else side.profile.num_iterations for side in sides]
    apart_s = 0.0 if change_s is None else explained_s - change_s
    is_apart = abs(apart_s) > _cost_s(sides)
    return Noise(
        num_iterations=(counts[0], counts[1]),
        deviation=math.hypot(*(side.deviation for side in sides)),
        apart_s=apart_s if is_apart else 0.0,
        is_profile_off=is_apart and abs(explained_s) > abs(change_s or 0.0),
    )


def noise_warnings(warnings: Iterable[RunWarning]) -> tuple[RunWarning, ...]:
    """Return the warnings about noisy times of the result."""
    return tuple(warning for warning in warnings if warning.code in _NOISE_CODES)


def codes_text(warnings: Iterable[RunWarning]) -> str:
    """Return the codes of `warnings`, each once."""
    return ", ".join(dict.fromkeys(warning.code for warning in warnings))


def result_noise(
    warnings: Iterable[RunWarning], *, profile: Profile | None, kernels: Sequence[Kernel]
) -> str:
    """Return a line on the uncertainty of one result's times, "" if there is none."""
    noisy = [f"the result is {codes_text(codes)}"] if (codes := noise_warnings(warnings)) else []
    if profile is not None and profile.latency_s:
        most_s = MAX_COST_S * _num_calls(kernels) + MAX_APART * profile.latency_s
        if abs(profile.latency_s - math.fsum(profile.latency_components.values())) > most_s:
            noisy.append(
                "the profiled iterations and the samples are further apart than profiling costs,"
                " so one of them was disturbed"
            )
    return f"Noise: {'; '.join(noisy)}." if noisy else ""


def move_of(before: Group, after: Group, *, noise: Noise) -> Move:
    """Return the change of the time of one call."""
    mean = _log_ratio(before.mean_s, after.mean_s)
    minimum = _log_ratio(before.fastest_s, after.fastest_s)
    is_slower = mean > 0
    if not _is_mean_beyond(before, after, noise=noise):
        return Move(is_slower=is_slower, is_beyond_noise=False)
    why = ""
    if (minimum > 0) != is_slower or abs(minimum) <= math.log1p(FLOOR):
        why = "the fastest call did not follow: some calls were disturbed"
    elif min(abs(mean), abs(minimum)) <= noise.floor:
        why = f"samples of the latency vary by {100 * math.expm1(noise.floor):.0f} % as well"
    elif noise.is_profile_off and (noise.apart_s > 0) == is_slower:
        why = "the profiled iterations were disturbed"
    return Move(is_slower=is_slower, is_beyond_noise=not why, is_mean_beyond=True, why=why)


def is_waiting(before: Group, after: Group) -> bool:
    """Return whether communication took another time although its fastest call did not.

    The fastest calls may differ by FLOOR of a mean call: more would not explain the means. A
    collective ends on all ranks together, so the time beyond the fastest call is a wait for the
    last rank. A wait has no spread about a mean, so standard errors decide nothing about it.
    """
    if not before.first.kind == after.first.kind == _COMMUNICATION:
        return False
    is_moved = abs(_log_ratio(before.mean_s, after.mean_s)) > math.log1p(FLOOR)
    fastest_s = abs(after.fastest_s - before.fastest_s)
    return is_moved and fastest_s <= FLOOR * max(before.mean_s, after.mean_s)


def wait_s(group: Group) -> float:
    """Return the seconds an iteration by which the calls were longer than the fastest."""
    return max(0.0, group.total_s - group.count * group.fastest_s)


def _is_mean_beyond(before: Group, after: Group, *, noise: Noise) -> bool:
    """Return whether the mean calls differ by more than the calls vary."""
    errors_s = [
        _standard_error(group, num_iterations=number)
        for group, number in zip((before, after), noise.num_iterations, strict=True)
    ]
    if before.is_pooled or after.is_pooled:
        # Calls with other inputs differ by more than noise; rows that separate them do not.
        errors_s = [min(errors_s)] * 2
    is_relevant = abs(_log_ratio(before.mean_s, after.mean_s)) > math.log1p(FLOOR)
    return is_relevant and (
        abs(after.mean_s - before.mean_s) > TOLERANCE_ERRORS * math.hypot(*errors_s)
    )


def _cost_s(sides: Sequence[KernelSide]) -> float:
    """Return the largest possible difference of the profiling costs of both sides, in seconds."""
    calls = [_num_calls(side.kernels) for side in sides]
    latency_s = min(side.latency_s or 0.0 for side in sides)
    return MAX_COST_S * abs(calls[1] - calls[0]) + MAX_APART * latency_s


def _num_calls(kernels: Sequence[Kernel]) -> float:
    return math.fsum(kernel.count for kernel in kernels)


def _standard_error(group: Group, *, num_iterations: int) -> float:
    """Return the standard error of the mean call, in seconds; other locations may differ."""
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
