"""The false discovery rate over many comparisons."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control

from compile_hud.runner.analysis.stats.multiple_testing import discovery_limit, q_values

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=40)


@given(P_VALUES)
def test_q_values_are_those_of_benjamini_and_hochberg(p_values: list[float]) -> None:
    assert q_values(p_values) == pytest.approx(false_discovery_control(p_values).tolist())


@given(P_VALUES, st.floats(0.001, 0.5))
def test_the_limit_parts_what_is_a_discovery_from_what_is_not(
    p_values: list[float], rate: float
) -> None:
    limit = discovery_limit(p_values, rate=rate)
    for p_value, q_value in zip(p_values, q_values(p_values), strict=True):
        assert (p_value <= limit) == (q_value <= rate)


def test_nothing_to_decide_leaves_the_rate() -> None:
    assert q_values([]) == []
    assert discovery_limit([], rate=0.02) == 0.02


def test_of_discoveries_so_many_are_false_as_the_rate_says() -> None:
    generator = np.random.default_rng(0)
    shares = []
    for _ in range(400):
        is_null = np.arange(100) < 80
        p_values = np.where(is_null, generator.random(100), 1e-4 * generator.random(100))
        limit = discovery_limit(p_values.tolist(), rate=0.1)
        shares.append(np.sum((p_values <= limit) & is_null) / max(1, np.sum(p_values <= limit)))
    assert 0.05 < np.mean(shares) <= 0.1
