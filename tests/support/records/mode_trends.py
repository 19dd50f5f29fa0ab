"""Trends of modes as the pages and reports show them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from compile_hud.db.records.summaries import HistoryRun
from compile_hud.runner.analysis.trends.records import ModePoint, ModeTrend, ModeTrends, TrendMark
from tests.support.builders import START


def history_run(number: int) -> HistoryRun:
    """Return the run of a night, counted from 0."""
    return HistoryRun(
        id=f"night-{number}",
        at=START + timedelta(days=number),
        suite="nightly",
        revision=f"2.14.0.dev{number}",
        fingerprint="f" * 64,
        model_commits={},
    )


def point(number: int, value: float, *, width: float = 0.01, **changes: Any) -> ModePoint:
    """Return a point of two of three models, whose interval is `width` to either side."""
    values: dict[str, Any] = {
        "run": history_run(number),
        "value": value,
        "low": value * (1 - width),
        "high": value * (1 + width),
        "own": value,
        "num_counted": 2,
        "num_subjects": 3,
        "num_measured": 2,
    }
    return ModePoint(**{**values, **changes})


def trend(mode: str, values: Sequence[float], *, metric: str = "speedup", **of: str) -> ModeTrend:
    """Return a trend with a value for each night."""
    points = tuple(point(number, value) for number, value in enumerate(values))
    of = {"label": of.get("group", ""), **of}
    return ModeTrend(metric=metric, mode=mode, points=points, **of)


def trends_of(*trends: ModeTrend, marks: Sequence[TrendMark] = ()) -> ModeTrends:
    """Return `trends` with the runs of the longest one."""
    longest = max(trends, key=lambda item: len(item.points))
    return ModeTrends(
        machine="box",
        toolchain="stable",
        runs=tuple(item.run for item in longest.points),
        trends=trends,
        marks=tuple(marks),
    )
