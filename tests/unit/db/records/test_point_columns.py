from __future__ import annotations

import dataclasses

import numpy as np

from compile_hud.db.records.point_columns import PointColumns, point_columns
from compile_hud.db.records.summaries import Point
from tests.support.records.histories import joined, make_series

SERIES = make_series([3.0, 1.0, 2.0], first_night=5)


def columns(points: list[Point] | None = None) -> PointColumns:
    return point_columns(SERIES.header.key, list(SERIES.points) if points is None else points)


def test_points_come_out_of_columns_as_they_went_in() -> None:
    points = [
        dataclasses.replace(point, low=point.median - 1, high=point.median + 1)
        for point in SERIES.points
    ]
    assert list(columns(points)) == points
    assert columns(points)[-1] == points[-1]


def test_columns_of_columns_are_themselves() -> None:
    once = columns()
    assert point_columns(SERIES.header.key, once) is once


def test_slice_is_columns_again() -> None:
    assert list(columns()[1:]) == list(SERIES.points[1:])
    assert len(columns()[:0]) == 0


def test_values_are_an_array() -> None:
    assert np.array_equal(columns().medians, [3.0, 1.0, 2.0])


def test_points_above_zero_stay() -> None:
    series = make_series([1.0, 0.0, -1.0, 2.0])
    positive = point_columns(series.header.key, series.points).above_zero()
    assert [point.run_id for point in positive] == ["run-0", "run-3"]


def test_each_machine_and_toolchain_has_its_own_points_in_the_order_of_first_runs() -> None:
    late = make_series([1.0, 2.0], machine="a", first_night=1)
    early = make_series([7.0, 8.0, 9.0], machine="b")
    nightly = make_series([5.0], machine="a", toolchain="nightly", first_night=9)
    both = joined(joined(late, early), nightly)
    columns = point_columns(both.header.key, both.points).by_scope()
    assert [(scope, list(points.medians)) for scope, points in columns.items()] == [
        (("b", "stable"), [7.0, 8.0, 9.0]),
        (("a", "stable"), [1.0, 2.0]),
        (("a", "nightly"), [5.0]),
    ]


def test_series_without_points_has_no_scope() -> None:
    assert columns([]).by_scope() == {}


def test_points_beyond_all_quantities_are_out_of_range() -> None:
    series = make_series([2.0, 6e-318, 0.0, -3.0, 1e160, 2.5])
    columns = point_columns(series.header.key, series.points)
    assert columns.in_range().medians.tolist() == [2.0, 0.0, -3.0, 2.5]
    assert columns.above_zero().medians.tolist() == [2.0, 2.5]
