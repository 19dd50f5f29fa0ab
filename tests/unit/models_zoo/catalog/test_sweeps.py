"""The shapes of a sweep over a model."""

from __future__ import annotations

import pytest

from compile_hud.models_zoo.catalog.spec import SizeSpec, SweepSpec
from compile_hud.models_zoo.catalog.sweeps import sweep_values

LENGTH = SweepSpec(axis="length")
IMAGE = SweepSpec(axis="image_size", multiple_of=32)


def size(**config: int) -> SizeSpec:
    return SizeSpec(config=config, num_samples=1)


@pytest.mark.parametrize(
    ("sweep", "config", "values"),
    [
        (LENGTH, {"length": 64}, (16, 32, 48, 64, 80)),
        (LENGTH, {"length": 35}, (8, 17, 26, 35, 44)),
        (IMAGE, {"image_size": 224}, (32, 96, 160, 224, 288)),
        (IMAGE, {"image_size": 64}, (32, 64, 96)),
    ],
)
def test_a_sweep_is_three_shorter_ones_the_own_and_a_longer_one(
    sweep: SweepSpec, config: dict[str, int], values: tuple[int, ...]
) -> None:
    assert sweep_values(sweep, size=size(**config)) == values


def test_no_value_is_beyond_what_the_model_takes() -> None:
    assert sweep_values(LENGTH, size=size(length=64, max_length=79)) == (16, 32, 48, 64)
    assert sweep_values(LENGTH, size=size(length=64, max_length=80))[-1] == 80


def test_the_longest_text_bounds_no_batch() -> None:
    batch = SweepSpec(axis="batch")
    assert sweep_values(batch, size=size(batch=8, max_length=8)) == (2, 4, 6, 8, 10)


def test_no_value_is_one() -> None:
    assert sweep_values(LENGTH, size=size(length=2)) == (2, 3)
    assert sweep_values(LENGTH, size=size(length=1)) == ()


def test_a_single_value_is_no_sweep() -> None:
    assert sweep_values(LENGTH, size=size(length=2, max_length=2)) == ()
