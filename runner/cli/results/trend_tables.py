"""The trends of the modes as tables on the terminal."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from compile_hud.db.records.metrics import METRICS, Direction
from compile_hud.db.shared.text import counted, printable, signed
from compile_hud.runner.analysis.trends.records import (
    PASS_RATE,
    MarkKind,
    ModeTrend,
    ModeTrends,
    TrendMark,
)
from compile_hud.runner.analysis.trends.trends import change_of
from compile_hud.runner.cli.tables import Column, print_table, stdout
from compile_hud.runner.format import quantity, sparkline

# More bars than this leave no room for the numbers in a terminal of 120 columns.
_MAX_BARS = 30
# A mean of many models is steadier than a single series.
_LEAST_RANGE = 0.02
# Older marks are counted; a nightly torch makes one each night.
_MAX_MARKS = 12
TITLES = {
    "speedup": "speedup over eager",
    PASS_RATE: "pass rate",
    "compile_cold_s": "cold compile time",
    "compile_warm_s": "warm compile time",
    "peak_bytes": "peak memory",
    "energy_j": "energy per iteration",
}


def print_trends(shown: ModeTrends) -> None:
    """Print a table for each metric, then the marks."""
    console = stdout()
    runs = shown.runs
    title = (
        f"{shown.machine}, toolchain {shown.toolchain}: {counted(len(runs), 'run')} from"
        f" {runs[0].at:%Y-%m-%d} to {runs[-1].at:%Y-%m-%d}"
    )
    console.print(printable(title), markup=False, soft_wrap=True)
    for metric, trends in groupby(shown.trends, key=lambda trend: trend.metric):
        console.print()
        console.print(_title(metric), markup=False, soft_wrap=True, style="bold")
        _print_metric(list(trends))
    if lines := list(mark_lines(shown)):
        console.print()
        console.print("marks", style="bold")
        for line in lines:
            console.print(printable(line), markup=False, soft_wrap=True)


def _title(metric: str) -> str:
    if metric == PASS_RATE:
        return "pass rate: ok cases of those attempted (higher is better)"
    is_higher = METRICS[metric].direction is Direction.HIGHER_IS_BETTER
    better = "higher" if is_higher else "lower"
    return f"{TITLES[metric]}: geometric mean ({better} is better)"


def _print_metric(trends: Sequence[ModeTrend]) -> None:
    by = trends[0].by
    columns = [
        *([Column(name=by)] if by else []),
        Column(name="mode"),
        Column(name="trend", is_whole=True),
        *(
            Column(name=name, is_number=True)
            for name in ("first", "newest", "change", "95 %", "least", "most")
        ),
        Column(name="ok" if trends[0].metric == PASS_RATE else "models"),
    ]
    rows = [_row(trend, has_group=bool(by)) for trend in trends]
    print_table(columns, rows=rows, spare=("most", "least", "trend", "95 %"))


def _row(trend: ModeTrend, *, has_group: bool) -> tuple[str, ...]:
    points = trend.linked
    values = [point.value for point in points]
    change, interval = change_texts(trend)
    newest = points[-1]
    return (
        *((trend.group,) if has_group else ()),
        trend.mode,
        sparkline(_bars(values), least_range=_LEAST_RANGE),
        *(quantity(value, unit=trend.unit) for value in (values[0], values[-1])),
        change,
        interval,
        *(quantity(value, unit=trend.unit) for value in (min(values), max(values))),
        f"{newest.num_counted} of {newest.num_subjects}",
    )


def _bars(values: Sequence[float]) -> list[float]:
    """Return at most _MAX_BARS values: the median of each of as many equal parts."""
    if len(values) <= _MAX_BARS:
        return list(values)
    bounds = [index * len(values) // _MAX_BARS for index in range(_MAX_BARS + 1)]
    return [
        statistics.median(values[start:end]) for start, end in zip(bounds, bounds[1:], strict=False)
    ]


def change_texts(trend: ModeTrend) -> tuple[str, str]:
    """Return the change from the first to the newest linked point, and its interval."""
    change = change_of(trend)
    if change is None:
        return "-", ""
    if trend.metric == PASS_RATE:
        return f"{signed(100 * change.value)} points", ""
    ends = [signed(100 * (value - 1)) for value in (change.low, change.high)]
    interval = "" if change.low == change.high else f"{ends[0]} to {ends[1]} %"
    return f"{signed(100 * (change.value - 1))} %", interval


def mark_lines(shown: ModeTrends) -> Iterator[str]:
    """Yield a line for each change of the cohort and each mark, the newest last.

    Revisions are counted if there is one for nearly each run.
    """
    marks = [mark for mark in shown.marks if mark.kind is not MarkKind.REVISION]
    revisions = [mark for mark in shown.marks if mark.kind is MarkKind.REVISION]
    if len(revisions) <= _MAX_MARKS:
        marks += revisions
    lines = sorted([*_cohort_lines(shown.trends), *map(_mark_line, marks)])
    if len(lines) > _MAX_MARKS:
        yield f"{len(lines) - _MAX_MARKS} older marks: --json has them"
    yield from lines[-_MAX_MARKS:]
    if len(revisions) > _MAX_MARKS:
        yield f"{counted(len(revisions), 'change')} of the revision"


def _mark_line(mark: TrendMark) -> str:
    return f"{mark.at:%Y-%m-%d}  {str(mark.kind).replace('_', ' ')}: {mark.text}"


def _cohort_lines(trends: Iterable[ModeTrend]) -> list[str]:
    """Return a line for each change of a cohort; the modes of a metric share one."""
    lines = {
        f"{point.run.at:%Y-%m-%d}  cohort: {_cohort_text(point.joined, point.left)}": None
        for trend in trends
        for point in trend.points
        if trend.metric != PASS_RATE and point.cohort_changed
    }
    return list(lines)


def _cohort_text(joined: Sequence[str], left: Sequence[str]) -> str:
    texts = [
        f"{', '.join(names)} {verb}"
        for names, verb in ((joined, "joined"), (left, "left"))
        if names
    ]
    return "; ".join(texts)
