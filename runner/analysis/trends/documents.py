"""Trends as JSON and CSV: what the command and the page write."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any

from compile_hud.db.records.json_fields import time_to_json
from compile_hud.db.shared.text import spreadsheet_text
from compile_hud.runner.analysis.stats.estimates import Estimate
from compile_hud.runner.analysis.trends.records import (
    PASS_RATE,
    ModePoint,
    ModeTrend,
    ModeTrends,
    TrendMark,
)
from compile_hud.runner.analysis.trends.trends import change_of

_POINT_NUMBERS = ("value", "low", "high", "own", "num_counted", "num_subjects", "num_measured")
CSV_COLUMNS = (
    *("metric", "unit", "mode", "by", "group", "phase", "device", "run_id", "at", "revision"),
    *_POINT_NUMBERS,
    *("joined", "left", "segment"),
)


def trends_json(trends: ModeTrends) -> dict[str, Any]:
    """Return the trends as a JSON object."""
    return {
        "machine": trends.machine,
        "toolchain": trends.toolchain,
        "runs": [
            {"id": run.id, "at": time_to_json(run.at), "revision": run.revision}
            for run in trends.runs
        ],
        "trends": [_trend_json(trend) for trend in trends.trends],
        "marks": [_mark_json(mark) for mark in trends.marks],
    }


def trends_csv(trends: Sequence[ModeTrend]) -> str:
    """Return a CSV file with a row for each point; a spreadsheet executes none of its texts."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\r\n")
    writer.writerow(CSV_COLUMNS)
    writer.writerows(_csv_rows(trends))
    return file.getvalue()


def _csv_rows(trends: Sequence[ModeTrend]) -> Iterator[list[str]]:
    for trend in trends:
        for point in trend.points:
            values = [
                *(trend.metric, trend.unit, trend.mode, trend.by, trend.group),
                *(trend.phase, trend.device),
                *(point.run.id, time_to_json(point.run.at), point.run.revision),
                *(getattr(point, name) for name in _POINT_NUMBERS),
                *(" ".join(point.joined), " ".join(point.left), point.segment),
            ]
            yield [
                spreadsheet_text(value) if isinstance(value, str) else str(value)
                for value in values
            ]


def _trend_json(trend: ModeTrend) -> dict[str, Any]:
    return {
        "metric": trend.metric,
        "unit": trend.unit,
        "direction": str(trend.direction),
        "mode": trend.mode,
        "by": trend.by or None,
        "group": trend.group or None,
        "phase": trend.phase or None,
        "device": trend.device or None,
        "change": _change_json(trend, change_of(trend)),
        "points": [_point_json(point) for point in trend.points],
    }


def _change_json(trend: ModeTrend, change: Estimate | None) -> dict[str, Any] | None:
    """Return the change between the ends of the linked points: relative, or of a share in points.

    A pass rate has no interval.
    """
    if change is None:
        return None
    is_rate = trend.metric == PASS_RATE
    return {
        "from_run_id": trend.linked[0].run.id,
        "to_run_id": trend.linked[-1].run.id,
        "difference" if is_rate else "ratio": change.value,
        "interval": None if is_rate else [change.low, change.high],
    }


def _point_json(point: ModePoint) -> dict[str, Any]:
    return {
        "run_id": point.run.id,
        "at": time_to_json(point.run.at),
        "revision": point.run.revision,
        **{name: getattr(point, name) for name in _POINT_NUMBERS},
        "joined": list(point.joined),
        "left": list(point.left),
        "segment": point.segment,
    }


def _mark_json(mark: TrendMark) -> dict[str, Any]:
    return {
        "kind": str(mark.kind),
        "at": time_to_json(mark.at),
        "text": mark.text,
        "run_id": mark.run_id or None,
        "case": None if mark.case is None else mark.case.key,
        "metric": mark.metric or None,
        "verdict": mark.verdict or None,
        "id": mark.id or None,
    }
