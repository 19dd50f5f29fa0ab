from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.limits.__main__ import Replay, observed, summarise
from benchmarks.limits.histories import FIRST, LAST, NUM_NIGHTS, STEPS, Event, Shape, draw
from benchmarks.limits.observer import GRID, chances_of_step, densities, probabilities_of, stories


def chances(rises: dict[range, float]) -> np.ndarray:
    """Return what the observer thinks of nights that rise by so much, in fine normal noise."""
    values = 1 + 0.005 * np.random.default_rng(1).standard_normal(NUM_NIGHTS)
    for nights, rise in rises.items():
        values[nights.start : nights.stop] *= 1 + rise
    return chances_of_step(values, shape=Shape.NORMAL, spread=0.005)


def test_chances_of_all_stories_add_up_to_one() -> None:
    assert stories().chances.sum() == pytest.approx(1)
    assert stories().nights.shape == (NUM_NIGHTS, stories().chances.size)


def test_densities_of_noise_add_up_to_one() -> None:
    (density,) = densities(Shape.NORMAL, 0.01)
    assert np.trapezoid(density, GRID) == pytest.approx(1, abs=1e-3)


def test_three_nights_are_a_step_for_the_observer_and_two_are_not() -> None:
    probabilities = chances({range(40, NUM_NIGHTS): 0.08})
    assert probabilities[39] < 0.2
    assert probabilities[41] < 0.95 < probabilities[42] < probabilities[43]


def test_nights_that_go_between_are_a_mode_for_the_observer() -> None:
    slow = {range(night, night + 1): 0.06 for night in (40, 44, 46, 47)}
    assert chances(slow)[47] < 0.1


def test_a_night_that_is_missing_has_no_effect() -> None:
    values = np.ones(NUM_NIGHTS)
    values[50] = math.nan
    probabilities = chances_of_step(values, shape=Shape.NORMAL, spread=0.005)
    assert probabilities[50] == 0.0
    assert probabilities[51] > 0.0


@pytest.mark.parametrize("event", Event)
def test_history_is_what_its_event_says(event: Event) -> None:
    history = draw(event, 0, seed=1)
    assert np.array_equal(history.values, draw(event, 0, seed=1).values, equal_nan=True)
    assert (history.onset is not None) == (event in STEPS)
    assert np.isnan(history.values).any() == (event is Event.LASTING)
    if history.onset is not None:
        assert FIRST <= history.onset < LAST
        probabilities = probabilities_of(history)
        after = np.nanmedian(probabilities[history.onset : history.onset + 7])
        assert after / np.nanmedian(probabilities[: history.onset]) > 1.05


def test_the_first_night_above_the_limit_is_the_alert() -> None:
    history = draw(Event.PASSING, 0, seed=1)
    assert history.onset is not None
    probabilities = np.where(np.arange(NUM_NIGHTS) >= history.onset + 3, 0.99, 0.1)
    assert observed(history, chances=probabilities, limit=0.9).delay == 3
    assert observed(history, chances=probabilities, limit=0.995).delay is None
    early = observed(history, chances=np.ones(NUM_NIGHTS), limit=0.9)
    assert (early.delay, early.num_false) == (None, 1)


def test_rates_count_detected_steps_and_false_alarms() -> None:
    rates = summarise(
        [
            Replay(event=event, has_step=event in STEPS, delay=delay, num_false=num_false)
            for event in Event
            for delay, num_false in [(2 if event in STEPS else None, 0), (None, 1)]
        ]
    )
    assert (rates["found"], rates["new_modes_silent"], rates["told_within_2"]) == (0.5, 0.5, 1.0)
    assert rates["f1"] == pytest.approx(2 * 3 / (3 + 8 + 6), abs=1e-4)
    assert rates["right"][Event.LASTING.value] == 0.5
