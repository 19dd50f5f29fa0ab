"""Variants that alternate are compared; one that stays is a step."""

from __future__ import annotations

import numpy as np
import pytest

from compile_hud.runner.analysis.kernel_series.variants import at_main_variant


def test_alternating_variants_have_one_level() -> None:
    variants = ("a", "a", "b", "a", "b", "b", "a", "a")
    seconds = np.array([1.3 if name == "b" else 1.0 for name in variants])
    assert at_main_variant(seconds, variants=variants) == pytest.approx(np.ones(8))


def test_a_variant_that_stays_is_a_step() -> None:
    variants = ("a",) * 5 + ("b",) * 3
    seconds = np.array([1.0] * 5 + [1.3] * 3)
    assert at_main_variant(seconds, variants=variants) == pytest.approx(seconds)


def test_a_step_below_both_variants_remains() -> None:
    variants = ("a", "b", "a", "a", "b", "a", "b", "a", "b", "a")
    levels = np.array([1.0] * 6 + [1.2] * 4)
    factors = np.array([1.3 if name == "b" else 1.0 for name in variants])
    moved = at_main_variant(levels * factors, variants=variants)
    assert moved[6:].mean() / moved[:6].mean() == pytest.approx(1.2, rel=0.05)


def test_missing_nights_stay_missing() -> None:
    seconds = np.array([1.0, np.nan, 1.3, 1.0])
    moved = at_main_variant(seconds, variants=("a", "", "b", "a"))
    assert list(np.isnan(moved)) == [False, True, False, False]
    assert moved[2] == pytest.approx(1.0)
