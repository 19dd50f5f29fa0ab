"""The mean of a mode over models: which modes and models count, and how much."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compile_hud.runner.analysis.stats.estimates import Estimate
from compile_hud.runner.analysis.stats.model_means import (
    ModelShape,
    ModeMeans,
    ModeNumber,
    mode_means,
)

POSITIVE = st.floats(min_value=1e-2, max_value=1e2)


def number(value: float, *, runs_as: str = "", width: float = 0.0) -> ModeNumber:
    return ModeNumber(Estimate(value, value * (1 - width), value * (1 + width)), runs_as)


def means_of(**columns: dict[str, ModeNumber | float]) -> ModeMeans:
    """Return the means of columns, by `model` or `model shape`."""
    return mode_means(
        {
            mode: {
                ModelShape(*name.split()): item if isinstance(item, ModeNumber) else number(item)
                for name, item in column.items()
            }
            for mode, column in columns.items()
        }
    )


def values(means: ModeMeans) -> dict[str, float]:
    return {mode: estimate.value for mode, estimate in means.means.items()}


def test_means_are_over_the_models_that_every_mode_has() -> None:
    means = means_of(
        default={"bert": 2.0, "vit": 8.0, "unet": 1.0}, autotune={"bert": 3.0, "vit": 3.0}
    )
    assert values(means) == pytest.approx({"default": 4.0, "autotune": 3.0})
    assert means.num_common == 2


def test_nothing_in_common_has_no_means() -> None:
    means = means_of(default={"bert": 2.0}, autotune={"vit": 3.0})
    assert (dict(means.means), means.num_common) == ({}, 0)


def test_no_modes_have_no_means() -> None:
    assert means_of().cohort == ()
    assert means_of(default={}).means == {}


def test_model_of_three_shapes_weighs_as_much_as_a_model_of_one() -> None:
    means = means_of(default={"bert s": 1.5, "bert m": 3.0, "bert l": 6.0, "vit s": 12.0})
    assert values(means)["default"] == pytest.approx(6.0)
    assert means.num_common == 2


def test_shape_that_a_mode_lacks_is_left_out_of_its_model_alone() -> None:
    means = means_of(
        default={"bert s": 2.0, "bert l": 9.0, "vit s": 8.0},
        autotune={"bert s": 2.0, "vit s": 2.0},
    )
    assert values(means) == pytest.approx({"default": 4.0, "autotune": 2.0})
    assert means.num_common == 2


def test_mode_of_few_models_does_not_shrink_the_cohort_of_the_others() -> None:
    means = means_of(
        default=dict.fromkeys(("bert", "vit", "unet", "t5", "moe"), 2.0),
        autotune={"vit": 3.0, "unet": 12.0},
    )
    assert values(means) == pytest.approx({"default": 2.0, "autotune": 6.0})
    assert (means.num_common, dict(means.sparse)) == (5, {"autotune": 2})


def test_mode_of_half_of_the_models_counts() -> None:
    means = means_of(default={"bert": 2.0, "vit": 8.0}, autotune={"vit": 3.0}, reduce={})
    assert (means.num_common, dict(means.sparse)) == (1, {})


def test_copy_of_a_mode_does_not_shrink_the_cohort() -> None:
    copy = {"bert": number(2.0, runs_as="default")}
    means = means_of(default={"bert": 2.0, "vit": 8.0}, autotune=copy)
    assert values(means) == pytest.approx({"default": 4.0, "autotune": 2.0})
    assert dict(means.stand_ins) == {"autotune": "default"}


def test_mode_with_one_number_of_its_own_is_compared() -> None:
    mixed = {"bert": number(2.0, runs_as="default"), "vit": 3.0}
    means = means_of(default={"bert": 2.0, "vit": 8.0, "unet": 1.0}, autotune=mixed)
    assert dict(means.stand_ins) == {}
    assert means.num_common == 2


def test_first_mode_with_the_numbers_of_an_unmeasured_one_is_compared() -> None:
    first, second = ({"bert": number(value, runs_as="eager")} for value in (1.0, 1.1))
    means = means_of(default=first, autotune=second)
    assert dict(means.stand_ins) == {"autotune": "eager"}


def test_interval_is_that_of_independent_models() -> None:
    one = means_of(default={"bert": number(2.0, width=0.1)}).means["default"]
    assert (one.low, one.high) == pytest.approx((1.8, 2.2))
    names = ("bert", "vit", "unet", "t5")
    four = means_of(default={name: number(2.0, width=0.1) for name in names}).means["default"]
    assert (four.high / 2.0) == pytest.approx(1.1**0.5)
    assert four.low < four.value < four.high


@given(st.lists(POSITIVE, min_size=1, max_size=6), st.lists(POSITIVE, min_size=1, max_size=6))
def test_mean_of_two_models_does_not_depend_on_their_number_of_shapes(
    first: list[float], second: list[float]
) -> None:
    column = {f"bert {index}": value for index, value in enumerate(first)}
    column |= {f"vit {index}": value for index, value in enumerate(second)}
    alone = [
        values(means_of(default={name: column[name] for name in column if name[:3] == model}))
        for model in ("ber", "vit")
    ]
    expected = (alone[0]["default"] * alone[1]["default"]) ** 0.5
    assert values(means_of(default=column))["default"] == pytest.approx(expected)


@given(st.lists(st.tuples(POSITIVE, POSITIVE), min_size=1, max_size=6))
def test_ratio_of_two_modes_does_not_depend_on_the_unit(pairs: list[tuple[float, float]]) -> None:
    def ratio(factor: float) -> float:
        columns = [
            {f"model{index}": pair[side] * factor for index, pair in enumerate(pairs)}
            for side in (0, 1)
        ]
        both = values(means_of(default=dict(columns[0]), autotune=dict(columns[1])))
        return both["autotune"] / both["default"]

    assert ratio(1.0) == pytest.approx(ratio(1e-3))
