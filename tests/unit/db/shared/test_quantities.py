from __future__ import annotations

import math

import pytest

from compile_hud.db.shared.quantities import LARGEST, SMALLEST, is_quantity, rounded_to_zero


@pytest.mark.parametrize("value", [0.0, -0.0, 3, -2.5e-9, SMALLEST, -SMALLEST, LARGEST, -LARGEST])
def test_a_measurement_can_have_numbers_of_both_signs_and_zero(value: float) -> None:
    assert is_quantity(value)


@pytest.mark.parametrize(
    "value", [5e-324, -3e-310, 0.9 * SMALLEST, 1.1 * LARGEST, -1e300, math.inf, math.nan]
)
def test_a_measurement_can_have_no_extreme_number(value: float) -> None:
    assert not is_quantity(value)


def test_squares_and_reciprocals_of_quantities_are_finite() -> None:
    for value in (SMALLEST, LARGEST):
        assert 0 < value**2 < math.inf
        assert 0 < 1 / value < math.inf


def test_only_a_smaller_number_than_any_quantity_becomes_zero() -> None:
    assert [rounded_to_zero(value) for value in (-4e-200, SMALLEST, -1.5)] == [0.0, SMALLEST, -1.5]
