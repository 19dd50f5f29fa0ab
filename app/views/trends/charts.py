"""The charts of the trends: a panel for each metric, one column for each mode. Pure.

The panels of a metric span the same ratio from bottom to top in every mode, so equal changes look
equal. A click on a point picks its run, and a brush, if there is one, a part of the time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compile_hud.app.components.trend.chart import PART
from compile_hud.app.ui.charts import LOG_DECADES, LOG_SUFFIX, PICK, Row, share_rows
from compile_hud.app.ui.legend import LegendItem
from compile_hud.app.ui.theme import NEUTRAL, VERDICT_COLOURS
from compile_hud.db.records.results import Verdict

# Pixels; four columns with the labels of their axes are as wide as the page at 1440.
_PLOT_WIDTH = 278
_PLOT_HEIGHT, _TALL_HEIGHT = 92, 190
# From plot to plot: the title of a panel and room above it.
_GAP = 36
_LABELS_WIDTH = 36
# The titles above the first plot, and the dates below the last one.
_TITLE_HEIGHT, _AXIS_HEIGHT = 62, 30
# A smaller change must not fill a panel: it is within the noise of most nights.
_LEAST_RATIO = 1.04
_ROOM = 0.08
# Natural logarithm of a ratio that no float overflows by, from any number of a store.
_LARGEST_SPAN = 500.0
_CHANGE_SIGN = LegendItem(sign="diamond", text="cohort changed")
_LINE_SIGN = LegendItem(sign="dashed", text="annotation, new environment or model code")
_BRUSH = {"type": "interval", "encodings": ["x"], "zoom": False}
# A share of 100 % all the time is a line near the top.
_HIGHEST_FLOOR_PCT = 80.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One metric of a mode: rows of its points and of its alerts; `domain` is that of the y axis.

    `title` is above the plot. Rows of points have at, value, low, high, run_id, segment, is_change
    (whether the cohort changed) and texts for the tooltip.
    """

    title: str
    points: Sequence[Row]
    alerts: Sequence[Row]
    domain: tuple[float, float]
    is_log: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PanelColumn:
    """The panels of one mode, and the upright lines through all of them."""

    title: str
    panels: Sequence[Panel]
    lines: Sequence[Row]
    time: tuple[str, str]


def shared_domains(
    columns: Sequence[Sequence[float]], *, is_linear: bool
) -> tuple[list[tuple[float, float]], bool]:
    """Return the range of each panel of a metric, all of one ratio, and whether they are log.

    With `is_linear`, for changes in percent, all panels have the same range.
    """
    if is_linear:
        return [_with_room([value for column in columns for value in column])] * len(columns), False
    if min(value for column in columns for value in column) <= 0:
        # The least numbers of a store are 0 in the unit of a chart.
        return [_with_room(column) for column in columns], False
    bounds = [(math.log(min(column)), math.log(max(column))) for column in columns]
    span = max(math.log(_LEAST_RATIO), *(high - low for low, high in bounds))
    half = min(span, _LARGEST_SPAN) * (0.5 + _ROOM)
    middles = [(low + high) / 2 for low, high in bounds]
    domains = [(math.exp(middle - half), math.exp(middle + half)) for middle in middles]
    return domains, span > LOG_DECADES * math.log(10)


