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
        "is_front": True,
        "is_on_line": True,
    }


def _sides(speedups: list[float]) -> dict[float, int]:
    rows = [_row(f"m{number}", 10 * 2**number, value) for number, value in enumerate(speedups)]
    spec = modes_spec(rows, cache="cold")
    rows = spec["layer"][-1]["data"]["values"]
    return {row["speedup"]: row["dy"] for row in rows}


def test_labels_of_two_near_points_stand_on_either_side() -> None:
    sides = _sides([1.47, 1.71, 1.68, 1.89])
    assert sides[1.71] < 0 < sides[1.68]


def test_each_of_two_points_has_a_side_of_its_own() -> None:
    for pair in pairwise([1.0, 1.2, 1.9, 5.5]):
        low, high = pair
        sides = _sides([low, high])
        assert sides[high] < 0 < sides[low]
