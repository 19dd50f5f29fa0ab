from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG
from compile_hud.runner.analysis.detection.evidence import (
    AlternativeHypotheses,
    Evidence,
    EvidenceThreshold,
    Scales,
)
from compile_hud.runner.analysis.detector import find_steps
from tests.support.examples import examples

# What a long history requires.
THRESHOLD = EvidenceThreshold(num_noise=60, num_level=42)
SEEDS = st.integers(min_value=0, max_value=10_000)


def noise_of(seed: int, *, sd: float = 0.2, num_nights: int = 60) -> np.ndarray:
    """Return distances from a level, in floors."""
    return sd * np.random.default_rng(seed).standard_normal(num_nights)


def weighed(distances: list[float], noise: np.ndarray, *, min_nights: int = 0) -> Evidence:
    """Return the evidence of a step that all of `distances` belong to, or the last of them."""
    nights = np.array(distances)
    return Scales(noise, level_error=0.0).weigh(nights, min_nights=min_nights or nights.size)


def lead(distances: list[float], noise: np.ndarray) -> float:
    """Return by how much a step is likelier than a mode that came new."""
    evidence = weighed(distances, noise, min_nights=3)
    return evidence.step - evidence.alternatives.mode


def is_step(distances: list[float], noise: np.ndarray) -> bool:
    """Return whether `distances` are a step, where there are points enough."""
    return THRESHOLD.is_step(weighed(distances, noise, min_nights=3))


@settings(max_examples=examples(20))
@given(SEEDS)
def test_each_further_night_on_the_new_level_is_more_evidence(seed: int) -> None:
    evidence = [weighed([1.2] * num, noise_of(seed)).step for num in range(1, 8)]
    assert evidence == sorted(evidence)
    assert evidence[0] < evidence[-1]


@settings(max_examples=examples(20))
@given(SEEDS)
def test_wider_noise_makes_the_same_nights_less_evidence(seed: int) -> None:
    calm, wild = (weighed([1.2] * 4, noise_of(seed, sd=sd)).step for sd in (0.1, 0.5))
    assert wild < calm


def test_few_nights_of_noise_cannot_tell_much() -> None:
    evidence = weighed([1.0], noise_of(1, num_nights=6))
    assert evidence.step <= math.log(7) + DEFAULT_CONFIG.rank_surprise


def test_nights_on_the_old_level_speak_against_a_step() -> None:
    assert weighed([0.0] * 5, noise_of(2)).step < 0


def test_a_mode_that_was_there_before_is_less_evidence_than_a_new_one() -> None:
    calm = noise_of(3)
    with_mode = calm.copy()
    with_mode[5::6] = 1.2
    assert weighed([1.2] * 4, with_mode).step < weighed([1.2] * 4, calm).step / 2


def test_consecutive_nights_of_a_mode_are_less_evidence_than_single_ones() -> None:
    singly, in_a_row = noise_of(3), noise_of(3)
    singly[4::6] = 1.2
    in_a_row[20:30] = 1.2
    assert weighed([1.2] * 6, in_a_row).step < weighed([1.2] * 6, singly).step


def test_the_step_is_most_likely_where_it_is() -> None:
    distances = np.array([0.1, -0.2, 0.0, 1.2, 1.1, 1.3])
    evidence = Scales(noise_of(7), level_error=0.0).weigh(distances, min_nights=3)
    assert evidence.offset == 3


def test_a_level_of_few_points_is_less_evidence() -> None:
    distances, noise = np.array([1.2] * 4), noise_of(8, sd=0.4)
    sure = Scales(noise, level_error=0.0).weigh(distances, min_nights=4)
    unsure = Scales(noise, level_error=0.3).weigh(distances, min_nights=4)
    assert unsure.step < sure.step


@settings(max_examples=examples(20))
@given(SEEDS)
def test_nights_floors_farther_away_are_no_less_evidence(seed: int) -> None:
    noise = noise_of(seed, sd=0.3)
    evidence = [weighed([distance] * 3, noise).step for distance in (0.5, 1.0, 1.5, 2.5)]
    # Give or take how many of the sizes that are tried are near.
    assert np.diff(evidence).min() > -math.log(1 + len(DEFAULT_CONFIG.step_sizes))


