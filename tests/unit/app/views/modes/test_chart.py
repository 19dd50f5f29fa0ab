"""The labels of the chart of modes."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from compile_hud.app.views.modes.chart import modes_spec


def _row(mode: str, compile_s: float, speedup: float) -> dict[str, Any]:
    return {
        "mode": mode,
        "label": mode,
        "speedup": speedup,
        "low": 0.99 * speedup,
        "high": 1.01 * speedup,
        "compile_s": compile_s,
        "front": "yes",
        "is_front": True,
        "is_on_line": True,
    }


def _sides(
    speedups: list[float], *, side: str = "right", off_line: tuple[float, ...] = ()
) -> dict[float, int]:
    rows = [_row(f"m{number}", 10 * 2**number, value) for number, value in enumerate(speedups)]
    rows = [{**row, "is_on_line": row["speedup"] not in off_line} for row in rows]
    spec = modes_spec(rows, cache="cold")
    rows = spec["layer"][-1]["data"]["values"]
    return {row["speedup"]: row[f"dy_{side}"] for row in rows}


def test_the_line_strikes_no_label_of_its_points() -> None:
    """It rises from a point to the right, and comes from below on the left."""
    speedups = [1.49, 1.67, 1.66, 1.82]
    right = _sides(speedups, off_line=(1.66,))
    assert right[1.49] > 0
    assert right[1.67] > 0
    left = _sides(speedups, side="left", off_line=(1.66,))
    assert left[1.67] < 0
    assert left[1.82] < 0


def test_labels_of_a_narrow_chart_do_not_meet() -> None:
    """The label on the left of a slow mode is at the height of those on the right of others."""
    speedups = [1.49, 1.67, 1.66, 1.82]
    right, left = (_sides(speedups, side=side, off_line=(1.66,)) for side in ("right", "left"))
    assert left[1.66] >= right[1.67] + 14
    assert _sides([1.0, 1.0 + 1e-9], side="left")


def test_labels_of_two_near_points_stand_on_either_side() -> None:
    sides = _sides([1.47, 1.71, 1.68, 1.89])
    assert sides[1.71] < 0 < sides[1.68]


def test_each_of_two_points_has_a_side_of_its_own() -> None:
    for pair in pairwise([1.0, 1.2, 1.9, 5.5]):
        low, high = pair
        sides = _sides([low, high])
        assert sides[high] < 0 < sides[low]
