"""Steps that are over before their level has points enough, and what comes after them."""

from __future__ import annotations

import pytest

from compile_hud.db.records.alerts import AlertState
from compile_hud.db.records.results import Verdict
from tests.support.records.histories import night
from tests.support.records.judging import judge, noisy


@pytest.mark.parametrize("num_slow", [3, 4, 5])
@pytest.mark.parametrize("num_good", [3, 5, 8])
def test_step_that_is_soon_over_stays_fixed_and_keeps_its_level(
    num_slow: int, num_good: int
) -> None:
    (alert,) = judge(noisy([(20, 0.010), (num_slow, 0.013), (num_good, 0.010)]))
    assert (alert.verdict, alert.state) == (Verdict.REGRESSION, AlertState.FIXED)
    assert alert.change_pct == pytest.approx(30, abs=3)
    assert alert.last_seen == night(19 + num_slow)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("num_good", [3, 8])
def test_noise_does_not_hide_that_a_step_was_soon_over(seed: int, num_good: int) -> None:
    values = noisy([(20, 0.010), (4, 0.0108), (num_good, 0.010)], cv=0.01, seed=seed)
    (alert,) = judge(values)
    assert (alert.verdict, alert.state) == (Verdict.REGRESSION, AlertState.FIXED)
    assert alert.change_pct == pytest.approx(8, abs=2)
    assert alert.last_seen == night(23)


@pytest.mark.parametrize("cost", [0.012, 0.013])
def test_a_change_after_a_short_step_is_reported(cost: float) -> None:
    alerts = judge(noisy([(20, 0.010), (4, 0.013), (10, 0.010), (8, cost)]))
    assert [(alert.verdict, alert.state) for alert in alerts] == [
        (Verdict.REGRESSION, AlertState.FIXED),
        (Verdict.REGRESSION, AlertState.OPEN),
    ]
    assert alerts[-1].first_bad.at == night(34)
    assert alerts[-1].change_pct == pytest.approx(100 * (cost / 0.010 - 1), abs=3)


def test_later_nights_are_compared_with_the_noisy_ones() -> None:
    values = noisy([(20, 0.010), (4, 0.011), (3, 0.010), (8, 0.012)], cv=0.01, seed=1)
    first, second = judge(values)
    assert (first.state, second.state) == (AlertState.FIXED, AlertState.OPEN)
    assert second.first_bad.at == night(27)
    assert second.change_pct == pytest.approx(20, abs=3)


def test_a_gain_after_a_step_that_was_soon_over_is_reported() -> None:
    alerts = judge(noisy([(12, 0.010), (4, 0.014), (14, 0.010), (8, 0.0083)]))
    assert [(alert.verdict, alert.state) for alert in alerts] == [
        (Verdict.REGRESSION, AlertState.FIXED),
        (Verdict.IMPROVEMENT, AlertState.OPEN),
    ]
    assert alerts[-1].first_bad.at == night(30)
