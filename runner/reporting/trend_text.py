"""The words of trends in terminals and reports: titles, changes and events."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence

from compile_hud.db.records.metrics import METRICS, Direction
from compile_hud.db.shared.text import counted
from compile_hud.runner.analysis.trends.answers import cohort_change_text
from compile_hud.runner.analysis.trends.records import (
    PASS_RATE,
    MarkKind,
    ModeTrend,
    ModeTrends,
    TrendMark,
)
from compile_hud.runner.format import sparkline

# More bars than this leave no room for the numbers in a terminal of 120 columns.
_MAX_BARS = 30
# A mean of many models is steadier than a single series.
_LEAST_RANGE = 0.02
SYNTHETIC = "SYNTHETIC DATA: hud demo made these numbers, and none was measured."
# Older events are counted; a nightly torch makes one each night.
MAX_EVENTS = 12
_TITLES = {
    "speedup": "speedup over eager",
    "compile_cold_s": "cold compile time",
    "compile_warm_s": "warm compile time",
    "peak_bytes": "peak memory",
    "energy_j": "energy per iteration",
}


def metric_title(metric: str) -> str:
    """Return the title of the trends of a metric: its mean, and which direction is better."""
    if metric == PASS_RATE:
        return "pass rate: ok cases of those attempted (higher is better)"
    is_higher = METRICS[metric].direction is Direction.HIGHER_IS_BETTER
    better = "higher" if is_higher else "lower"
    return f"{_TITLES[metric]}: geometric mean ({better} is better)"


def counts_title(metric: str) -> str:
    """Return the title of the counts of a trend, such as `12 of 14`."""
    return "ok" if metric == PASS_RATE else "models"


def label_title(trends: Sequence[ModeTrend]) -> str:
    """Return the title of the labels of trends, "" if none has a label."""
    if not any(trend.label for trend in trends):
        return ""
    return trends[0].by or ("phase" if len({trend.phase for trend in trends}) > 1 else "device")


def trend_bars(trend: ModeTrend) -> str:
    """Return the linked values as a bar for each run, or for each of _MAX_BARS equal parts."""
    values = [point.value for point in trend.linked]
    if len(values) > _MAX_BARS:
        edges = [index * len(values) // _MAX_BARS for index in range(_MAX_BARS + 1)]
        values = [
            statistics.median(values[start:end])
            for start, end in zip(edges, edges[1:], strict=False)
        ]
    # A pass rate of 100 % is a full bar, also where it never changed.
    bounds = (0.0, 1.0) if trend.unit == "share" else None
    return sparkline(values, least_range=_LEAST_RANGE, bounds=bounds)


def event_lines(trends: ModeTrends, *, limit: int = MAX_EVENTS) -> Iterator[str]:
    """Yield a line for each change of a cohort and each mark, the newest last.

    Revisions are counted if there are many, and so are events beyond the newest `limit`.
    """
    marks = [mark for mark in trends.marks if mark.kind is not MarkKind.REVISION]
    revisions = [mark for mark in trends.marks if mark.kind is MarkKind.REVISION]
    if len(revisions) <= MAX_EVENTS:
        marks += revisions
    lines = sorted([*_cohort_lines(trends.trends), *map(_mark_line, marks)])
    if len(lines) > limit:
        yield f"{counted(len(lines) - limit, 'older event')}: --json has them"
    yield from lines[-limit:]
    if len(revisions) > MAX_EVENTS:
        yield f"{counted(len(revisions), 'change')} of the revision"


def _mark_line(mark: TrendMark) -> str:
    return f"{mark.at:%Y-%m-%d}  {str(mark.kind).replace('_', ' ')}: {mark.text}"


def _cohort_lines(trends: Iterable[ModeTrend]) -> Sequence[str]:
    """Return a line for each change of a cohort; the modes of a metric share one."""
    lines = {
        f"{point.run.at:%Y-%m-%d}  cohort: {cohort_change_text(point)}": None
        for trend in trends
        for point in trend.points
        if trend.metric != PASS_RATE and point.cohort_changed
    }
    return tuple(lines)