def _with_room(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    room = _ROOM * (high - low) or 1.0
    return low - room, high + room


def share_domains(columns: Sequence[Sequence[float]]) -> list[tuple[float, float]]:
    """Return the range of each panel of a share in percent: up to 100, and down to the least."""
    least = min(value for column in columns for value in column)
    low = max(0.0, min(_HIGHEST_FLOOR_PCT, least - _ROOM * (100 - least)))
    return [(low, 100 + _ROOM * (100 - low))] * len(columns)


def column_spec(column: PanelColumn, *, has_brush: bool = False) -> dict[str, Any]:
    """Return the specification of the panels of one mode, above each other on one time axis.

    With `has_brush`, dragging along the time selects a part of it.
    """
    height = _PLOT_HEIGHT if len(column.panels) > 1 else _TALL_HEIGHT
    views = [
        _view(
            panel,
            column,
            number=number,
            height=height,
            has_dates=number == len(column.panels) - 1,
        )
        for number, panel in enumerate(column.panels)
    ]
    share_rows([layer for view in views for layer in view["layer"]])
    names = [_name(number) for number in range(len(views))]
    num = len(views)
    return {
        "title": {
            "text": column.title,
            "anchor": "start",
            "frame": "bounds",
            "fontSize": 14,
            "offset": 10,
        },
        "description": f"{column.title}: " + "; ".join(panel.title for panel in column.panels),
        "height": num * height + (num - 1) * _GAP + _TITLE_HEIGHT + _AXIS_HEIGHT,
        "spacing": _GAP,
        # Rows of neighbouring columns align, whatever the labels of their axes.
        "bounds": "flush",
        "params": [
            {
                "name": PICK,
                "select": {"type": "point", "fields": ["run_id"], "on": "click", "toggle": False},
                "views": names,
            },
            *([{"name": PART, "select": _BRUSH, "views": names}] if has_brush else []),
        ],
        "vconcat": views,
        "config": {
            "axis": {"labelFontSize": 11, "gridOpacity": 0.5, "labelOverlap": True},
            "legend": {"disable": True},
            "view": {"stroke": None},
        },
    }


def panels_legend(columns: Sequence[PanelColumn]) -> tuple[LegendItem, ...]:
    """Return the signs that these columns have."""
    panels = [panel for column in columns for panel in column.panels]
    points = [row for panel in panels for row in panel.points]
    verdicts = {row["verdict"] for panel in panels for row in panel.alerts}
    has_interval = any(row["low"] != row["high"] for row in points)
    drawn = (
        (has_interval, LegendItem(sign="band", text="run with 95 % interval")),
        (bool(points) and not has_interval, LegendItem(sign="point-line", text="run")),
        (any(row["is_change"] for row in points), _CHANGE_SIGN),
        (any(column.lines for column in columns), _LINE_SIGN),
        (Verdict.REGRESSION in verdicts, LegendItem(sign="up", text="regression")),
        (Verdict.IMPROVEMENT in verdicts, LegendItem(sign="down", text="improvement")),
    )
    return tuple(item for is_drawn, item in drawn if is_drawn)


def _name(number: int) -> str:
    return f"panel{number}"


def _view(
    panel: Panel, column: PanelColumn, *, number: int, height: int, has_dates: bool
) -> dict[str, Any]:
    return {
        "width": _PLOT_WIDTH,
        "height": height,
        "title": {
            "text": f"{panel.title}{LOG_SUFFIX if panel.is_log else ''}",
            "anchor": "start",
            "fontSize": 12,
            "fontWeight": "normal",
            "frame": "group",
            "offset": 6,
        },
        "layer": list(_layers(panel, column, name=_name(number), has_dates=has_dates)),
    }


def _layers(
    panel: Panel, column: PanelColumn, *, name: str, has_dates: bool
) -> Iterator[dict[str, Any]]:
    x = _x(column.time, has_dates=has_dates)
    points = {"values": [dict(row) for row in panel.points]}
    if column.lines:
        yield {
            "data": {"values": [dict(row) for row in column.lines]},
            "mark": {"type": "rule", "color": NEUTRAL, "strokeDash": [4, 3], "strokeWidth": 1.5},
            "encoding": {"x": x, "tooltip": _tooltip(text="what changed", when="date")},
        }
    if any(row["low"] != row["high"] for row in panel.points):
        yield {
            "data": points,
            "mark": {"type": "area", "color": NEUTRAL, "opacity": 0.22},
            "encoding": {
                "x": x,
                "y": _y(panel, "low"),
                "y2": {"field": "high"},
                "detail": {"field": "segment"},
            },
        }
    yield {
        "data": points,
        "mark": {"type": "line", "color": NEUTRAL, "strokeWidth": 1.5},
        "encoding": {"x": x, "y": _y(panel, "value"), "detail": {"field": "segment"}},
    }
    yield {
        "name": name,
        "data": points,
        "mark": {
            "type": "point",
            "filled": True,
            "opacity": 1,
            "color": NEUTRAL,
            "cursor": "pointer",
        },  # fmt: skip
        "encoding": {
            "x": x,
            "y": _y(panel, "value"),
            "size": {"condition": {"test": "datum.is_change", "value": 90}, "value": 16},
            "shape": {
                "condition": {"test": "datum.is_change", "value": "diamond"},
                "value": "circle",
            },
            "tooltip": _tooltip(
                shown="value",
                own="own mean that day",
                cohort="cohort",
                changed="cohort change",
                when="run started",
                revision="revision",
            ),
        },
    }
    if panel.alerts:
        yield _alert_layer(panel, x)


def _alert_layer(panel: Panel, x: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of triangles at the bottom: up for a regression, down for an improvement."""
    return {
        "data": {"values": [dict(row) for row in panel.alerts]},
        "mark": {"type": "point", "filled": True, "opacity": 1, "size": 70, "yOffset": -5},
        "encoding": {
            "x": x,
            "y": {"value": "height"},
            "color": {
                "field": "verdict",
                "type": "nominal",
                "scale": {
                    "domain": [str(verdict) for verdict in VERDICT_COLOURS],
                    "range": list(VERDICT_COLOURS.values()),
                },
            },
            "shape": {
                "condition": {
                    "test": "datum.verdict === 'improvement'",
                    "value": "triangle-down",
                },
                "value": "triangle-up",
            },
            "tooltip": _tooltip(text="alert", when="first bad run"),
        },
    }


def _x(time: tuple[str, str], *, has_dates: bool) -> dict[str, Any]:
    return {
        "field": "at",
        "type": "temporal",
        "title": None,
        "scale": {"type": "time", "domain": list(time), "padding": 6},
        "axis": {
            "grid": False,
            "labels": has_dates,
            "ticks": has_dates,
            "tickCount": 4,
            "labelExpr": "timeFormat(datum.value, '%b %d')",
            "labelAngle": 0,
        },
    }


def _y(panel: Panel, field: str) -> dict[str, Any]:
    scale: dict[str, Any] = {"domain": list(panel.domain), "nice": False, "zero": False}
    if panel.is_log:
        scale["type"] = "log"
    return {
        "field": field,
        "type": "quantitative",
        "title": None,
        "scale": scale,
        "axis": {
            "tickCount": 4,
            "format": ".4~r",
            "minExtent": _LABELS_WIDTH,
            "maxExtent": _LABELS_WIDTH,
        },
    }


def _tooltip(**titles: str) -> list[dict[str, str]]:
    return [{"field": field, "type": "nominal", "title": title} for field, title in titles.items()]
