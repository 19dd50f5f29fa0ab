"""Robust estimates: a point with its interval.

Method: the point is a median. Within one launch the interval is the distribution-free one between
two order statistics (Conover, Practical Nonparametric Statistics, 3.2). Over several launches the
launch is the unit of replication (Kalibera and Jones, Rigorous Benchmarking in Reasonable Time,
ISMM 2013): one median a launch, and Student's interval over those, on logarithms if all are
positive, because times vary by factors. Two or three launches hardly show their own spread. If it
is known from other cases it is pooled with theirs (a moderated variance: Smyth, 2004).
Assumptions: samples of one launch are exchangeable; launches are independent of each other. Samples
of one launch do not predict the next one: address layout and clock differ.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from compile_hud.db.shared.text import counted

CONFIDENCE = 0.95
# Makes the median absolute deviation consistent with the standard deviation of normal values.
MAD_TO_SD = 1.4826
TAILS = (0.15, 0.85)
# The same for the width between the `TAILS` of the values.
TAILS_TO_SD = 1 / 2.0729
# Standard error of a median of normal values, over that of a mean.
MEDIAN_INEFFICIENCY = math.sqrt(math.pi / 2)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A point with its 95 % interval, all in the unit of the samples."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Spread:
    """The known relative sd between launches, with its degrees of freedom."""

    sd: float
    degrees: float


def estimate(
    samples: Sequence[float], *, launches: Sequence[int] = (), prior: Spread | None = None
) -> Estimate:
    """Return the median of `samples` with its 95 % interval.

    `launches` has the number of samples of each fresh process, in order. With two or more launches
    the value is the median of the launch medians and the interval covers the launches' differences.
    With one launch the interval covers this launch alone: another launch of the very same code may
    lie outside. `prior` is pooled with the spread of two or more launches, all positive, that are
    not all alike. Fewer than six samples in one launch cannot reach 95 %: the interval is then from
    the smallest to the largest. Raises ValueError on no samples, on numbers that are not
    finite, and when `launches` does not add up.
    """
    medians = launch_medians(samples, launches=launches)
    if len(medians) > 1:
        return _between_launches(medians, prior=prior)
    low, high = order_statistic_interval(samples)
    return Estimate(float(medians[0]), low, high)


def launch_medians(samples: Sequence[float], *, launches: Sequence[int] = ()) -> list[float]:
    """Return the median of each launch that gave samples; one median when `launches` is empty."""
    numbers = np.asarray(samples, dtype=float)
    if numbers.size == 0:
        raise ValueError("no samples: an estimate needs at least one")
    if not np.isfinite(numbers).all():
        raise ValueError("samples must be finite numbers")
    sizes = tuple(launches) or (numbers.size,)
    if min(sizes) < 0 or sum(sizes) != numbers.size:
        raise ValueError(f"launches {sizes} do not add up to {counted(numbers.size, 'sample')}")
    # A sorted list takes a fifth of the time of numpy's median of some samples.
    rest = iter(numbers.tolist())
    parts = (sorted(itertools.islice(rest, size)) for size in sizes)
    return [sorted_median(part) for part in parts if part]


def order_statistic_interval(
    samples: Sequence[float], *, confidence: float = CONFIDENCE
) -> tuple[float, float]:
    """Return the distribution-free interval of the median between two order statistics."""
    # The import is here, since every command imports this module and few compute an interval.
    from scipy.special import bdtr

    ordered = np.sort(np.asarray(samples, dtype=float))
    n = ordered.size
    # The largest rank r with P(Binomial(n, 1/2) <= r - 1) <= (1 - confidence) / 2.
    ranks = np.arange(1, n // 2 + 1)
    allowed = ranks[bdtr(ranks - 1, n, 0.5) <= (1 - confidence) / 2]
    rank = int(allowed[-1]) if allowed.size else 1
    return float(ordered[rank - 1]), float(ordered[n - rank])


def robust_sd(values: Sequence[float] | np.ndarray) -> float:
    """Return the standard deviation of `values` without their worst seventh on either side.

    The larger of two estimates: the median absolute deviation, and the width of the middle 70 %.
    The first alone is blind to a second mode that holds less than half of the points.
    """
    # Sorting once costs a tenth of numpy's median and quantile on a hundred numbers.
    numbers = np.sort(np.asarray(values, dtype=float))
    deviation = _of_sorted(np.sort(np.abs(numbers - _of_sorted(numbers, 0.5))), 0.5)
    low, high = (_of_sorted(numbers, tail) for tail in TAILS)
    return max(MAD_TO_SD * deviation, TAILS_TO_SD * (high - low))


def sorted_median(ordered: Sequence[float]) -> float:
    """Return the median of a few numbers in order of size, ten times as fast as numpy's."""
    half = len(ordered) // 2
    return (ordered[half] + ordered[~half]) / 2


def sliding_medians(values: np.ndarray, size: int) -> np.ndarray:
    """Return the median of each `size` successive `values`, the first ones first."""
    # Sorting rows takes a third of the time of numpy's median of them.
    rows = np.sort(sliding_window_view(values, size), axis=1)
    return np.asarray((rows[:, (size - 1) // 2] + rows[:, size // 2]) / 2)


def _of_sorted(numbers: np.ndarray, quantile: float) -> float:
    position = quantile * (numbers.size - 1)
    below = int(position)
    above = min(below + 1, numbers.size - 1)
    low, high = float(numbers[below]), float(numbers[above])
    return low + (position - below) * (high - low)


def student_quantile(probability: float, *, degrees: float) -> float:
    """Return the quantile of Student's distribution with `degrees` of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, probability))


def _between_launches(medians: Sequence[float], *, prior: Spread | None) -> Estimate:
    value = sorted_median(sorted(medians))
    is_positive = min(medians) > 0
    numbers = np.log(medians) if is_positive else np.asarray(medians, dtype=float)
    degrees = float(len(medians) - 1)
    squares = degrees * float(np.var(numbers, ddof=1))
    # Exactly repeated values have no spread to moderate.
    if prior is not None and is_positive and squares > 0:
        degrees += prior.degrees
        squares += prior.degrees * prior.sd**2
    quantile = student_quantile((1 + CONFIDENCE) / 2, degrees=degrees)
    margin = quantile * math.sqrt(squares / degrees / len(medians))
    low, high = float(np.mean(numbers)) - margin, float(np.mean(numbers)) + margin
    if is_positive:
        low, high = math.exp(low), math.exp(high)
    return Estimate(value, min(low, value), max(high, value))
