"""The report of a range: how the modes developed, as Markdown or as one self-contained HTML file.

The file loads nothing: charts are drawn in it, and the points are in it as CSV. Names come from
stores and own models, so both formats escape every text.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from importlib import resources
from itertools import groupby

from jinja2 import Environment, StrictUndefined

from compile_hud.db.shared.text import counted, one_line
from compile_hud.runner.analysis.trends.answers import (
    change_interval_text,
    change_text,
    headline,
)
from compile_hud.runner.analysis.trends.documents import trends_csv
from compile_hud.runner.analysis.trends.records import ModeTrend, ModeTrends
from compile_hud.runner.format import quantity
from compile_hud.runner.reporting.trend_drawing import trend_svg
from compile_hud.runner.reporting.trend_text import (
    SYNTHETIC,
    counts_title,
    event_lines,
    label_title,
    metric_title,
    trend_bars,
)

METHOD = (
    "Each value is a geometric mean over the models of a phase with a number in every mode, by"
    " their newest results. The shapes and dtypes of a model are averaged first. The means are"
    " linked: a model that comes or goes moves no trend. Brackets are 95 % intervals: those of"
    " first and newest are of the launches of that run, that of the change also of two nights."
)
_MAX_EVENTS = 100
# Within a word, an underscore is no emphasis; an arrow within a line is no quotation.
_MARKUP = re.compile(r"(?<![^\W_])_|_(?![^\W_])|(?<! -)>|[^\w\s\-.,:;+%/()>]")
_TEMPLATE = "trend_report.html"
_COLUMNS = ("mode", "trend", "first", "newest", "change", "95 %")


def report_markdown(trends: ModeTrends, *, at: datetime) -> str:
    """Return the report as Markdown, with a table for each metric."""
    parts = [f"# {_plain(headline(trends))}"]
    if trends.is_synthetic:
        parts.append(f"**{SYNTHETIC}**")
    parts += [_scope(trends, at=at), METHOD]
    for metric, own in groupby(trends.trends, key=lambda trend: trend.metric):
        parts += [f"## {metric_title(metric).capitalize()}", _table(list(own))]
    if lines := [f"- {_plain(line)}" for line in event_lines(trends, limit=_MAX_EVENTS)]:
        parts += ["## Events", "\n".join(lines)]
    return "\n\n".join(parts) + "\n"


def report_html(trends: ModeTrends, *, at: datetime) -> str:
    """Return the report as one HTML file with charts; it needs no network."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    source = resources.files("compile_hud.runner.reporting").joinpath(_TEMPLATE)
    template = environment.from_string(source.read_text(encoding="utf-8"))
    csv = base64.b64encode(trends_csv(trends.trends).encode()).decode("ascii")
    return template.render(
        title=headline(trends),
        machine=trends.machine,
        toolchain=trends.toolchain,
        first=trends.runs[0],
        newest=trends.runs[-1],
        num_runs=counted(len(trends.runs), "run"),
        at=at,
        method=METHOD,
        synthetic=SYNTHETIC if trends.is_synthetic else "",
        sections=list(_sections(trends)),
        events=list(event_lines(trends, limit=_MAX_EVENTS)),
        csv=f"data:text/csv;base64,{csv}",
    )


def _sections(trends: ModeTrends) -> Iterator[dict[str, object]]:
    for metric, own in groupby(trends.trends, key=lambda trend: trend.metric):
        rows = [
            {
                "name": " / ".join(name for name in (trend.label, trend.mode) if name),
                "cells": _cells(trend),
                "chart": trend_svg(trend, marks=trends.marks),
            }
            for trend in own
        ]
        yield {"title": metric_title(metric), "counts": counts_title(metric), "rows": rows}


def _scope(trends: ModeTrends, *, at: datetime) -> str:
    first, newest = trends.runs[0], trends.runs[-1]
    return (
        f"{_plain(trends.machine)}, toolchain {_plain(trends.toolchain)}:"
        f" {counted(len(trends.runs), 'run')} from {first.at:%Y-%m-%d} to {newest.at:%Y-%m-%d}."
        f" Written by `hud report` at {at:%Y-%m-%d %H:%M} UTC."
    )


def _table(trends: Sequence[ModeTrend]) -> str:
    name = label_title(trends)
    names = (*([name] if name else []), *_COLUMNS, counts_title(trends[0].metric))
    rows = [
        (
            *([_plain(trend.label)] if name else []),
            _plain(trend.mode),
            trend_bars(trend),
            *_cells(trend),
        )
        for trend in trends
    ]
    lines = [names, ("---",) * len(names), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _cells(trend: ModeTrend) -> tuple[str, ...]:
    """Return first and newest value, change, interval and cohort."""
    first, newest = trend.linked[0], trend.linked[-1]
    return (
        *(quantity(point.value, unit=trend.unit) for point in (first, newest)),
        change_text(trend) or "-",
        change_interval_text(trend),
        f"{newest.num_counted} of {newest.num_subjects}",
    )


def _plain(text: str) -> str:
    """Return `text` as one line of Markdown in which nothing is markup."""
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", one_line(text))
