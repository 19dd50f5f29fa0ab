from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import stdtr

from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG
from compile_hud.runner.analysis.detection.false_discovery import (
    AlertCandidate,
    apply_false_discovery_rate,
    interval_p_value,
    step_p_value,
)
from compile_hud.runner.analysis.stats.estimates import student_quantile
from tests.support.builders import make_alert

OLD = 1 + 0.01 * np.array([-1.2, 0.3, 0.9, -0.4, 1.5, -0.8, 0.1, -1.6, 0.6, 1.1, -0.2, 0.4] * 3)


def candidate(name: str, p_value: float | None, *, run_id: str = "run-1") -> AlertCandidate:
    return AlertCandidate(alert=make_alert(name), run_id=run_id, p_value=p_value)


def detected(candidates: list[AlertCandidate], *, size: int, **others: set[str]) -> list[str]:
    sizes = {"run-1": size, "run-2": size}
    return [
        item.alert.id for item in apply_false_discovery_rate(candidates, num_series=sizes, **others)
    ]


def shifted(by: float, *, num_points: int = 3) -> np.ndarray:
    return OLD[:num_points] * (1 + by)


def test_verdict_by_hand_after_a_short_level() -> None:
    # The middle 70 % of the old points are 2 wide; the new ones lie 10 above their median.
    old = np.array([9.0, 10.0, 10.0, 11.0] * 4)
    new = np.array([20.0, 20.0, 20.0])
    error = np.sqrt(np.pi / 2) * 2 / 2.0729 * np.sqrt(1 / 16 + 1 / 3)
    tail = float(stdtr((16 + 3 - 2) / 2, -10 / error))
    assert step_p_value(old, new) == pytest.approx(len(DEFAULT_CONFIG.look_points) * 2 * tail)


def test_verdict_by_hand_after_a_long_level() -> None:
    # Here the noise is well known, and the tails of single nights decide.
    old = np.array([9.0, 10.0, 10.0, 11.0] * 40)
    new = np.array([20.0, 20.0, 20.0])
    sd = 2 / 2.0729
    error = np.sqrt(np.pi / 2 / 160)
    distance = 10 / (sd * np.sqrt(1 + error**2)) - error
    # The tail of Student's distribution with 4 degrees of freedom, in closed form.
    part = distance / np.sqrt(4 + distance**2)
    tail = 0.5 - 0.75 * (part - part**3 / 3)
    assert step_p_value(old, new) == pytest.approx(
        len(DEFAULT_CONFIG.look_points) * 2 * 3 * tail**3
    )


@given(st.floats(min_value=0.02, max_value=0.5), st.floats(min_value=1.01, max_value=2))
def test_larger_step_is_more_evidence(by: float, factor: float) -> None:
    assert step_p_value(OLD, shifted(by * factor)) <= step_p_value(OLD, shifted(by))


@pytest.mark.parametrize("by", [0.04, -0.04])
def test_more_nights_are_more_evidence_in_both_directions(by: float) -> None:
    p_values = [
        step_p_value(OLD, shifted(by, num_points=size)) for size in DEFAULT_CONFIG.look_points
    ]
    assert p_values == sorted(p_values, reverse=True)
    assert p_values[-1] < 1e-6 < p_values[0]


def test_nights_after_the_last_look_change_nothing() -> None:
    shown = shifted(0.04, num_points=DEFAULT_CONFIG.look_points[-1])
    later = np.concatenate([shown, np.ones(9)])
    assert step_p_value(OLD, later) == step_p_value(OLD, shown)


def test_mode_that_was_seen_before_is_no_evidence() -> None:
    calm = np.concatenate([OLD, OLD])
    with_mode = calm.copy()
    with_mode[::6] *= 1.1
    assert step_p_value(calm, shifted(0.1)) < 1e-5 < step_p_value(with_mode, shifted(0.1))


def test_level_that_repeats_exactly_has_some_noise() -> None:
    assert step_p_value(np.ones(14), np.full(3, 1.001)) > 0.01
    assert step_p_value(np.ones(14), np.full(3, 1.1)) < 1e-6


@given(st.floats(min_value=1e-6, max_value=1e6))
def test_evidence_does_not_depend_on_the_unit(unit: float) -> None:
    plain = step_p_value(OLD, shifted(0.03))
    assert step_p_value(unit * OLD, unit * shifted(0.03)) == pytest.approx(plain, rel=1e-6)


def test_fewer_points_than_the_first_look_are_looked_at_once() -> None:
    assert 0 < step_p_value(OLD, shifted(0.1, num_points=2)) <= 1


@pytest.mark.parametrize("num_old", [6, 10, 40])
@pytest.mark.parametrize("kind", ["normal", "student"])
def test_equal_levels_hardly_ever_have_evidence(kind: str, num_old: int) -> None:
    generator = np.random.default_rng(1)
    draw = generator.standard_normal if kind == "normal" else lambda n: generator.standard_t(4, n)
    p_values = []
    for _ in range(300):
        values = 1 + 0.01 * draw(num_old + 20)
        p_values.append(step_p_value(values[:num_old], values[num_old:]))
    assert np.mean(np.array(p_values) < 0.05) <= 0.05
    assert np.mean(np.array(p_values) < 0.005) <= 0.005


def test_noise_that_six_points_happen_to_hide_is_hardly_ever_evidence() -> None:
    generator = np.random.default_rng(1)
    values = 1 + 0.01 * generator.standard_normal((1000, 6 + DEFAULT_CONFIG.look_points[-1]))
    p_values = np.array([step_p_value(row[:6], row[6:]) for row in values])
    assert np.mean(p_values < 0.001) <= 0.001


def test_interval_that_just_leaves_out_no_change_has_p_of_a_twentieth() -> None:
    half = student_quantile(0.975, degrees=9) * 0.1
    assert interval_p_value(half, low=0.0, high=2 * half, degrees=9) == pytest.approx(0.05)
    assert interval_p_value(0.3, low=0.3, high=0.3, degrees=9) == 0.0


def test_one_step_needs_more_evidence_among_more_series() -> None:
    alone = [candidate("a", 1e-5)]
    assert detected(alone, size=100) == ["a"]
    assert detected(alone, size=10_000) == []


def test_many_steps_of_one_run_stand_by_each_other() -> None:
    together = [candidate(f"{number}", 1e-5) for number in range(30)]
    assert len(detected(together, size=10_000)) == 30


def test_steps_of_other_runs_do_not_help() -> None:
    others = [candidate(f"{number}", 1e-9, run_id="run-2") for number in range(30)]
    assert "a" not in detected([candidate("a", 1e-5), *others], size=10_000)


def test_step_up_rule_is_benjamini_and_hochbergs() -> None:
    # The second misses its own limit (2/4) and is carried by the third (3/4); the last is not.
    shares = [0.2, 0.6, 0.74, 1.01]
    candidates = [
        candidate(f"{n}", share * DEFAULT_CONFIG.false_discovery_rate)
        for n, share in enumerate(shares)
    ]
    assert detected(candidates, size=4) == ["0", "1", "2"]


def test_what_has_no_noise_needs_no_decision() -> None:
    assert detected([candidate("a", None)], size=10_000) == ["a"]


def test_what_was_confirmed_needs_no_decision() -> None:
    assert detected([candidate("a", 0.9), candidate("b", 0.9)], size=100, confirmed={"b"}) == ["b"]


def test_run_has_at_least_as_many_series_as_claims() -> None:
    assert detected([candidate("a", 0.006), candidate("b", 1.0)], size=0) == []
