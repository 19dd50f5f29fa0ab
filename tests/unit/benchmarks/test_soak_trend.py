"""The intervals of the soak's slopes, on made-up noise."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import theilslopes

from benchmarks import trend
from benchmarks.trend import trend_of

CASES = np.arange(1050.0, 3050.0, 50.0)


def noise_of(correlation: float, *, random: np.random.Generator) -> NDArray[np.float64]:
    """Return errors that follow each other as AR(1), after enough of them to forget the first."""
    values = np.zeros(len(CASES) + 60)
    for index, error in enumerate(random.normal(size=len(values) - 1), start=1):
        values[index] = correlation * values[index - 1] + error
    return values[-len(CASES) :]


def percent_that_hold_no_growth(correlation: float) -> float:
    random = np.random.default_rng(0)
    trends = [trend_of(noise_of(correlation, random=random), at=CASES) for _ in range(300)]
    return 100 * float(np.mean([item.low <= 0 <= item.high for item in trends]))


# Those that the module quotes.
@pytest.mark.parametrize(
    ("correlation", "ours", "sens"), [(0.0, 98, 97), (0.6, 93, 70), (0.9, 85, 40)]
)
def test_intervals_hold_no_growth_as_often_as_the_module_says(
    correlation: float, ours: float, sens: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert percent_that_hold_no_growth(correlation) == pytest.approx(ours, abs=2)
    monkeypatch.setattr(trend, "inflation", lambda _left: 1.0)
    assert percent_that_hold_no_growth(correlation) == pytest.approx(sens, abs=2)


def test_without_correlation_the_interval_is_that_of_sen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trend, "inflation", lambda _left: 1.0)
    # With ties.
    values = np.round(noise_of(0.0, random=np.random.default_rng(1)), 1)
    estimate, sens = trend_of(values, at=CASES), theilslopes(values, CASES, 0.95)
    assert (estimate.slope, estimate.low, estimate.high) == pytest.approx(
        (sens.slope, sens.low_slope, sens.high_slope)
    )


def test_a_planted_slope_is_detected_whatever_the_unit() -> None:
    noise = noise_of(0.6, random=np.random.default_rng(2))
    for unit in (1.0, 1e6):
        trend = trend_of(unit * (noise + 0.01 * CASES), at=CASES)
        assert 0 < trend.low < 0.01 * unit < trend.high


def test_what_is_always_the_same_does_not_grow() -> None:
    trend = trend_of(np.full(10, 5.0), at=np.arange(10.0))
    assert (trend.slope, trend.low, trend.high) == (0, 0, 0)