@pytest.mark.parametrize("last", [0.0, 0.3, 0.6])
def test_two_nights_are_no_step_however_far_away(last: float) -> None:
    noise = noise_of(1)
    assert not is_step([20.0, 20.0, last], noise)
    assert not is_step([1.2, 1.2, last], noise)
    assert is_step([1.2] * 3, noise)


def test_two_nights_in_a_row_are_their_own_best_explanation_as_a_blip() -> None:
    evidence = weighed([1.9, 1.9, 0.0], noise_of(2))
    assert evidence.alternatives.blip > evidence.step + 3
    evidence = weighed([1.9] * 4, noise_of(2))
    assert evidence.step > evidence.alternatives.blip + 2 * DEFAULT_CONFIG.lead_over_blip


def test_a_change_of_half_the_floor_is_its_own_best_explanation() -> None:
    evidence = weighed([0.5] * 10, noise_of(4))
    assert evidence.alternatives.small > evidence.step
    assert not is_step([0.5] * 10, noise_of(4))


@settings(max_examples=examples(20))
@given(SEEDS)
def test_noise_that_doubled_is_no_step(seed: int) -> None:
    nights = 2 * noise_of(seed, sd=0.3, num_nights=20)
    assert not is_step(nights.tolist(), noise_of(seed + 1, sd=0.3))


def test_a_step_needs_more_evidence_the_fewer_nights_tell_noise_and_level() -> None:
    few_of_noise = [
        EvidenceThreshold(num_noise=num, num_level=42).required() for num in (34, 25, 20)
    ]
    few_of_level = [
        EvidenceThreshold(num_noise=60, num_level=num).required() for num in (34, 20, 8)
    ]
    for needed in (few_of_noise, few_of_level):
        assert needed == sorted(set(needed))
        assert needed[0] == THRESHOLD.required()


def test_few_points_ask_for_less_of_nights_that_are_far() -> None:
    young, old = (
        EvidenceThreshold(num_noise=10, num_level=10),
        THRESHOLD,
    )
    needed = [young.required(median=median) for median in (0.5, 1.0, 1.5, 2.3)]
    assert needed == sorted(needed, reverse=True)
    assert needed[0] == needed[1] > needed[2] > needed[3]
    assert needed[3] < 3 * DEFAULT_CONFIG.max_night_evidence - math.log(
        1 + len(DEFAULT_CONFIG.step_sizes)
    )
    assert young.required(median=99.0) == old.required(median=99.0) == old.required()


def test_noise_that_has_modes_and_a_level_that_came_back_raise_all_that_is_needed() -> None:
    once = THRESHOLD
    assert once.required(has_modes=True) > once.required()
    again = EvidenceThreshold(num_noise=60, num_level=42, factor=1.5)
    assert again.required() == pytest.approx(1.5 * once.required())
    assert again.required(has_modes=True) == pytest.approx(1.5 * once.required(has_modes=True))


@pytest.mark.parametrize(
    ("rival", "more"),
    [
        ("small", DEFAULT_CONFIG.lead_over_small_step),
        ("blip", DEFAULT_CONFIG.lead_over_blip),
        ("mode", DEFAULT_CONFIG.lead_over_mode),
    ],
)
def test_a_step_must_lead_over_each_of_its_rivals(rival: str, more: float) -> None:
    nothing = {"small": -99.0, "blip": -99.0, "mode": -99.0}
    assert THRESHOLD.combined(AlternativeHypotheses(**nothing), required=6.0) == pytest.approx(6.0)
    rivals = AlternativeHypotheses(**{**nothing, rival: 30.0})
    assert THRESHOLD.combined(rivals, required=6.0) == pytest.approx(30.0 + more)


def test_rivals_add_up() -> None:
    rivals = AlternativeHypotheses(
        small=6.0 - DEFAULT_CONFIG.lead_over_small_step,
        blip=6.0 - DEFAULT_CONFIG.lead_over_blip,
        mode=-99.0,
    )
    assert THRESHOLD.combined(rivals, required=6.0) == pytest.approx(6.0 + math.log(3))


def test_nights_that_went_between_are_less_of_a_step_than_of_a_mode() -> None:
    noise = noise_of(11, sd=0.1)
    assert lead([1.2] * 4, noise) > 2
    assert lead([1.2, 1.2, 0.0, 1.2, 1.2, 1.2], noise) < DEFAULT_CONFIG.lead_over_mode


