"""Shares of a loss that a change takes back, from launches in turn. Pure.

Method: a round launches the good build, the bad one and each mixture next to each other. In a
round the loss is 1 - good / bad of the time, and the gain of a mixture 1 - mixture / bad. Its share
is the mean gain over the mean loss, with Fieller's interval of a ratio of two means that depend on
each other (Fieller, Some Problems in Interval Estimation, 1954). Disturbed rounds are left out by
the sum of all their times, as in paired.py. If the good build is not launched, the loss is a known
one, with an interval of its own.
Assumptions: rounds are independent, and differences of launches in one round nearly normal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from compile_hud.runner.analysis.comparison.bisection import BoundsVerdict
from compile_hud.runner.analysis.comparison.paired import calm_pairs
from compile_hud.runner.analysis.stats.estimates import CONFIDENCE, Estimate, student_quantile

# A smaller share of a loss is not worth a name, as in `hud isolate`.
LEAST_SHARE = 0.2
_PROBABILITY = (1 + CONFIDENCE) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class LossShare:
    """A part of the loss, with its 95 % interval; the bounds are None if the loss is not clear."""

    share: float
    low: float | None
    high: float | None

    @property
    def is_effect(self) -> bool:
        """Return whether the share is large enough to be named, and no noise."""
        is_clear = self.low is not None and self.high is not None
        return is_clear and abs(self.share) >= LEAST_SHARE and not self._covers(0.0)

    @property
    def rest(self) -> LossShare:
        """Return the rest of the loss."""
        low, high = self.low, self.high
        return LossShare(
            share=1 - self.share,
            low=None if high is None else 1 - high,
            high=None if low is None else 1 - low,
        )

    @property
    def half_width(self) -> float:
        """Return half of the interval's width, infinite if the loss is not clear."""
        if self.low is None or self.high is None:
            return math.inf
        return (self.high - self.low) / 2

    def _covers(self, share: float) -> bool:
        return self.low is not None and self.high is not None and self.low <= share <= self.high


def calm_rounds(*times: Sequence[float]) -> list[int]:
    """Return the numbers of the undisturbed rounds, in order; each row of `times` is a side."""
    logs = np.sum([np.log(side) for side in times], axis=0)
    half = np.exp(logs / 2)
    return sorted(int(number) for number in calm_pairs(half, half))


def loss_ratio(good: Sequence[float], bad: Sequence[float]) -> Estimate:
    """Return the times of the bad build over those of the good one; both have two rounds or more.

    The value is the geometric mean of the rounds' ratios.
    """
    logs = np.log(np.asarray(bad) / np.asarray(good))
    middle, margin = float(np.mean(logs)), _margin(logs)
    return Estimate(math.exp(middle), math.exp(middle - margin), math.exp(middle + margin))


def judge_loss(loss: Estimate, *, floor: float) -> BoundsVerdict:
    """Return whether a loss, as a ratio, is at least `floor` (0.05 is 5 %) and no noise."""
    if loss.low > 1 and loss.value >= 1 + floor:
        return BoundsVerdict.DIFFER
    return BoundsVerdict.SAME if loss.high < 1 + floor else BoundsVerdict.UNCLEAR


def share_of_loss(
    mixture: Sequence[float], *, good: Sequence[float], bad: Sequence[float]
) -> LossShare:
    """Return the share of the loss that is gone in `mixture`; each has two rounds or more."""
    gains = 1 - np.asarray(mixture) / np.asarray(bad)
    losses = 1 - np.asarray(good) / np.asarray(bad)
    squares = np.cov(gains, losses) / len(gains)
    return _ratio(
        (float(np.mean(gains)), float(np.mean(losses))),
        squares=(float(squares[0, 0]), float(squares[0, 1]), float(squares[1, 1])),
        quantile=student_quantile(_PROBABILITY, degrees=len(gains) - 1),
    )


def share_of_known_loss(
    mixture: Sequence[float], *, bad: Sequence[float], loss: Estimate
) -> LossShare:
    """Return the share of a loss whose ratio, bad over good, is known from earlier runs."""
    gains = 1 - np.asarray(mixture) / np.asarray(bad)
    quantile = student_quantile(_PROBABILITY, degrees=len(gains) - 1)
    half = (1 / loss.low - 1 / loss.high) / 2
    return _ratio(
        (float(np.mean(gains)), 1 - 1 / loss.value),
        squares=(float(np.var(gains, ddof=1)) / len(gains), 0.0, (half / quantile) ** 2),
        quantile=quantile,
    )


def _margin(values: np.ndarray) -> float:
    deviation = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return student_quantile(_PROBABILITY, degrees=len(values) - 1) * deviation


def _ratio(
    means: tuple[float, float], *, squares: tuple[float, float, float], quantile: float
) -> LossShare:
    """Return gain over loss with Fieller's interval.

    `squares` are the variance of the first mean, the covariance of both, and that of the second.
    """
    gain, loss = means
    if loss == 0:
        return LossShare(share=math.nan, low=None, high=None)
    of_gain, of_both, of_loss = squares
    # The bounds are the roots of a x^2 - 2 b x + c.
    a = loss**2 - quantile**2 * of_loss
    b = gain * loss - quantile**2 * of_both
    c = gain**2 - quantile**2 * of_gain
    root = b**2 - a * c
    if a <= 0 or root < 0:
        return LossShare(share=gain / loss, low=None, high=None)
    width = math.sqrt(root)
    return LossShare(share=gain / loss, low=(b - width) / a, high=(b + width) / a)
