"""Order, shades and sections of the matrix."""

from __future__ import annotations

import pytest

from compile_hud.app.components.matrix.order import (
    MatrixView,
    change_level,
    change_of,
    sections_of,
    value_levels,
)


def test_a_click_sorts_one_way_then_the_other_then_not() -> None:
    view = MatrixView()
    orders = []
    for _ in range(3):
        view = MatrixView(sort=view.next_sort("default"))
        orders.append(view.sort)
    assert orders == ["-default", "default", ""]
    assert MatrixView(sort="default").next_sort("model") == "model"
    assert MatrixView(sort="model").next_sort("model") == "-model"


@pytest.mark.parametrize(
    ("values", "change"),
    [
        ((), None),
        ((3.0,), None),
        ((2.0, 3.0), 0.5),
        ((9.0, 2.0, 2.0, 1.0), -0.5),
        ((0.0, 1.0), None),
    ],
)
def test_the_change_is_against_the_median_before(
    values: tuple[float, ...], change: float | None
) -> None:
    assert change_of(values) == change


def test_shades_are_equal_steps_of_the_ratio() -> None:
    level = value_levels([1.0, 64.0])
    assert [level(value) for value in (1.0, 1.9, 2.1, 8.1, 33.0, 64.0)] == [
        "", "", "heat1", "heat3", "heat5", "heat5",
    ]  # fmt: skip
    assert value_levels([2.0, 2.0])(2.0) == ""
    assert value_levels([])(1.0) == ""


@pytest.mark.parametrize(
    ("change", "style"),
    [(None, ""), (0.0, ""), (0.009, ""), (-0.011, "heat1"), (0.06, "heat3"), (-0.5, "heat5")],
)
def test_changes_are_shaded_by_size_whatever_the_direction(
    change: float | None, style: str
) -> None:
    assert change_level(change) == style


def test_sections_need_two_rows_on_average() -> None:
    assert sections_of([("a",), ("b",), ("a",), ("b",)]) == {("a",): 2, ("b",): 2}
    assert sections_of([("a",), ("b",), ("a",)]) is None
    assert sections_of([("a",), ("a",)]) is None
