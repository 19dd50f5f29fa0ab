from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compile_hud.runner.analysis.detection.drift import Drift, find_drifts
from compile_hud.runner.analysis.detector import describe_steps
from tests.support.examples import examples

SEEDS = st.integers(min_value=0, max_value=10_000)
WEEKLY_PERCENT = 0.01 / 7


def drifts_of(
    values: np.ndarray, *, floor: float = 0.05, breaks: Iterable[int] = ()
) -> list[Drift]:
    """Return what is found with the floor that most metrics have."""
    return find_drifts(values, floor=floor, breaks=breaks)


def noisy(logs: np.ndarray, *, cv: float = 0.01, seed: int = 0) -> np.ndarray:
    """Return a history around levels given by their logarithms."""
    generator = np.random.default_rng(seed)
    return np.asarray(np.exp(logs + cv * generator.standard_normal(logs.size)))


def slope(num_flat: int, num_drifting: int, *, per_point: float = WEEKLY_PERCENT) -> np.ndarray:
    """Return the logarithms of a level that stays, and then drifts."""
    return per_point * np.clip(np.arange(num_flat + num_drifting) - num_flat, 0, None)


def test_one_percent_a_week_over_ten_weeks_is_a_drift() -> None:
    (drift,) = drifts_of(noisy(slope(20, 70)))
    assert drift.change == pytest.approx(0.1, abs=0.03)
    assert drift.low < 0.1 < drift.high
    assert drift.after / drift.before - 1 == pytest.approx(drift.change)


def test_ten_points_of_a_weekly_series_are_enough() -> None:
    (drift,) = drifts_of(noisy(slope(10, 10, per_point=-0.01), cv=0.003))
    assert drift.change < -0.05


def test_drift_is_not_over_while_it_goes_on_and_ends_where_it_ends() -> None:
    values = noisy(np.concatenate([slope(20, 70), np.full(60, 0.1)]))
    (drift,) = drifts_of(values)
    assert 0 <= drift.start <= 25
    assert 80 <= drift.end <= 130


def test_one_step_is_no_drift() -> None:
    assert drifts_of(noisy(np.repeat([0.0, 0.1], 45))) == []


@pytest.mark.parametrize("period", [7, 14])
def test_season_is_no_drift(period: int) -> None:
    wave = 0.03 * np.sin(2 * np.pi * np.arange(180) / period)
    assert drifts_of(noisy(wave)) == []


def test_season_of_a_year_that_has_been_seen_is_no_drift() -> None:
    wave = 0.04 * np.sin(2 * np.pi * np.arange(720) / 180)
    assert all(drift.start < 180 for drift in drifts_of(noisy(wave)))


def test_drift_shorter_than_the_floor_is_not_reported() -> None:
    assert drifts_of(noisy(slope(20, 70, per_point=0.0005), cv=0.003)) == []


def test_floor_moves_what_is_reported() -> None:
    values = noisy(slope(20, 40), cv=0.003)
    assert len(drifts_of(values, floor=0.05)) == 1
    assert drifts_of(values, floor=0.15) == []


def stepped(values: np.ndarray) -> list[Drift]:
    """Return the drifts of a history whose steps are those that the detector finds."""
    return drifts_of(values, breaks=[step.index for step in describe_steps(values)])


def test_drift_reaches_across_steps_that_it_was_taken_for() -> None:
    values = noisy(slope(0, 70), cv=0.003)
    assert drifts_of(values, breaks=[20, 45]) == drifts_of(values)
    assert len(drifts_of(values)) == 1


@pytest.mark.parametrize("num_levels", [3, 4])
def test_levels_between_steps_are_no_drift(num_levels: int) -> None:
    places = [10 * number for number in range(1, num_levels)]
    values = noisy(np.repeat(0.08 * np.arange(num_levels), 10))
    assert drifts_of(values, breaks=places) == []
    # Who knows of no step takes them for a drift.
    assert len(drifts_of(values)) == 1


def test_drift_of_a_month_is_reported_as_a_whole_though_it_looks_like_steps() -> None:
    histories = [noisy(slope(60, 30, per_point=0.006), cv=0.0125, seed=seed) for seed in range(40)]
    changes = [max((drift.change for drift in stepped(values)), default=0) for values in histories]
    # 18 % in all; the medians of the first block and of the last lie somewhat within.
    assert np.median(changes) == pytest.approx(0.176, abs=0.02)
    assert sum(change > 0.1 for change in changes) >= 35


