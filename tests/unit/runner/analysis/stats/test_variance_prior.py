"""The distribution of variances over an ensemble."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import polygamma

from compile_hud.runner.analysis.stats.estimates import Spread
from compile_hud.runner.analysis.stats.variance_prior import (
    MIN_SD,
    MIN_VARIANCES,
    fit_variance_prior,
    moderated,
    trigamma_inverse,
)


def variances(
    generator: np.random.Generator, *, num: int, degrees: float, prior: Spread
) -> np.ndarray:
    """Return sample variances of an ensemble whose true variances come from `prior`."""
    true = np.full(num, prior.sd**2)
    if math.isfinite(prior.degrees):
        true = prior.sd**2 * prior.degrees / generator.chisquare(prior.degrees, num)
    return true * generator.chisquare(degrees, num) / degrees


@pytest.mark.parametrize("prior", [Spread(0.02, 4.0), Spread(0.3, 12.0)])
@pytest.mark.parametrize("degrees", [2.0, 20.0])
def test_planted_prior_comes_back(prior: Spread, degrees: float) -> None:
    generator = np.random.default_rng(0)
    sample = variances(generator, num=20_000, degrees=degrees, prior=prior)
    fitted = fit_variance_prior(sample, [degrees] * len(sample))
    assert fitted is not None
    assert fitted.sd == pytest.approx(prior.sd, rel=0.03)
    assert fitted.degrees == pytest.approx(prior.degrees, rel=0.15)


def test_variances_that_differ_by_chance_alone_share_one() -> None:
    generator = np.random.default_rng(1)
    sample = variances(generator, num=40, degrees=4, prior=Spread(0.02, math.inf))
    fitted = fit_variance_prior(sample, [4.0] * len(sample))
    assert fitted is not None
    assert fitted.sd == pytest.approx(0.02, rel=0.2)
    assert fitted.degrees > 20


def test_too_few_variances_have_no_prior() -> None:
    assert fit_variance_prior([1.0] * (MIN_VARIANCES - 1), [2.0] * (MIN_VARIANCES - 1)) is None
    assert fit_variance_prior([1.0] * MIN_VARIANCES, [0.0] * MIN_VARIANCES) is None


def test_what_always_repeats_has_the_smallest_spread() -> None:
    fitted = fit_variance_prior([0.0] * 10, [4.0] * 10)
    assert fitted is not None
    assert fitted.sd == pytest.approx(MIN_SD, rel=0.3)


@given(st.lists(st.floats(1e-5, 10), min_size=MIN_VARIANCES, max_size=20), st.floats(1.1, 50))
def test_the_prior_scales_with_the_unit(sample: list[float], factor: float) -> None:
    degrees = [3.0] * len(sample)
    plain = fit_variance_prior(sample, degrees)
    scaled = fit_variance_prior([factor**2 * value for value in sample], degrees)
    assert plain is not None
    assert scaled is not None
    assert scaled.sd == pytest.approx(factor * plain.sd, rel=1e-6)
    assert scaled.degrees == pytest.approx(plain.degrees, rel=1e-6)


@given(st.floats(1e-4, 1), st.floats(1e-4, 1), st.floats(1, 50), st.floats(1, 50))
def test_a_moderated_spread_lies_between_both(
    own: float, prior_sd: float, degrees: float, prior_degrees: float
) -> None:
    spread = moderated(own**2, degrees=degrees, prior=Spread(prior_sd, prior_degrees))
    low, high = sorted((own, prior_sd))
    assert low * (1 - 1e-9) <= spread.sd <= high * (1 + 1e-9)
    assert spread.degrees == pytest.approx(degrees + prior_degrees)


def test_a_prior_without_doubt_is_all_that_counts() -> None:
    prior = Spread(0.02, math.inf)
    assert moderated(1.0, degrees=5, prior=prior) == prior


@pytest.mark.parametrize("value", [1e-9, 1e-3, 0.5, 1.0, 40.0, 1e9])
def test_inverse_of_trigamma(value: float) -> None:
    assert float(polygamma(1, trigamma_inverse(value))) == pytest.approx(value, rel=1e-6)