def test_slow_nights_of_last_week_are_the_same_mode() -> None:
    noise = noise_of(11, sd=0.1)
    slow = noise.copy()
    slow[[-8, -4]] = 1.2
    assert lead([1.2] * 3, slow) < 0 < lead([1.2] * 3, noise)
    assert lead([1.2] * 3, -slow) > 1


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
    logs = scales.kernel.log_density(np.stack([nights - 1.2, nights]))
    assert scales.weigh(nights, min_nights=5).step > float((logs[0] - logs[1]).sum()) + 0.5


def test_clean_noise_makes_nights_in_its_tail_more_evidence_than_its_points_alone_do() -> None:
    quantiles = ndtri((np.arange(40) + 0.5) / 40)
    noise = 0.6 * np.random.default_rng(10).permutation(quantiles)
    scales = Scales(noise, level_error=0.0)
    evidence = scales.weigh(np.array([1.2] * 6), min_nights=6)
    logs = scales.kernel.log_density(np.array([[1.2] * 6, [0.0] * 6]))
    by_points = float((logs[1] - logs[0]).sum())
    assert by_points + 1 < evidence.step < by_points + DEFAULT_CONFIG.max_log_odds


@settings(max_examples=examples(20))
@given(SEEDS, st.integers(min_value=3, max_value=9))
def test_nights_added_one_by_one_weigh_what_they_weigh_together(seed: int, first: int) -> None:
    distances = noise_of(seed, sd=1.0, num_nights=10)
    noise = noise_of(seed + 1, sd=0.5)
    night_by_night = Scales(noise, level_error=0.1)
    for num_nights in range(first, 11):
        evidence = night_by_night.weigh(distances[:num_nights], min_nights=3)
        at_once = Scales(noise, level_error=0.1).weigh(distances[:num_nights], min_nights=3)
        assert evidence.step == pytest.approx(at_once.step)
        assert evidence.offset == at_once.offset
        for name in ("small", "blip", "mode"):
            expected = getattr(at_once.alternatives, name)
            assert getattr(evidence.alternatives, name) == pytest.approx(expected)


@given(st.permutations(range(5)))
def test_a_step_is_the_mean_over_its_sizes_and_the_sum_over_its_first_nights(
    order: list[int],
) -> None:
    """With noise that one density tells, since it has a single shape."""
    nights = np.array([0.2, 0.8, 1.1, 0.9, 1.3])[order]
    scales = Scales(noise_of(20, sd=0.25), level_error=0.0)
    evidence = scales.weigh(nights, min_nights=3)
    assert float(np.median(nights)) < 1.0
    likelihoods = np.zeros(3)
    chances = []
    for chance, density in zip(
        scales._log_chances(0.9), (scales.student, scales.kernel), strict=True
    ):
        sizes = np.array([[1.0, 1.2, 1.5, 1.9, 0.0]]).T
        logs = density.log_density(nights - sizes)
        ratios = np.clip(logs[:-1] - logs[-1], -4.0, scales._nights(nights).limits)
        none = math.exp(chance + logs[-1].sum())
        chances.append(none)
        likelihoods += [none * np.exp(ratios[:, first:].sum(axis=1)).mean() for first in range(3)]
    assert evidence.step == pytest.approx(math.log(likelihoods.sum() / sum(chances)))
    assert evidence.offset == likelihoods.argmax()


def test_the_example_of_the_documentation_is_right() -> None:
    distance = math.log(1.06) / math.log(1.05)
    nights, none = [distance] * 3, np.zeros(40)
    evidence = weighed(nights, none, min_nights=3)
    rivals = evidence.alternatives
    assert evidence.step == pytest.approx(14.1, abs=0.05)
    assert rivals.small == pytest.approx(3.2, abs=0.05)
    assert rivals.blip == pytest.approx(9.9, abs=0.05)
    assert rivals.mode == pytest.approx(11.8, abs=0.05)
    needed = EvidenceThreshold(num_noise=40, num_level=40).required(median=distance)
    assert needed == pytest.approx(6.0)
    assert THRESHOLD.combined(rivals, required=needed) == pytest.approx(13.4, abs=0.05)
    assert evidence.step <= 3 * DEFAULT_CONFIG.max_night_evidence
    values = np.array([10.0] * 40 + [10.6] * 3)
    assert find_steps(values[:-1]) == []
    assert find_steps(values) == [(40, pytest.approx(0.06))]
