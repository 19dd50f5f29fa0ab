from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG
from compile_hud.runner.analysis.detection.variance import find_noise_changes
from compile_hud.runner.analysis.detector import describe_steps
from tests.support.examples import examples

SEEDS = st.integers(min_value=0, max_value=10_000)


def noisy(stretches: list[tuple[int, float]], *, seed: int = 0) -> np.ndarray:
    """Return a history on one level of `(number of points, noise)` pairs."""
    generator = np.random.default_rng(seed)
    sds = np.concatenate([np.full(num_points, sd) for num_points, sd in stretches])
    return np.asarray(np.exp(sds * generator.standard_normal(sds.size)))


def two_modes(*, seed: int, num_nights: int = 14, gap_sds: float = 6.0) -> np.ndarray:
    """Return a year of 1 % noise on two levels that each hold for `num_nights` on average."""
    generator = np.random.default_rng(seed)
    mode = np.cumsum(generator.random(365) < 1 / num_nights) % 2
    return np.asarray(np.exp(0.01 * (generator.standard_normal(365) + gap_sds * mode)))


def num_grown(values: np.ndarray) -> int:
    """Return how often the noise is found to grow in the stretches between the steps."""
    breaks = [step.index for step in describe_steps(values)]
    return sum(change.grew for change in find_noise_changes(values, breaks=breaks))


def test_noise_four_times_as_large_is_detected_where_it_begins() -> None:
    (change,) = find_noise_changes(noisy([(60, 0.01), (60, 0.04)]))
    assert change.index == pytest.approx(60, abs=8)
    assert (change.start, change.end) == (0, 120)
    assert change.before == pytest.approx(0.01, rel=0.4)
    assert change.after == pytest.approx(0.04, rel=0.4)
    assert change.factor == change.after / change.before
    assert change.low < 4 < change.high
    assert change.grew


def test_noise_that_falls_is_detected_too() -> None:
    (change,) = find_noise_changes(noisy([(60, 0.04), (60, 0.01)]))
    assert not change.grew
    assert change.high < 1


def test_noise_that_grows_and_falls_changes_twice() -> None:
    first, second = find_noise_changes(noisy([(60, 0.01), (60, 0.05), (60, 0.01)]))
    assert (first.start, first.end) == (0, second.index)
    assert (second.start, second.end) == (first.index, 180)


def test_single_outliers_are_no_change_of_the_noise() -> None:
    values = noisy([(120, 0.01)])
    values[[70, 80, 95, 110]] *= 1.3
    assert find_noise_changes(values) == []


def test_slow_drift_is_no_change_of_the_noise() -> None:
    values = noisy([(150, 0.01)]) * np.exp(np.arange(150) * 0.01 / 7)
    assert find_noise_changes(values) == []


def test_step_that_is_known_is_no_change_of_the_noise() -> None:
    values = noisy([(120, 0.01)])
    values[60:] *= 1.2
    assert find_noise_changes(values, breaks=[60]) == []


def test_noise_of_two_levels_is_not_compared() -> None:
    values = noisy([(60, 0.01), (60, 0.04)])
    assert find_noise_changes(values, breaks=[60]) == []


def test_exact_repeats_have_no_noise_that_could_change() -> None:
    assert find_noise_changes(np.ones(120)) == []


def test_noise_that_appears_where_numbers_repeated_exactly_is_detected() -> None:
    (change,) = find_noise_changes(np.concatenate([np.ones(60), noisy([(60, 0.02)])]))
    assert change.index == pytest.approx(60, abs=DEFAULT_CONFIG.noise_after_points[0] // 2)


def test_short_histories_have_no_change() -> None:
    assert find_noise_changes(np.array([])) == []
    assert find_noise_changes(noisy([(14, 0.01), (14, 0.1)])) == []


def test_numbers_without_a_ratio_are_refused() -> None:
    with pytest.raises(ValueError, match="finite numbers above 0"):
        find_noise_changes(np.array([1.0, float("nan")]))


@settings(max_examples=examples(20))
@given(SEEDS, st.floats(min_value=1e-6, max_value=1e6))
def test_changes_do_not_depend_on_the_unit(seed: int, factor: float) -> None:
    values = noisy([(60, 0.01), (60, 0.04)], seed=seed)
    plain, scaled = find_noise_changes(values), find_noise_changes(values * factor)
    assert [change.index for change in plain] == [change.index for change in scaled]


@settings(max_examples=examples(20))
@given(SEEDS)
def test_change_once_detected_keeps_its_index_as_points_arrive(seed: int) -> None:
    values = noisy([(60, 0.01), (60, 0.05)], seed=seed)
    changes_by_night = [find_noise_changes(values[:stop]) for stop in range(60, 121, 3)]
    first = [changes[0].index for changes in changes_by_night if changes]
    assert first
    assert len(set(first)) == 1


@pytest.mark.nightly
def test_mode_that_holds_for_days_is_no_noise_that_grows() -> None:
    assert sum(num_grown(two_modes(seed=seed)) for seed in range(40)) <= 2


def test_noise_that_doubles_shows_within_a_month_more_often_than_not() -> None:
    counts = [num_grown(noisy([(180, 0.01), (30, 0.02)], seed=seed)) for seed in range(40)]
    assert sum(map(bool, counts)) >= 25


def test_points_that_follow_each_other_tell_less() -> None:
    values = np.log(noisy([(100, 0.01), (60, 0.04)]))
    # The same numbers, each beside others of about its distance.
    following = values.reshape(-1, 10)
    order = np.argsort(np.abs(following), axis=1)
    following = np.take_along_axis(following, order, axis=1).ravel()
    (one,), (other,) = (find_noise_changes(np.exp(logs)) for logs in (values, following))
    assert other.degrees < 0.7 * one.degrees
    assert other.high / other.low > one.high / one.low


def test_years_of_one_noise_have_hardly_a_change() -> None:
    changes = [find_noise_changes(noisy([(365, 0.01)], seed=seed)) for seed in range(40)]
    assert sum(map(len, changes)) <= 2
