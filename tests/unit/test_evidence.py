from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

from runner.analysis.detector import find_steps
from runner.analysis.evidence import MAX_NIGHT, MAX_ODDS, SURPRISE, Demand, Evidence, Scales

SEEDS = st.integers(min_value=0, max_value=10_000)


def noise_of(seed: int, *, sd: float = 0.2, num_nights: int = 60) -> np.ndarray:
    """Return distances from a level, in floors."""
    return sd * np.random.default_rng(seed).standard_normal(num_nights)


def weighed(distances: list[float], noise: np.ndarray) -> Evidence:
    return Scales(noise, level_error=0.0).weigh(np.array(distances), min_nights=len(distances))


def lead(distances: list[float], noise: np.ndarray) -> float:
    """Return by how much a step is likelier than a mode that came new."""
    scales, nights = Scales(noise, level_error=0.0), np.array(distances)
    size = scales.weigh(nights, min_nights=3).size
    return scales.lead_over_mode(nights, size=size, min_nights=3)


@settings(max_examples=20)
@given(SEEDS)
def test_each_further_night_on_the_new_level_is_more_evidence(seed: int) -> None:
    found = [weighed([1.2] * num, noise_of(seed)).step for num in range(1, 8)]
    assert found == sorted(found)
    assert found[0] < found[-1]


@settings(max_examples=20)
@given(SEEDS)
def test_nights_floors_farther_away_are_no_less_evidence(seed: int) -> None:
    noise = noise_of(seed, sd=0.3)
    found = [weighed([distance] * 3, noise).step for distance in (0.5, 1.0, 1.5, 2.5)]
    # Give or take what adding the chances of all densities rounds off.
    assert np.diff(found).min() > -1e-9


@settings(max_examples=20)
@given(SEEDS)
def test_wider_noise_makes_the_same_nights_less_evidence(seed: int) -> None:
    calm, wild = (weighed([1.2] * 4, noise_of(seed, sd=sd)).step for sd in (0.1, 0.5))
    assert wild < calm


def test_two_nights_are_not_enough_however_far_away() -> None:
    found = weighed([20.0, 20.0, 0.0], noise_of(1, num_nights=1000))
    needed = Demand(num_noise=1000).needed(found.contrast)
    assert found.step <= 2 * MAX_NIGHT < needed
    assert weighed([20.0] * 3, noise_of(1, num_nights=1000)).step > needed


def test_few_nights_of_noise_cannot_tell_much() -> None:
    found = weighed([1.0], noise_of(1, num_nights=6))
    assert found.step <= math.log(7) + SURPRISE


def test_nights_on_the_old_level_speak_against_a_step() -> None:
    assert weighed([0.0] * 5, noise_of(2)).step < 0


def test_a_mode_that_was_there_before_is_less_evidence_than_a_new_one() -> None:
    calm = noise_of(3)
    with_mode = calm.copy()
    with_mode[5::6] = 1.2
    assert weighed([1.2] * 4, with_mode).step < weighed([1.2] * 4, calm).step / 2


def test_a_mode_that_held_for_days_is_less_evidence_than_one_that_came_singly() -> None:
    singly, in_a_row = noise_of(3), noise_of(3)
    singly[4::6] = 1.2
    in_a_row[20:30] = 1.2
    assert weighed([1.2] * 6, in_a_row).step < weighed([1.2] * 6, singly).step


def test_a_change_of_half_the_floor_is_its_own_best_explanation() -> None:
    found = weighed([0.5] * 10, noise_of(4))
    assert found.rival > found.step


def test_noise_that_doubled_is_its_own_best_explanation() -> None:
    found = weighed((2 * noise_of(5, sd=0.5, num_nights=20)).tolist(), noise_of(6, sd=0.5))
    assert found.rival > found.step


def test_the_step_is_most_likely_where_it_is() -> None:
    distances = np.array([0.1, -0.2, 0.0, 1.2, 1.1, 1.3])
    found = Scales(noise_of(7), level_error=0.0).weigh(distances, min_nights=3)
    assert found.offset == 3
    assert found.contrast == pytest.approx(1.2 / 0.2, rel=0.4)


def test_a_mode_on_the_side_of_the_step_takes_no_contrast_from_it() -> None:
    calm = noise_of(7)
    with_mode = np.concatenate([calm, [1.2] * 20])
    found = weighed([1.2] * 4, calm).contrast
    assert weighed([1.2] * 4, with_mode).contrast >= found
    assert weighed([1.2] * 4, -with_mode).contrast < found / 2


def test_a_step_needs_more_evidence_the_farther_it_stands_out() -> None:
    demand = Demand(num_noise=60)
    needed = [demand.needed(contrast) for contrast in (1.0, 2.0, 4.0, 8.0)]
    assert needed == sorted(needed)
    assert needed[0] < needed[-1]
    assert demand.needed(100.0) == demand.needed(1000.0)
    assert demand.needed(-1.0) == needed[0]


def test_a_step_needs_more_evidence_the_fewer_nights_tell_the_noise() -> None:
    needed = [Demand(num_noise=num).needed(3.0) for num in (34, 20, 8)]
    assert needed == sorted(set(needed))
    assert Demand(num_noise=60).needed(3.0) == needed[0]


def test_nights_that_went_between_are_less_of_a_step_than_of_a_mode() -> None:
    noise = noise_of(11, sd=0.1)
    assert lead([1.2] * 4, noise) > 2
    assert lead([1.2, 1.2, 0.0, 1.2, 1.2], noise) < 0


