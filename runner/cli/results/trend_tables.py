"""The trends of the modes as tables on the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from compile_hud.db.shared.text import counted
from compile_hud.runner.analysis.trends.answers import change_interval_text, change_text
from compile_hud.runner.analysis.trends.records import ModeTrend, ModeTrends
from compile_hud.runner.cli.tables import Column, print_table, stdout
from compile_hud.runner.format import quantity
from compile_hud.runner.reporting.trend_text import (
    SYNTHETIC,
    counts_title,
    event_lines,
    label_title,
    metric_title,
    trend_bars,
)


def print_trends(shown: ModeTrends) -> None:
    """Print a table for each metric, then the events."""
    console = stdout()
    runs = shown.runs
    title = (
        f"{shown.machine}, toolchain {shown.toolchain}: {counted(len(runs), 'run')} from"
        f" {runs[0].at:%Y-%m-%d} to {runs[-1].at:%Y-%m-%d}"
    )
    if shown.is_synthetic:
        console.print(SYNTHETIC, style="bold")
    console.print(title, markup=False, soft_wrap=True)
    for metric, trends in groupby(shown.trends, key=lambda trend: trend.metric):
        console.print()
        console.print(metric_title(metric), markup=False, soft_wrap=True, style="bold")
        _print_metric(list(trends))
    if lines := list(event_lines(shown)):
        console.print()
        console.print("events", style="bold")
        for line in lines:
            console.print(line, markup=False, soft_wrap=True)


def _print_metric(trends: Sequence[ModeTrend]) -> None:
    name = label_title(trends)
    columns = [
        *([Column(name=name)] if name else []),
        Column(name="mode"),
        Column(name="trend", is_whole=True),
        *(
            Column(name=name, is_number=True)
            for name in ("first", "newest", "change", "95 %", "least", "most")
        ),
        Column(name=counts_title(trends[0].metric)),
    ]
    rows = [_row(trend, has_label=bool(name)) for trend in trends]
    print_table(columns, rows=rows, spare=("most", "least", "trend", "95 %"))


def _row(trend: ModeTrend, *, has_label: bool) -> tuple[str, ...]:
    values = [point.value for point in trend.linked]
    newest = trend.points[-1]
    return (
        *((trend.label,) if has_label else ()),
        trend.mode,
        trend_bars(trend),
        *(quantity(value, unit=trend.unit) for value in (values[0], values[-1])),
        change_text(trend) or "-",
        change_interval_text(trend),
        *(quantity(value, unit=trend.unit) for value in (min(values), max(values))),
        f"{newest.num_counted} of {newest.num_subjects}",
    )
