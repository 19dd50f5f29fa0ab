from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtri

from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG
from compile_hud.runner.analysis.detection.noise_densities import (
    NUM_PARAMETERS,
    KernelDensity,
    StudentDensity,
    TwoStateMarkov,
    find_two_modes,
)
from compile_hud.runner.analysis.stats.estimates import robust_sd

APART, SPREAD = 1.2, 0.15


def noise_of(is_slow: np.ndarray, *, seed: int = 0) -> np.ndarray:
    """Return nights in one of two modes, the slow one APART from the other."""
    quantiles = ndtri((np.arange(is_slow.size) + 0.5) / is_slow.size)
    return APART * is_slow + SPREAD * np.random.default_rng([seed, 1]).permutation(quantiles)


def single_nights(seed: int, *, num_nights: int = 60) -> np.ndarray:
    """Return which nights are slow where each is by itself, three of ten."""
    return np.asarray(np.random.default_rng(seed).permutation(num_nights) < 0.3 * num_nights)


def in_a_row(*, num_nights: int = 60) -> np.ndarray:
    """Return which nights are slow where six follow each other, after fourteen that are not."""
    return np.asarray(np.arange(num_nights) % 20 >= 14)


def chain_of(noise: np.ndarray) -> TwoStateMarkov:
    chain = find_two_modes(noise, sd=robust_sd(noise))
    assert chain is not None
    return chain


def log_densities(chain: TwoStateMarkov, nights: list[float]) -> list[float]:
    return [float(log) for log in chain.log_density(np.array([nights]))[0]]


@pytest.mark.parametrize("seed", range(5))
def test_both_modes_are_detected_with_their_width_and_share(seed: int) -> None:
    chain = chain_of(noise_of(single_nights(seed), seed=seed))
    assert chain.centres == pytest.approx([0.0, APART], abs=0.1)
    assert chain.shares == pytest.approx([0.7, 0.3], abs=0.05)
    width = math.hypot(SPREAD, DEFAULT_CONFIG.min_bandwidth)
    assert np.sqrt(chain.variances) == pytest.approx([width, width], rel=0.15)


def test_a_few_outliers_are_no_mode() -> None:
    noise = noise_of(single_nights(1))
    noise[[3, 20, 41]] = 6.0
    assert chain_of(noise).centres == pytest.approx([0.0, APART], abs=0.1)


def test_a_density_holds_all_but_the_tails_within_the_range_of_outliers() -> None:
    nights = np.linspace(
        -DEFAULT_CONFIG.outlier_range / 2, DEFAULT_CONFIG.outlier_range / 2, 20_001
    )
    logs = chain_of(noise_of(single_nights(2))).log_density(nights[:, None])[:, 0]
    assert np.trapezoid(np.exp(logs), nights) == pytest.approx(1.0, abs=0.01)


def test_a_persistent_mode_is_expected_to_persist() -> None:
    holding, single = chain_of(noise_of(in_a_row())), chain_of(noise_of(single_nights(3)))
    _, after_slow = log_densities(holding, [APART, APART])
    _, after_fast = log_densities(holding, [0.0, APART])
    assert after_slow > after_fast + 1.5
    _, after_slow = log_densities(single, [APART, APART])
    _, after_fast = log_densities(single, [0.0, APART])
    assert after_slow == pytest.approx(after_fast, abs=0.6)


def test_the_first_night_follows_the_last_of_the_noise() -> None:
    noise = noise_of(in_a_row(num_nights=58))
    ends_slow, ends_fast = chain_of(noise), chain_of(noise[:54])
    assert log_densities(ends_slow, [APART])[0] > log_densities(ends_fast, [APART])[0] + 1


def test_an_outlier_does_not_predict_the_mode_of_the_next_night() -> None:
    chain = chain_of(noise_of(in_a_row()))
    _, after_outlier = log_densities(chain, [9.0, APART])
    _, after_slow = log_densities(chain, [APART, APART])
    _, after_fast = log_densities(chain, [0.0, APART])
    assert after_fast < after_outlier < after_slow


@pytest.mark.parametrize("seed", range(5))
def test_two_modes_are_likelier_by_the_chain_and_one_peak_is_not(seed: int) -> None:
    modes = noise_of(single_nights(seed), seed=seed)
    peak = 0.5 * np.random.default_rng(seed).permutation(ndtri((np.arange(60) + 0.5) / 60))
    for noise, is_chain in ((modes, True), (peak, False)):
        sd = robust_sd(noise)
        bell = StudentDensity(noise, sd=sd, level_error=0.0).log_likelihood()
        kernel = KernelDensity(noise, sd=sd, level_error=0.0).log_likelihood()
        assert (chain_of(noise).log_likelihood() > max(bell, kernel)) is is_chain


def test_parameters_cost_what_they_are_worth_by_chance() -> None:
    """The first night of the noise follows none."""
    noise = noise_of(single_nights(4))
    chain = chain_of(noise)
    by_itself = np.exp(log_densities(chain, noise.tolist())[1:])
    cost = np.log(by_itself).sum() - chain.log_likelihood()
    parts = np.exp(-0.5 * (noise[0] - chain.centres) ** 2 / chain.variances)
    parts *= 0.97 / np.sqrt(2 * math.pi * chain.variances)
    first = math.log(
        float(chain.shares @ chain.transitions @ parts) + 0.03 / DEFAULT_CONFIG.outlier_range
    )
    assert cost + first == pytest.approx(NUM_PARAMETERS / 2 * math.log(noise.size))


def test_too_few_points_are_one_mode() -> None:
    noise = noise_of(single_nights(5, num_nights=2 * DEFAULT_CONFIG.min_mode_points))
    assert find_two_modes(noise, sd=robust_sd(noise)) is None


def test_nights_all_alike_are_reported_too() -> None:
    chain = chain_of(np.zeros(40))
    assert math.isfinite(chain.log_likelihood())
    assert np.isfinite(chain.log_density(np.array([[0.0, 1.2, 30.0]]))).all()
