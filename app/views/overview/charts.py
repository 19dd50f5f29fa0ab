"""The trend of the overview: all modes of one phase in one plot, events in lanes below it. Pure.

A mode has a dash and its name at the end of its line, since colour is for verdicts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from compile_hud.app.ui.charts import PICK, Row, spans_decades
from compile_hud.app.ui.templates.environment import render
from compile_hud.app.ui.theme import NEUTRAL, VERDICT_COLOURS

# The dashes of the modes, in their order; further ones begin again.
DASHES: tuple[tuple[int, ...], ...] = ((1, 0), (7, 3), (2, 2), (9, 3, 2, 3))
# Pixels.
_PLOT_HEIGHT, _SMALL_HEIGHT = 250, 170
_LANE_HEIGHT = 16
# Room between the lowest label of the axis and the first lane.
_LANES_GAP = 10
_AXES_HEIGHT = 34
_LABEL_HEIGHT = 14
_LABELS_WIDTH = 176
_AXIS_WIDTH = 62
# A narrower plot has no names at the ends of its lines: the legend has them.
_MIN_WIDTH = 560
_MAX_DOTS = 40
_ROOM = 0.08
_LEAST_RATIO = 1.04
# The signs of the lanes.
_SHAPES = {"alerts": "triangle-up", "driver": "diamond", "code": "circle", "notes": "square"}
# An event of these lanes has a line through the plot as well.
_RULED = ("driver", "notes")
_DETAIL = [{"field": "mode"}, {"field": "segment"}]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendLine:
    """The line of a mode: rows of points as in `Panel.points`, and its name with its value."""

    mode: str
    text: str
    points: Sequence[Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """The events of one kind: rows of `at`, `text`, `when` and, for alerts, `verdict`, `id`."""

    name: str
    events: Sequence[Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendPlot:
    """One plot; `title` names phase and device, "" for a single plot."""

    title: str
    unit: str
    lines: Sequence[TrendLine]
    lanes: Sequence[Lane]
    time: tuple[str, str]


def trend_spec(plot: TrendPlot, *, is_small: bool) -> dict[str, Any]:
    """Return the specification of a plot."""
    plot_height = _SMALL_HEIGHT if is_small else _PLOT_HEIGHT
    height = plot_height + (_LANES_GAP + _LANE_HEIGHT * len(plot.lanes) if plot.lanes else 0)
    domain, is_log = plot_domain(plot.lines)
    scale: dict[str, Any] = {"domain": list(domain), "range": [plot_height, 0], "nice": False}
    scale |= {"type": "log"} if is_log else {"zero": False}
    return {
        "height": height + _AXES_HEIGHT,
        "description": f"{plot.title} {plot.unit}: {'; '.join(line.text for line in plot.lines)}",
        "layer": list(_layers(plot, scale=scale, height=plot_height)),
        "config": {
            "axis": {"labelFontSize": 11, "gridOpacity": 0.5, "labelOverlap": True},
            "legend": {"disable": True},
            "view": {"stroke": None},
        },
    }


def modes_legend(plot: TrendPlot) -> Markup:
    """Return the dashes of the modes, for a window that is too narrow for names at the lines."""
    items = [(_stops(number), line.text) for number, line in enumerate(plot.lines)]
    return render("overview.html", "modes_legend", items=items)


def _stops(number: int) -> str:
    """Return the dash of a mode as the stops of a gradient."""
    stops, start = [], 0
    for index, length in enumerate(DASHES[number % len(DASHES)]):
        colour = "transparent" if index % 2 else "currentColor"
        stops.append(f"{colour} {start}px {start + length}px")
        start += length
    return ",".join(stops)


def plot_domain(lines: Sequence[TrendLine]) -> tuple[tuple[float, float], bool]:
    """Return the range of the y axis, and whether it is logarithmic."""
    values = [row[name] for line in lines for row in line.points for name in ("low", "high")]
    values = [value for value in values if math.isfinite(value)]
    low, high = min(values), max(values)
    if spans_decades(values):
        room = (high / low) ** _ROOM
        return (low / room, high * room), True
    least = abs(high + low) / 2 * (_LEAST_RATIO - 1) or 1.0
    extra = max(least - (high - low), 0.0) / 2
    room = _ROOM * max(high - low, least)
    return (low - extra - room, high + extra + room), False


def label_heights(
    values: Sequence[float], *, domain: tuple[float, float], is_log: bool, height: float
) -> list[float]:
    """Return the heights of labels in the unit of the values, so that none covers another."""

    def position(value: float) -> float:
        ends = [math.log(item) if is_log else item for item in (*domain, value)]
        return height * (1 - (ends[2] - ends[0]) / (ends[1] - ends[0]))

    def value_at(pixel: float) -> float:
        low, high = (math.log(end) if is_log else end for end in domain)
        value = low + (1 - pixel / height) * (high - low)
        return math.exp(value) if is_log else value

    order = sorted(range(len(values)), key=lambda index: position(values[index]))
    pixels: list[float] = []
    for index in order:
        least = pixels[-1] + _LABEL_HEIGHT if pixels else _LABEL_HEIGHT / 2
        pixels.append(max(position(values[index]), least))
    # A label that was pushed beyond the lower end goes back up.
    most = height - _LABEL_HEIGHT / 2
    for number in reversed(range(len(pixels))):
        pixels[number] = min(pixels[number], most)
        most = pixels[number] - _LABEL_HEIGHT
    heights = [0.0] * len(values)
    for index, pixel in zip(order, pixels, strict=True):
        heights[index] = value_at(pixel)
    return heights


def _layers(plot: TrendPlot, *, scale: Mapping[str, Any], height: int) -> Iterator[dict[str, Any]]:
    x = _x(plot.time)
    y = {"type": "quantitative", "title": None, "scale": dict(scale), "axis": _y_axis(plot)}
    rules = [row for lane in plot.lanes if lane.name in _RULED for row in lane.events]
    if rules:
        yield {
            "data": {"values": [dict(row) for row in rules]},
            "mark": {"type": "rule", "color": NEUTRAL, "strokeDash": [3, 3], "opacity": 0.7},
            "encoding": {"x": x, "tooltip": _tooltip(text="what changed", when="date")},
        }
    values = [{**row, "mode": line.mode} for line in plot.lines for row in line.points]
    # The rows are sent once.
    rows: list[dict[str, Any]] = [{"name": "points", "values": values}, *[{"name": "points"}] * 2]
    if any(row["low"] != row["high"] for row in values):
        yield _band_layer(rows.pop(0), x, y)
    yield _line_layer(rows.pop(0), x, y, modes=[line.mode for line in plot.lines])
    # Dots of many runs hide the dashes; without ink they still have a tooltip and a click.
    is_dense = max(len(line.points) for line in plot.lines) > _MAX_DOTS
    yield _dot_layer(rows.pop(0), x, y, is_dense=is_dense)
    is_log = scale.get("type") == "log"
    yield _end_labels(plot, y, domain=scale["domain"], is_log=is_log, height=height)
    for number, lane in enumerate(plot.lanes):
        bottom = height + _LANES_GAP + _LANE_HEIGHT * (number + 0.5)
        yield from _lane_layers(lane, x, bottom=bottom)


def _band_layer(
    rows: Mapping[str, Any], x: Mapping[str, Any], y: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        "data": rows,
        "mark": {"type": "area", "color": NEUTRAL, "opacity": 0.16},
        "encoding": {
            "x": x,
            "y": {"field": "low", **y},
            "y2": {"field": "high"},
            "detail": _DETAIL,
        },
    }


def _line_layer(
    rows: Mapping[str, Any], x: Mapping[str, Any], y: Mapping[str, Any], *, modes: Sequence[str]
) -> dict[str, Any]:
    dashes = [list(DASHES[index % len(DASHES)]) for index in range(len(modes))]
    return {
        "data": rows,
        "mark": {"type": "line", "color": NEUTRAL, "strokeWidth": 1.8},
        "encoding": {
            "x": x,
            "y": {"field": "value", **y},
            "detail": _DETAIL,
            "strokeDash": {
                "field": "mode",
                "type": "nominal",
                "scale": {"domain": list(modes), "range": dashes},
            },
        },
    }


def _dot_layer(
    rows: Mapping[str, Any], x: Mapping[str, Any], y: Mapping[str, Any], *, is_dense: bool
) -> dict[str, Any]:
    select = {"type": "point", "fields": ["run_id"], "on": "click", "toggle": False}
    return {
        "data": rows,
        "params": [{"name": PICK, "select": select}],
        "mark": {
            "type": "point",
            "filled": True,
            "color": NEUTRAL,
            "cursor": "pointer",
            "opacity": 0 if is_dense else 1,
            "size": 60 if is_dense else 20,
        },
        "encoding": {
            "x": x,
            "y": {"field": "value", **y},
            "tooltip": _tooltip(
                mode="mode",
                shown="value",
                cohort="cohort",
                changed="cohort change",
                when="run started",
                revision="revision",
            ),
        },
    }


def _end_labels(
    plot: TrendPlot, y: Mapping[str, Any], *, domain: Sequence[float], is_log: bool, height: int
) -> dict[str, Any]:
    ends = [line.points[-1]["value"] for line in plot.lines]
    heights = label_heights(ends, domain=(domain[0], domain[1]), is_log=is_log, height=height)
    return {
        "data": {
            "values": [
                {"label": line.text, "level": level}
                for line, level in zip(plot.lines, heights, strict=True)
            ]
        },
        "mark": {
            "type": "text",
            "align": "left",
            "baseline": "middle",
            "fontSize": 11,
            "limit": _LABELS_WIDTH - 10,
            "color": NEUTRAL,
            "x": {"expr": f"width - {_LABELS_WIDTH - 10}"},
            "opacity": {"expr": f"width > {_MIN_WIDTH} ? 1 : 0"},
        },
        "encoding": {"y": {"field": "level", **y}, "text": {"field": "label"}},
    }


def _lane_layers(lane: Lane, x: Mapping[str, Any], *, bottom: float) -> Iterator[dict[str, Any]]:
    yield {
        "data": {"values": [{"label": lane.name}]},
        "mark": {"type": "text", "align": "right", "baseline": "middle", "fontSize": 11,
                 "color": NEUTRAL, "x": -8, "y": bottom},
        "encoding": {"text": {"field": "label"}},
    }  # fmt: skip
    mark: dict[str, Any] = {"type": "point", "filled": True, "opacity": 1, "size": 46,
                            "color": NEUTRAL, "y": bottom}  # fmt: skip
    encoding: dict[str, Any] = {"x": x, "tooltip": _tooltip(text="what changed", when="date")}
    if lane.name == "alerts":
        encoding["color"] = {
            "field": "verdict",
            "type": "nominal",
            "scale": {
                "domain": [str(verdict) for verdict in VERDICT_COLOURS],
                "range": list(VERDICT_COLOURS.values()),
            },
        }
        encoding["shape"] = {
            "condition": {"test": "datum.verdict === 'improvement'", "value": "triangle-down"},
            "value": _SHAPES["alerts"],
        }
    elif lane.name == "torch":
        mark = {"type": "tick", "orient": "vertical", "color": NEUTRAL, "y": bottom, "size": 9,
                "thickness": 1.5}  # fmt: skip
    else:
        mark["shape"] = _SHAPES[lane.name]
    yield {
        "data": {"values": [dict(row) for row in lane.events]},
        "mark": mark,
        "encoding": encoding,
    }


def _x(time: tuple[str, str]) -> dict[str, Any]:
    return {
        "field": "at",
        "type": "temporal",
        "title": None,
        "scale": {
            "type": "time",
            "domain": list(time),
            "range": [6, {"expr": f"width > {_MIN_WIDTH} ? width - {_LABELS_WIDTH} : width - 6"}],
        },
        "axis": {
            "grid": False,
            "tickCount": 6,
            "labelExpr": "timeFormat(datum.value, '%b %d')",
            "labelAngle": 0,
        },
    }


def _y_axis(plot: TrendPlot) -> dict[str, Any]:
    return {
        "tickCount": 5,
        "labelExpr": f"format(datum.value, '.4~r') + '{_unit_end(plot.unit)}'",
        "minExtent": _AXIS_WIDTH,
        "maxExtent": _AXIS_WIDTH,
    }


def _unit_end(unit: str) -> str:
    return unit if unit == "x" else f" {unit}".rstrip()


def _tooltip(**titles: str) -> list[dict[str, str]]:
    return [{"field": field, "type": "nominal", "title": title} for field, title in titles.items()]
