from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri

from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG
from compile_hud.runner.analysis.detection.noise_densities import KernelDensity, StudentDensity
from compile_hud.runner.analysis.stats.estimates import robust_sd

PEAK = 2 / (np.pi * np.sqrt(3))


def normal_noise(seed: int, *, sd: float = 0.5, num_nights: int = 50) -> np.ndarray:
    """Return the quantiles of a normal distribution in any order."""
    quantiles = ndtri((np.arange(num_nights) + 0.5) / num_nights)
    return sd * np.random.default_rng(seed).permutation(quantiles)


def with_modes(seed: int) -> np.ndarray:
    """Return noise of two modes, a floor and a half apart, each night in either by chance."""
    is_slow = np.random.default_rng(seed).random(50) < 0.3
    return np.where(is_slow, 1.5, 0.0) + normal_noise(seed + 1, sd=0.1)


def kernel_of(noise: np.ndarray) -> KernelDensity:
    return KernelDensity(noise, sd=robust_sd(noise), level_error=0.0)


def bell_of(noise: np.ndarray, *, level_error: float = 0.0) -> StudentDensity:
    return StudentDensity(noise, sd=robust_sd(noise), level_error=level_error)


def student(distances: np.ndarray) -> np.ndarray:
    return np.asarray((1 + distances**2 / 3) ** -2)


@pytest.mark.parametrize("noise", [normal_noise(1), with_modes(2), np.zeros(8)])
def test_both_densities_hold_all_but_the_tails_within_the_range_of_outliers(
    noise: np.ndarray,
) -> None:
    nights = np.linspace(
        -DEFAULT_CONFIG.outlier_range / 2, DEFAULT_CONFIG.outlier_range / 2, 20_001
    )
    for density in (bell_of(noise), kernel_of(noise)):
        logs = density.log_density(nights[:, None])[:, 0]
        assert np.trapezoid(np.exp(logs), nights) == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("seed", range(5))
def test_clean_noise_is_likelier_by_the_bell_and_modes_by_the_kernel(seed: int) -> None:
    clean, modes = normal_noise(seed), with_modes(seed)
    assert bell_of(clean).log_likelihood() > kernel_of(clean).log_likelihood()
    assert bell_of(modes).log_likelihood() < kernel_of(modes).log_likelihood()


def test_the_kernel_tells_each_point_by_all_the_others() -> None:
    noise = with_modes(3)[:9]
    kernel = kernel_of(noise)
    near = student((noise[:, None] - noise) / kernel.width)
    expected = 0.0
    for night, point in enumerate(noise):
        weights = np.ones(noise.size)
        if night > 0:
            unlike = np.concatenate([[0.0], DEFAULT_CONFIG.unlike_weight + near[night - 1, :-1]])
            weights = DEFAULT_CONFIG.stay_weight * near[night - 1] + unlike
        weights[night] = 0.0
        learnt = weights @ near[night] / weights.sum() * PEAK / kernel.width
        prior = PEAK / DEFAULT_CONFIG.prior_sd * student(point / DEFAULT_CONFIG.prior_sd)
        share = DEFAULT_CONFIG.prior_nights / (noise.size + DEFAULT_CONFIG.prior_nights)
        density = (1 - share) * learnt + share * prior
        expected += np.log(
            (1 - DEFAULT_CONFIG.outlier_share) * density
            + DEFAULT_CONFIG.outlier_share / DEFAULT_CONFIG.outlier_range
        )
    assert kernel.log_likelihood() == pytest.approx(expected)


def test_a_night_on_a_mode_is_likely_by_the_kernel_alone() -> None:
    noise = with_modes(4)
    on_mode = np.array([[1.5]])
    by_kernel = kernel_of(noise).log_density(on_mode)[0, 0]
    assert by_kernel > bell_of(noise).log_density(on_mode)[0, 0] + 0.5


def test_the_bell_finds_the_width_of_normal_noise_and_is_never_finer_than_a_tenth() -> None:
    noise = normal_noise(5, num_nights=2000)
    at_0, at_2_sd = np.exp(bell_of(noise).log_density(np.array([[0.0, 1.0]])))[0]
    assert at_2_sd / at_0 == pytest.approx(np.exp(-2), rel=0.1)
    finest = np.exp(bell_of(np.zeros(20)).log_density(np.array([[0.0]])))
    assert finest[0, 0] < 1 / (np.sqrt(2 * np.pi) * DEFAULT_CONFIG.min_bandwidth) + 1
