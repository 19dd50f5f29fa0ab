"""A trend, two modes, different launches: detected when planted, not in plain noise."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from compile_hud.runner.analysis.stats.sample_checks import (
    MIN_DRIFT,
    MIN_DRIFT_SAMPLES,
    MIN_DRIFT_Z,
    MIN_MODE_SAMPLES,
    drift,
    find_modes,
    half_width,
    min_spread,
)

Noise = Callable[[np.random.Generator, int], np.ndarray]

NOISES: dict[str, Noise] = {
    "lognormal 2 %": lambda rng, n: np.exp(rng.normal(0, 0.02, n)),
    "lognormal 20 %": lambda rng, n: np.exp(rng.normal(0, 0.2, n)),
    "heavy tails": lambda rng, n: np.exp(0.05 * rng.standard_t(3, n)),
    "only ever slower": lambda rng, n: 1 + 0.1 * rng.exponential(1, n),
}


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_plain_noise_hardly_ever_has_two_modes(noise: Noise) -> None:
    rng = np.random.default_rng(1)
    assert sum(find_modes(noise(rng, 30)) is not None for _ in range(500)) <= 2


@pytest.mark.parametrize("noise", NOISES.values(), ids=NOISES)
def test_plain_noise_hardly_ever_drifts(noise: Noise) -> None:
    rng = np.random.default_rng(2)
    drifts = [drift([noise(rng, 30) for _ in range(3)]) for _ in range(300)]
    assert sum(abs(z) > MIN_DRIFT_Z and abs(change) > MIN_DRIFT for z, change in drifts) <= 1


@pytest.mark.parametrize("block", [1, 5, 15])
def test_two_modes_are_detected_in_whatever_order_they_come(block: int) -> None:
    samples = np.exp(np.random.default_rng(3).normal(0, 0.02, 30))
    samples[np.arange(30) // block % 2 == 1] *= 1.5
    modes = find_modes(samples)
    assert modes is not None
    assert modes.low == pytest.approx(1.0, rel=0.03)
    assert modes.high == pytest.approx(1.5, rel=0.03)
    assert modes.high_share == pytest.approx(0.5, abs=0.02)


def two_levels(n: int, *, upper: float, num_upper: int) -> np.ndarray:
    lower, high = np.linspace(1, 1.001, n - num_upper), np.linspace(1, 1.001, num_upper) * upper
    return np.concatenate([lower, high])


def test_few_samples_show_no_modes() -> None:
    assert find_modes(two_levels(MIN_MODE_SAMPLES - 1, upper=2.0, num_upper=9)) is None
    assert find_modes(two_levels(MIN_MODE_SAMPLES, upper=2.0, num_upper=10)) is not None


def test_a_few_outliers_are_no_mode() -> None:
    assert find_modes(two_levels(30, upper=2.0, num_upper=5)) is None
    assert find_modes(two_levels(30, upper=2.0, num_upper=6)) is not None


def test_modes_closer_than_the_floor_do_not_matter() -> None:
    assert find_modes(two_levels(30, upper=1.04, num_upper=15)) is None


def test_modes_without_any_spread_are_infinitely_far_apart() -> None:
    modes = find_modes(np.r_[np.ones(15), np.full(15, 2.0)])
    assert modes is not None
    assert modes.distance == math.inf


def test_a_trend_is_detected_with_its_size_and_direction() -> None:
    rng = np.random.default_rng(4)
    up = [np.linspace(1.0, 1.2, 30) * np.exp(rng.normal(0, 0.02, 30)) for _ in range(3)]
    z, change = drift(up)
    assert z > MIN_DRIFT_Z
    assert change == pytest.approx(0.2 / 1.1, abs=0.04)
    z_down, change_down = drift([part[::-1] for part in up])
    assert z_down == pytest.approx(-z)
    assert change_down == pytest.approx(-change)


def test_the_scale_of_the_samples_does_not_matter() -> None:
    part = np.linspace(1.0, 1.2, 30)
    assert drift([part * 1e-6]) == pytest.approx(drift([part]))


def test_trends_that_cancel_are_none() -> None:
    part = np.linspace(1.0, 1.2, 30)
    assert drift([part, part[::-1]])[0] == 0.0


def test_short_launches_show_no_trend() -> None:
    assert drift([np.arange(1.0, MIN_DRIFT_SAMPLES)]) == (0.0, 0.0)
    assert drift([np.arange(1.0, MIN_DRIFT_SAMPLES + 1)])[0] > 0


def test_the_interval_over_launches_by_hand() -> None:
    # Two launches 2 % apart: Student's 12.71 times half the difference of the logarithms.
    assert half_width(np.array([1.0, 1.02])) == pytest.approx(12.706 * math.log(1.02) / 2, rel=1e-4)
    assert half_width(np.array([1.0])) == math.inf
    assert half_width(np.array([3.0, 3.0, 3.0])) == 0.0


def test_the_least_spread_of_launches_by_hand() -> None:
    # With two launches chi-square's 95 % point is 3.841.
    levels = np.array([1.0, 1.1])
    sd = math.log(1.1) / math.sqrt(2)
    assert min_spread(levels) == pytest.approx(sd / math.sqrt(3.841), rel=1e-3)
    assert min_spread(levels[:1]) == 0.0
