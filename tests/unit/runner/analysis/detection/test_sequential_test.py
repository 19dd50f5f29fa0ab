from __future__ import annotations

import threading
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compile_hud.runner.analysis.detection.constants import LEVEL_POINTS
from compile_hud.runner.analysis.detection.sequential_test import Follower, Onset, find_onsets

OTHER = np.array([7.0])


def history(seed: int, *, sd: float) -> np.ndarray:
    """Return 260 nights, in units of the floor, with a step that goes again, a blip and a step."""
    generator = np.random.default_rng(seed)
    values = sd * generator.standard_normal(260)
    values[70:85] += generator.uniform(-2.0, 2.0)
    values[generator.integers(140, 150)] += 3.0
    values[200:] += generator.uniform(1.0, 2.0)
    return np.asarray(values * generator.choice([-1, 1]))


def afresh(values: np.ndarray) -> list[Onset]:
    """Return what is found in `values` when another history was asked about before."""
    find_onsets(OTHER)
    return find_onsets(values)


def state(follower: Follower) -> dict[str, Any]:
    """Return all that `follower` knows, of excursions what it does not find out again."""
    excursions = [(one.sign, one.total > 0 and asdict(one)) for one in follower.excursions]
    for _, known in excursions:
        if known:
            del known["scales"]
    return vars(follower) | {
        "values": follower.values.tolist(),
        "excursions": excursions,
    }


def seen(values: np.ndarray) -> Follower:
    """Return who took in `values` one by one."""
    follower = Follower()
    follower.values = values
    for night, value in enumerate(values.tolist()):
        follower.see(night, value)
    return follower


@settings(max_examples=40, deadline=None)
@given(
    st.integers(min_value=0, max_value=10_000),
    st.sampled_from([0.02, 0.1, 0.15, 0.3]),
    st.integers(min_value=1, max_value=260),
)
def test_nights_taken_in_at_once_leave_what_they_leave_one_by_one(
    seed: int, sd: float, num_first: int
) -> None:
    values = history(seed, sd=sd)
    follower = Follower()
    follower.follow(values[:num_first])
    follower.follow(values)
    assert state(follower) == state(seen(values))


def test_nights_near_their_level_are_not_taken_in_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nights = counted(monkeypatch)
    values = 0.1 * np.random.default_rng(1).standard_normal(300)
    assert afresh(values) == []
    assert len(nights) == LEVEL_POINTS + OTHER.size


def test_one_more_night_of_the_same_history_is_all_that_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = history(2, sd=0.3)
    expected = afresh(values)
    find_onsets(OTHER)
    find_onsets(values[:-1])
    nights = counted(monkeypatch)
    assert find_onsets(values) == expected != []
    assert nights == [values.size - 1]
    assert find_onsets(values) == expected
    assert nights == [values.size - 1]


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by each night that is taken in alone."""
    nights: list[int] = []
    see = Follower.see

    def noting(self: Follower, night: int, value: float) -> None:
        nights.append(night)
        see(self, night, value)

    monkeypatch.setattr(Follower, "see", noting)
    return nights


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
    expected = afresh(values)
    find_onsets(values).clear()
    assert find_onsets(values) == expected != []
    values[20:60] += 4
    assert find_onsets(values) == afresh(values) != expected


def test_a_look_that_was_broken_off_spoils_none_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    values = history(5, sd=0.1)
    expected = afresh(values)
    find_onsets(values[:60])
    with monkeypatch.context() as broken:
        broken.setattr(Follower, "_keep", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            find_onsets(values)
    assert find_onsets(values) == expected != []


def test_threads_follow_histories_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    values = history(6, sd=0.1)
    find_onsets(values[:-1])
    nights = counted(monkeypatch)
    other = threading.Thread(target=find_onsets, args=(OTHER,))
    other.start()
    other.join()
    assert nights == [0]
    find_onsets(values)
    assert nights == [0, values.size - 1]
