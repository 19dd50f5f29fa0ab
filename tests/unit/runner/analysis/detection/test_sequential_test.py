from __future__ import annotations

import threading
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG
from compile_hud.runner.analysis.detection.sequential_test import (
    ChangePoint,
    SequentialDetector,
    find_change_points,
)
from tests.support.examples import examples

OTHER = np.array([7.0])


def history(seed: int, *, sd: float) -> np.ndarray:
    """Return 260 nights, in units of the floor, with a step that goes again, a blip and a step."""
    generator = np.random.default_rng(seed)
    values = sd * generator.standard_normal(260)
    values[70:85] += generator.uniform(-2.0, 2.0)
    values[generator.integers(140, 150)] += 3.0
    values[200:] += generator.uniform(1.0, 2.0)
    return np.asarray(values * generator.choice([-1, 1]))


def afresh(values: np.ndarray) -> list[ChangePoint]:
    """Return what is found in `values` when another history was asked about before."""
    find_change_points(OTHER)
    return find_change_points(values)


def state(detector: SequentialDetector) -> dict[str, Any]:
    """Return all that `detector` knows, of excursions what it does not find out again."""
    excursions = [(one.sign, one.total > 0 and asdict(one)) for one in detector.excursions]
    for _, excursion in excursions:
        if excursion:
            del excursion["scales"]
    return vars(detector) | {
        "values": detector.values.tolist(),
        "excursions": excursions,
    }


def seen(values: np.ndarray) -> SequentialDetector:
    """Return who took in `values` one by one."""
    detector = SequentialDetector()
    detector.values = values
    for night, value in enumerate(values.tolist()):
        detector.update(night, value)
    return detector


@settings(max_examples=examples(40), deadline=None)
@given(
    st.integers(min_value=0, max_value=10_000),
    st.sampled_from([0.02, 0.1, 0.15, 0.3]),
    st.integers(min_value=1, max_value=260),
)
def test_nights_taken_in_at_once_leave_what_they_leave_one_by_one(
    seed: int, sd: float, num_first: int
) -> None:
    values = history(seed, sd=sd)
    detector = SequentialDetector()
    detector.extend(values[:num_first])
    detector.extend(values)
    assert state(detector) == state(seen(values))


def test_nights_near_their_level_are_not_taken_in_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nights = counted(monkeypatch)
    values = 0.1 * np.random.default_rng(1).standard_normal(300)
    assert afresh(values) == []
    assert len(nights) == DEFAULT_CONFIG.level_points + OTHER.size


def test_one_more_night_of_the_same_history_is_all_that_is_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = history(2, sd=0.3)
    expected = afresh(values)
    find_change_points(OTHER)
    find_change_points(values[:-1])
    nights = counted(monkeypatch)
    assert find_change_points(values) == expected != []
    assert nights == [values.size - 1]
    assert find_change_points(values) == expected
    assert nights == [values.size - 1]


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by each night that is taken in alone."""
    nights: list[int] = []
    update = SequentialDetector.update

    def noting(self: SequentialDetector, night: int, value: float) -> None:
        nights.append(night)
        update(self, night, value)

    monkeypatch.setattr(SequentialDetector, "update", noting)
    return nights


def test_a_history_that_was_mended_is_followed_from_its_beginning() -> None:
    values = history(3, sd=0.1)
    find_change_points(values)
    mended = values.copy()
    mended[20:60] += 4
    assert find_change_points(mended) == afresh(mended)
    assert afresh(mended) != afresh(values)
    # Neither is one of which nights at the end are gone, as after runs were deleted.
    assert find_change_points(values[:100]) == afresh(values[:100])


def test_what_is_done_to_the_numbers_or_the_answer_afterwards_changes_no_other_answer() -> None:
    values = history(4, sd=0.1)
    expected = afresh(values)
    find_change_points(values).clear()
    assert find_change_points(values) == expected != []
    values[20:60] += 4
    assert find_change_points(values) == afresh(values) != expected


def test_a_look_that_was_broken_off_spoils_none_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    values = history(5, sd=0.1)
    expected = afresh(values)
    find_change_points(values[:60])
    with monkeypatch.context() as broken:
        broken.setattr(SequentialDetector, "_append", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            find_change_points(values)
    assert find_change_points(values) == expected != []


def test_threads_follow_histories_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    values = history(6, sd=0.1)
    find_change_points(values[:-1])
    nights = counted(monkeypatch)
    other = threading.Thread(target=find_change_points, args=(OTHER,))
    other.start()
    other.join()
    assert nights == [0]
    find_change_points(values)
    assert nights == [0, values.size - 1]
