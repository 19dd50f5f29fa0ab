"""Shares of a loss from rounds of launches."""

from __future__ import annotations

import math

import numpy as np
import pytest

from compile_hud.runner.analysis.comparison.bisection import BoundsVerdict
from compile_hud.runner.analysis.stats.estimates import Estimate
from compile_hud.runner.transplant.shares import (
    LossShare,
    calm_rounds,
    judge_loss,
    loss_ratio,
    share_of_known_loss,
    share_of_loss,
)

GOOD, BAD = 0.010, 0.015


def rounds(level: float, drift: np.ndarray, *, seed: int, sd: float = 0.01) -> list[float]:
    """Return the times of a side whose rounds drift together."""
    noise = np.random.default_rng(seed).normal(0, sd, len(drift))
    return [float(value) for value in level * np.exp(drift + noise)]


def drift_of(num_rounds: int, *, sd: float = 0.2) -> np.ndarray:
    return np.cumsum(np.random.default_rng(9).normal(0, sd, num_rounds))


def test_a_mixture_between_both_has_its_part_of_the_loss() -> None:
    drift = drift_of(12)
    sides = [rounds(level, drift, seed=seed) for seed, level in enumerate((0.012, GOOD, BAD))]
    share = share_of_loss(sides[0], good=sides[1], bad=sides[2])
    assert share.low is not None
    assert share.high is not None
    assert share.low < 0.6 < share.high
    assert share.half_width < 0.1
    assert share.is_effect


def test_the_interval_covers_the_truth_as_often_as_it_says() -> None:
    num_covered = 0
    for trial in range(300):
        drift = drift_of(8)
        sides = [
            rounds(level, drift, seed=3 * trial + number)
            for number, level in enumerate((0.0125, GOOD, BAD))
        ]
        share = share_of_loss(sides[0], good=sides[1], bad=sides[2])
        assert share.low is not None
        assert share.high is not None
        num_covered += share.low <= 0.5 <= share.high
    assert 0.91 <= num_covered / 300 <= 0.99


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_the_share_has_no_unit(factor: float) -> None:
    drift = drift_of(6)
    sides = [rounds(level, drift, seed=4) for level in (0.012, GOOD, BAD)]
    one = share_of_loss(sides[0], good=sides[1], bad=sides[2])
    sides = [[factor * time_s for time_s in side] for side in sides]
    other = share_of_loss(sides[0], good=sides[1], bad=sides[2])
    assert other.share == pytest.approx(one.share)


def test_the_rest_mirrors_the_share() -> None:
    rest = LossShare(share=0.94, low=0.89, high=0.99).rest
    assert (rest.share, rest.low, rest.high) == pytest.approx((0.06, 0.01, 0.11))
    assert not rest.is_effect
    assert LossShare(share=0.2, low=0.1, high=0.3).rest.is_effect


def test_noise_and_small_shares_are_no_effect() -> None:
    assert not LossShare(share=0.5, low=-0.1, high=1.1).is_effect
    assert not LossShare(share=0.1, low=0.05, high=0.15).is_effect
    assert LossShare(share=-0.5, low=-0.6, high=-0.4).is_effect


def test_a_loss_within_noise_has_no_bounds() -> None:
    drift = drift_of(6)
    sides = [rounds(BAD, drift, seed=seed) for seed in range(3)]
    share = share_of_loss(sides[0], good=sides[1], bad=sides[2])
    assert (share.low, share.high) == (None, None)
    assert math.isinf(share.half_width)
    assert not share.is_effect
    assert (share.rest.low, share.rest.high) == (None, None)


def test_equal_times_have_no_share() -> None:
    share = share_of_loss([1.0, 1.0], good=[1.0, 1.0], bad=[1.0, 1.0])
    assert math.isnan(share.share)
    assert share.low is None


def test_a_known_loss_adds_its_own_uncertainty() -> None:
    drift = drift_of(10)
    mixture, bad = (rounds(level, drift, seed=seed) for seed, level in ((1, GOOD), (2, BAD)))
    sure = share_of_known_loss(mixture, bad=bad, loss=Estimate(1.5, 1.499, 1.501))
    unsure = share_of_known_loss(mixture, bad=bad, loss=Estimate(1.5, 1.3, 1.7))
    assert sure.share == unsure.share == pytest.approx(1, abs=0.05)
    assert sure.half_width < 0.1 < unsure.half_width


def test_the_loss_is_a_ratio_with_its_interval() -> None:
    drift = drift_of(10)
    good, bad = (rounds(level, drift, seed=seed) for seed, level in ((1, GOOD), (2, BAD)))
    loss = loss_ratio(good, bad)
    assert loss.low < 1.5 < loss.high
    assert loss.high / loss.low < 1.05


@pytest.mark.parametrize(
    ("ratio", "low", "high", "verdict"),
    [
        (1.3, 1.2, 1.4, BoundsVerdict.DIFFER),
        (1.3, 0.9, 1.9, BoundsVerdict.UNCLEAR),
        (1.04, 1.01, 1.07, BoundsVerdict.UNCLEAR),
        (1.01, 1.005, 1.02, BoundsVerdict.SAME),
        (0.7, 0.6, 0.8, BoundsVerdict.SAME),
    ],
)
def test_a_loss_is_judged_by_its_interval(
    ratio: float, low: float, high: float, verdict: BoundsVerdict
) -> None:
    assert judge_loss(Estimate(ratio, low, high), floor=0.05) is verdict


def test_a_disturbed_round_is_left_out() -> None:
    good, bad = [0.010] * 8, [0.0150 + 0.0001 * number for number in range(8)]
    bad[3] = 0.060
    calm = calm_rounds(good, bad)
    assert 3 not in calm
    assert len(calm) >= 6