@pytest.mark.parametrize("num_steps", [1, 2, 3])
def test_steps_in_short_order_are_rarely_a_drift(num_steps: int) -> None:
    levels = np.repeat(0.08 * np.arange(num_steps + 1), [60, *[10] * (num_steps - 1), 30])
    drifts = [stepped(noisy(levels, cv=0.02, seed=seed)) for seed in range(60)]
    assert sum(map(bool, drifts)) <= 4


def test_what_was_before_the_last_step_is_no_season_of_the_drift() -> None:
    # Better by a fifth, and then back within 120 points.
    logs = np.concatenate([np.zeros(40), np.full(30, -0.2), np.linspace(-0.2, -0.05, 100)])
    values = noisy(logs, cv=0.003)
    assert drifts_of(values) == []
    (drift,) = drifts_of(values, breaks=[40])
    assert drift.change == pytest.approx(0.14, abs=0.03)


def test_a_season_that_comes_back_is_no_drift_across_steps() -> None:
    # As high as before the step at 40: a window across that at 115 is no news.
    logs = np.concatenate([np.zeros(40), np.full(30, -0.2), np.linspace(-0.2, -0.05, 100)])
    drifts = drifts_of(noisy(logs, cv=0.003), breaks=[40, 115])
    assert [(drift.start, drift.end) for drift in drifts] == [(58, 115), (115, 170)]


def test_places_are_counted_from_the_start_of_the_history() -> None:
    values = noisy(slope(20, 70), cv=0.003)
    (alone,) = drifts_of(values)
    (shifted,) = drifts_of(np.concatenate([np.full(30, 2.0), values]), breaks=[30])
    assert (shifted.start, shifted.index) == (alone.start + 30, alone.index + 30)


def test_short_histories_have_no_drift() -> None:
    assert drifts_of(np.array([])) == []
    assert drifts_of(np.exp(np.arange(9) * 0.05)) == []


def test_numbers_without_a_ratio_are_refused() -> None:
    with pytest.raises(ValueError, match="finite numbers above 0"):
        drifts_of(np.array([1.0, 0.0]))


def test_drift_of_the_floor_is_detected_though_its_medians_lie_within_the_floor() -> None:
    values = noisy(np.linspace(0.0, 0.053, 80), cv=0.0002)
    (drift,) = drifts_of(values)
    assert drift.change == pytest.approx(0.8 * 0.053, abs=0.002)
    assert drift.change < 0.05


@settings(max_examples=examples(20))
@given(SEEDS)
def test_year_at_one_percent_noise_has_no_drift(seed: int) -> None:
    assert drifts_of(noisy(np.zeros(365), seed=seed)) == []


@settings(max_examples=examples(20))
@given(SEEDS, st.floats(min_value=1e-6, max_value=1e6))
def test_drifts_do_not_depend_on_the_unit(seed: int, factor: float) -> None:
    values = noisy(slope(10, 60), seed=seed)
    plain, scaled = drifts_of(values), drifts_of(values * factor)
    assert [drift.start for drift in plain] == [drift.start for drift in scaled]
    assert [drift.change for drift in plain] == pytest.approx([drift.change for drift in scaled])


@pytest.mark.nightly
@settings(max_examples=examples(20))
@given(SEEDS)
def test_drift_once_detected_keeps_its_start_as_points_arrive(seed: int) -> None:
    values = noisy(slope(20, 70), cv=0.007, seed=seed)
    drifts_by_night = [drifts_of(values[:stop]) for stop in range(40, 91, 3)]
    places = [(drifts[0].start, drifts[0].index) for drifts in drifts_by_night if drifts]
    assert len(places) > 5
    assert len(set(places)) == 1


@settings(max_examples=examples(20))
@given(SEEDS)
def test_mirrored_history_has_the_mirrored_drift(seed: int) -> None:
    values = noisy(slope(20, 70), seed=seed)
    ups = drifts_of(values)
    assert ups
    for up, down in zip(ups, drifts_of(1 / values), strict=True):
        assert (up.start, up.index, up.end) == (down.start, down.index, down.end)
        assert (1 + up.change) * (1 + down.change) == pytest.approx(1)
