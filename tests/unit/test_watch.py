from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runner.analysis.history import LEVEL_POINTS
from runner.analysis.watch import Onset, find_onsets

SEEDS = st.integers(min_value=0, max_value=10_000)
OTHER = np.array([7.0])


def history(seed: int, *, sd: float) -> np.ndarray:
    """Return 160 nights, in units of the floor, with a step, a blip and a change too small."""
    generator = np.random.default_rng(seed)
    values = sd * generator.standard_normal(160)
    values[60:75] += generator.uniform(-2.0, 2.0)
    values[generator.integers(80, 100)] += 3.0
    values[120:] += generator.uniform(1.0, 2.0)
    return values


def afresh(values: np.ndarray) -> list[Onset]:
    """Return what is found in `values` when another history was asked about before."""
    find_onsets(OTHER)
    return find_onsets(values)


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.sampled_from([0.02, 0.1, 0.2, 0.5]))
def test_a_history_asked_about_every_night_has_what_it_has_when_asked_about_once(
    seed: int, sd: float
) -> None:
    values = history(seed, sd=sd)
    nights = range(1, values.size + 1)
    followed = [find_onsets(values[:night]) for night in nights]
    assert followed == [afresh(values[:night]) for night in nights]


@pytest.mark.parametrize("sd", [0.02, 0.15])
def test_quiet_nights_taken_in_at_once_are_those_taken_in_one_by_one(sd: float) -> None:
    values = history(1, sd=sd)
    values = np.concatenate([sd * np.random.default_rng(2).standard_normal(300), values + 5])
    at_once = afresh(values)
    find_onsets(OTHER)
    for num_nights in range(LEVEL_POINTS, values.size, LEVEL_POINTS // 2):
        find_onsets(values[:num_nights])
    assert find_onsets(values) == at_once != []


def test_a_history_that_was_mended_is_followed_from_its_beginning() -> None:
    values = history(3, sd=0.1)
    find_onsets(values)
    mended = values.copy()
    mended[20:60] += 4
    assert find_onsets(mended) == afresh(mended)
    assert afresh(mended) != afresh(values)
    # Neither is one of which nights at the end are gone, as after runs were deleted.
    assert find_onsets(values[:100]) == afresh(values[:100])


def test_what_is_done_to_the_numbers_or_the_answer_afterwards_changes_no_other_answer() -> None:
    values = history(4, sd=0.1)
    night = 140
    first = afresh(values[:night].copy())
    given = values[:night].copy()
    find_onsets(OTHER)
    find_onsets(given).clear()
    given[:] = 0.0
    assert find_onsets(values[:night]) == first != []
    assert find_onsets(values) == afresh(values)
