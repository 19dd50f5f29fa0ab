"""The spread of a series' runs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compile_hud.runner.analysis.stats.run_spread import MIN_RUNS, run_spread
from compile_hud.runner.analysis.stats.variance_prior import MIN_SD


def history(seed: int = 0, *, num: int = 60, sd: float = 0.02) -> np.ndarray:
    return np.exp(sd * np.random.default_rng(seed).standard_normal(num))


def test_planted_spread_comes_back_on_average() -> None:
    spreads = [run_spread(history(seed)) for seed in range(200)]
    variances = [spread.sd**2 for spread in spreads if spread is not None]
    assert np.mean(variances) == pytest.approx(0.02**2, rel=0.05)


def test_degrees_are_those_of_the_scatter_of_the_estimate() -> None:
    spreads = [run_spread(history(seed, num=20)) for seed in range(2000)]
    variances = [spread.sd**2 for spread in spreads if spread is not None]
    degrees = 2 * np.mean(variances) ** 2 / np.var(variances)
    assert spreads[0] is not None
    assert degrees == pytest.approx(spreads[0].degrees, rel=0.25)


@pytest.mark.parametrize("step", [1.1, 2.0])
def test_a_step_is_no_noise(step: float) -> None:
    calm = history()
    stepped = calm * np.where(np.arange(60) < 30, 1.0, step)
    before, after = run_spread(calm), run_spread(stepped)
    assert before is not None
    assert after is not None
    assert after.sd < 1.15 * before.sd


def test_a_step_in_a_short_history_is_no_noise() -> None:
    calm = [1.0, 1.01, 0.99, 1.0, 1.01, 1.0]
    spread = run_spread([*calm[:3], *(1.3 * value for value in calm[3:])])
    assert spread is not None
    assert spread.sd < 0.03


def test_a_drift_is_no_noise() -> None:
    drifting = history() * 1.002 ** np.arange(60)
    spread = run_spread(drifting)
    assert spread is not None
    assert spread.sd == pytest.approx(0.02, rel=0.25)


def test_one_wild_night_counts_as_a_bad_one() -> None:
    wild = history()
    wild[20] *= 50
    spread = run_spread(wild)
    assert spread is not None
    assert spread.sd < 0.03


def test_few_runs_have_no_spread_and_0_is_no_level() -> None:
    assert run_spread([1.0] * (MIN_RUNS - 1)) is None
    assert run_spread([1.0, 0.0, 1.1, 1.0, 1.0]) is None


@pytest.mark.parametrize("last", [1.0, 1.1])
def test_what_mostly_repeats_exactly_has_steps_and_no_noise(last: float) -> None:
    spread = run_spread([1.0] * 10 + [last] * 3)
    assert spread is not None
    assert spread.sd == MIN_SD


@given(st.integers(0, 50), st.floats(1e-6, 1e6))
def test_the_spread_does_not_depend_on_the_unit(seed: int, factor: float) -> None:
    plain, scaled = run_spread(history(seed, num=8)), run_spread(factor * history(seed, num=8))
    assert plain is not None
    assert scaled is not None
    assert scaled.sd == pytest.approx(plain.sd)