def test_three_nights_need_more_of_a_lead_than_four() -> None:
    demand = Demand(num_noise=60)
    assert demand.is_lead(2.2, num_nights=4)
    assert not demand.is_lead(2.0, num_nights=4)
    assert not demand.is_lead(2.2, num_nights=3)
    assert demand.is_lead(2.28, num_nights=3)


def test_slow_nights_of_last_week_are_the_same_mode() -> None:
    noise = noise_of(11, sd=0.1)
    slow = noise.copy()
    slow[[-8, -4]] = 1.2
    assert lead([1.2] * 3, slow) < 0 < lead([1.2] * 3, noise)
    assert lead([1.2] * 3, -slow) > 0


def test_noise_that_has_modes_needs_more_evidence() -> None:
    demand = Demand(num_noise=60)
    assert demand.needed(3.0, has_modes=True) > demand.needed(3.0)


@pytest.mark.parametrize(("noise", "has_modes"), [("clean", False), ("modes", True)])
def test_noise_has_modes_where_its_points_tell_it_better_than_a_bell(
    noise: str, has_modes: bool
) -> None:
    points = noise_of(9, sd=0.1)
    if noise == "modes":
        points[10:20] += 1.5
        points[40:50] += 1.5
    assert weighed([3.0] * 3, points).has_modes is has_modes
    assert (Scales(points, level_error=0.0).chain is not None) is has_modes


def test_two_modes_tell_a_step_of_both_sooner_than_the_points_alone() -> None:
    """Each night lies on a mode, or as far beyond the slow one as that is from the other."""
    is_slow = np.random.default_rng(12).random(60) < 0.3
    noise = 1.2 * is_slow + noise_of(13, sd=0.15)
    scales = Scales(noise - np.median(noise), level_error=0.0)
    nights = np.array([1.2, 1.1, 2.4, 1.3, 1.2])
    found = scales.weigh(nights, min_nights=5)
    logs = scales.kernel.log_density(np.stack([nights - found.size, nights]))
    assert found.step > float((logs[0] - logs[1]).sum()) + 0.5


def test_clean_noise_makes_nights_in_its_tail_more_evidence_than_its_points_alone_do() -> None:
    quantiles = ndtri((np.arange(40) + 0.5) / 40)
    noise = 0.6 * np.random.default_rng(10).permutation(quantiles)
    scales = Scales(noise, level_error=0.0)
    found = scales.weigh(np.array([1.2] * 6), min_nights=6)
    logs = scales.kernel.log_density(np.array([[1.2] * 6, [0.0] * 6]))
    by_points = float((logs[1] - logs[0]).sum())
    assert by_points + 1 < found.step < by_points + MAX_ODDS


def test_a_level_that_came_back_raises_all_that_is_needed() -> None:
    once, again = Demand(num_noise=60), Demand(num_noise=60, factor=1.5)
    assert again.needed(5.0) == pytest.approx(1.5 * once.needed(5.0))


@pytest.mark.parametrize(
    ("step", "rival", "share", "is_met"),
    [
        (14.0, 5.0, 1.0, True),
        (12.5, 5.0, 1.0, False),
        (12.5, 5.0, 0.9, True),
        (14.0, 12.5, 1.0, False),
    ],
)
def test_a_step_needs_evidence_and_an_advantage_over_its_rival(
    step: float, rival: float, share: float, is_met: bool
) -> None:
    found = Evidence(step=step, rival=rival, offset=0, contrast=8.0)
    assert Demand(num_noise=60).is_met(found, share=share) is is_met


def test_a_level_of_few_points_is_less_evidence() -> None:
    distances, noise = np.array([0.9] * 4), noise_of(8, sd=0.4)
    sure = Scales(noise, level_error=0.0).weigh(distances, min_nights=4)
    unsure = Scales(noise, level_error=0.3).weigh(distances, min_nights=4)
    assert unsure.step < sure.step


@settings(max_examples=20)
@given(SEEDS, st.integers(min_value=3, max_value=9))
def test_nights_added_one_by_one_weigh_what_they_weigh_together(seed: int, first: int) -> None:
    distances = noise_of(seed, sd=1.0, num_nights=10)
    noise = noise_of(seed + 1, sd=0.5)
    night_by_night = Scales(noise, level_error=0.1)
    for num_nights in range(first, 11):
        found = night_by_night.weigh(distances[:num_nights], min_nights=3)
        at_once = Scales(noise, level_error=0.1).weigh(distances[:num_nights], min_nights=3)
        assert found.step == pytest.approx(at_once.step)
        assert found.rival == pytest.approx(at_once.rival)
        assert (found.offset, found.contrast) == (at_once.offset, at_once.contrast)


def test_the_example_of_the_documentation_is_right() -> None:
    distance = math.log(1.06) / math.log(1.05)
    found = weighed([distance] * 3, np.zeros(40))
    assert found.step == pytest.approx(14.9, abs=0.05)
    assert found.rival == pytest.approx(4.0, abs=0.05)
    assert weighed([distance] * 2, np.zeros(40)).step == pytest.approx(9.9, abs=0.05)
    assert lead([distance] * 3, np.zeros(40)) == pytest.approx(2.3, abs=0.05)
    values = np.array([10.0] * 40 + [10.6] * 3)
    assert find_steps(values[:-1]) == []
    assert find_steps(values) == [(40, pytest.approx(0.06))]
