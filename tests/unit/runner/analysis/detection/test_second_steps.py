"""Second steps within the first nights of a new level."""

from __future__ import annotations

import numpy as np
import pytest

from compile_hud.runner.analysis.detector import find_steps

NIGHTS, FIRST = 60, 20


def history(levels: list[tuple[int, float]], *, seed: int, noise: float = 0.006) -> np.ndarray:
    """Return nights with the level of each number of nights, and noise."""
    values = np.repeat([level for _, level in levels], [nights for nights, _ in levels])
    return np.asarray(values * (1 + np.random.default_rng(seed).normal(0, noise, values.size)))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("gap", [3, 4, 5, 6, 9])
@pytest.mark.parametrize("levels", [(100, 130, 146), (100, 85, 75), (100, 130, 118)])
def test_both_steps_are_reported_with_their_nights(
    levels: tuple[float, float, float], gap: int, seed: int
) -> None:
    nights = (FIRST, gap, NIGHTS - FIRST - gap)
    steps = find_steps(history(list(zip(nights, levels, strict=True)), seed=seed))
    assert [index for index, _ in steps] == [FIRST, FIRST + gap]
    changes = [levels[1] / levels[0] - 1, levels[2] / levels[1] - 1]
    assert [change for _, change in steps] == pytest.approx(changes, abs=0.02)


@pytest.mark.parametrize("gap", [3, 4, 5])
def test_a_second_step_keeps_its_night_as_nights_arrive(gap: int) -> None:
    values = history([(FIRST, 100), (gap, 130), (40, 146)], seed=7)
    seen = {
        index for end in range(FIRST + 14, values.size + 1) for index, _ in find_steps(values[:end])
    }
    assert seen == {FIRST, FIRST + gap}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("noise", [0.006, 0.02])
def test_one_step_is_not_divided(seed: int, noise: float) -> None:
    values = history([(FIRST, 100), (40, 130)], seed=seed, noise=noise)
    assert len(find_steps(values)) <= 1


@pytest.mark.parametrize("seed", range(10))
def test_nights_that_settle_after_a_step_are_no_second_regression(seed: int) -> None:
    values = history([(FIRST, 100), (40, 130)], seed=seed, noise=0.01)
    values[FIRST : FIRST + 5] *= (1.04, 1.03, 1.02, 1.01, 1.0)
    assert [index for index, change in find_steps(values) if change > 0] == [FIRST]
