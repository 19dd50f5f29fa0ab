"""The charts, as Vega-Lite specifications. Pure: rows in, dicts out, one house theme.

Values come in the scale of the chart. Colour is for verdicts only; shapes, dashes and labels carry
everything else.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt

from compile_hud.app.ui.format import is_interval
from compile_hud.app.ui.theme import NEUTRAL, VERDICT_COLOURS

Row = Mapping[str, Any]
# The selection that a click on a point makes.
PICK = "pick"
SAMPLES_HEIGHT = 220
# Positive values that span more have a logarithmic axis: on a linear one most lie at its bottom.
LOG_DECADES = 1.5
# A title says so, because labels with few ticks do not show it.
LOG_SUFFIX = ", log scale"
# The title of an axis in the time of the browser; the tooltips have UTC.
LOCAL_TIME = "local time"
# Below it powers of ten would be one or two lines.
_FEW_DECADES = 3
# More lines of powers than these would lie on each other.
_NUM_POWERS = 8
_CONFIG: dict[str, Any] = {
    "axis": {
        "labelFontSize": 12,
        "titleFontSize": 12,
        "gridOpacity": 0.5,
        "labelOverlap": True,
        "labelSeparation": 12,
    },
    "legend": {"disable": True},
    "view": {"stroke": None},
}


def samples_spec(
    *, samples: Sequence[Row], median: float, low: float, high: float, title: list[str]
) -> dict[str, Any]:
    """Return every sample of a measurement, launch by launch in the order they were taken.

    The rows are those of `sample_rows` in app/components/trend/rows.py; `title` has the lines of
    the title of the y axis.
    """
    values = [row["value"] for row in samples if row["kind"] == "sample"] + [low, high]
    domain = _domain(values)
    axis = number_axis(values, title[-1] if title else "", domain=domain, clamp=True, nice=False)
    axis = {**axis, "title": [*title[:-1], axis["title"]]}
    y = alt.Y("value:Q", **axis)
    reference = chart_of([{"median": median, "low": low, "high": high}])
    interval = reference.mark_rect(color=NEUTRAL, opacity=0.18).encode(
        y=alt.Y("low:Q", **axis), y2="high:Q"
    )
    middle = reference.mark_rule(color=NEUTRAL).encode(y=alt.Y("median:Q", **axis))
    layout: dict[str, Any] = {
        "x": alt.X("launch:O", title="launch (fresh process)", axis=alt.Axis(labelAngle=0)),
        "xOffset": alt.XOffset("position:O"),
        "y": y,
        "tooltip": [
            alt.Tooltip("shown:N", title="value"),
            alt.Tooltip("kind:N", title="kind"),
            alt.Tooltip("launch:N", title="launch"),
            alt.Tooltip("position:Q", title="position"),
        ],
    }
    dots = chart_of([row for row in samples if row["kind"] == "sample"])
    crosses = chart_of([row for row in samples if row["kind"] != "sample"])
    # A single sample has no interval.
    chart = alt.layer(
        *([interval] if is_interval(low, high) else []),
        middle,
        crosses.mark_point(shape="cross", angle=45, size=40, color=NEUTRAL).encode(**layout),
        dots.mark_point(filled=True, size=24, color=NEUTRAL, opacity=0.9).encode(**layout),
    ).properties(height=SAMPLES_HEIGHT, width="container")
    return finished(chart)


def sweep_spec(rows: Sequence[Row], *, axis: str, title: str) -> dict[str, Any]:
    """Return latency by shape, eager dashed and hollow; diamonds are labelled shapes.

    The rows are those of `sweep_rows` in app/views/runs/shape_sweep.py.
    """
    shapes = sorted({row["value"] for row in rows})
    highest = shapes[-1]
    across = number_axis(shapes, axis, domain=_sweep_domain(shapes), nice=False)
    x = alt.X("value:Q", **{**across, "axis": alt.Axis(grid=False, values=shapes)})
    times = [row[name] for row in rows for name in ("median", "low", "high")]
    up = number_axis(times, title, zero=True)
    y = alt.Y("median:Q", **up)
    tooltip = [
        alt.Tooltip("side:N", title="side"),
        alt.Tooltip("value:Q", title=axis),
        alt.Tooltip("shown:N", title="median"),
        alt.Tooltip("num_samples:Q", title="samples"),
        alt.Tooltip("text:N", title="compiled again"),
    ]
    layers = []
    for is_variant in (False, True):
        base = chart_of([row for row in rows if row["is_variant"] is is_variant])
        layers += [
            base.mark_line(
                color=NEUTRAL, strokeWidth=1.5, strokeDash=[] if is_variant else [4, 3]
            ).encode(x=x, y=y),
            base.mark_rule(color=NEUTRAL, opacity=0.7).encode(
                x=x, y=alt.Y("low:Q", **up), y2="high:Q"
            ),
            base.mark_point(filled=is_variant, size=50, color=NEUTRAL, opacity=1).encode(
                x=x, y=y, tooltip=tooltip
            ),
        ]
    marked = chart_of([row for row in rows if row["label"]])
    last = chart_of([row for row in rows if row["value"] == highest])
    layers += [
        marked.mark_point(shape="diamond", size=190, color=NEUTRAL, strokeWidth=2).encode(
            x=x, y=y, tooltip=tooltip
        ),
        marked.mark_text(align="left", dx=12, dy=12, fontSize=12, color=NEUTRAL).encode(
            x=x, y=y, text="label:N"
        ),
        last.mark_text(align="left", dx=10, fontSize=12, color=NEUTRAL).encode(
            x=x, y=y, text="side:N"
        ),
    ]
    return finished(alt.layer(*layers).properties(height=SAMPLES_HEIGHT, width="container"))


def _sweep_domain(shapes: Sequence[float]) -> list[float]:
    """Return the range of the shapes, with room for the names behind the last points."""
    lowest, highest = shapes[0], shapes[-1]
    if spans_decades(shapes):
        ratio = highest / lowest
        return [lowest / ratio**0.05, highest * ratio**0.18]
    return [lowest - 0.05 * (highest - lowest), highest + 0.18 * (highest - lowest)]


def _domain(values: Sequence[float]) -> list[float]:
    """Return the range of the samples, with a margin; warm-ups beyond it lie on the edge."""
    if spans_decades(values):
        return [min(values) / 1.2, min(max(values) * 1.2, sys.float_info.max)]
    margin = 0.12 * (max(values) - min(values)) or 0.05 * abs(max(values)) or 1.0
    return [min(values) - margin, max(values) + margin]


def spans_decades(values: Iterable[float]) -> bool:
    """Return whether a logarithmic axis suits these values: all positive, over LOG_DECADES."""
    known = list(values)
    if not known or min(known) <= 0:
        return False
    return math.log10(max(known)) - math.log10(min(known)) > LOG_DECADES


def number_axis(values: Iterable[float], title: str, **linear: Any) -> dict[str, Any]:
    """Return title, scale and axis of a channel with these values.

    `linear` are properties of the scale. A logarithmic one takes the padding and the range of them,
    since it has no zero and ends at no round number.
    """
    known = list(values)
    if not spans_decades(known):
        return {"title": title, "scale": alt.Scale(**linear)}
    common = {name: linear[name] for name in ("padding", "domain", "clamp") if name in linear}
    return {
        "title": f"{title}{LOG_SUFFIX}",
        "scale": alt.Scale(type="log", nice=False, **common),
        "axis": log_axis(known),
    }


def log_axis(values: Sequence[float]) -> alt.Axis:
    """Return a logarithmic axis with ticks at powers of ten, over few decades at 2 and 5 of each.

    Vega chooses the ticks of a range that has fewer than two of these.
    """
    low, high = math.log10(min(values)), math.log10(max(values))
    steps = (1, 2, 5) if high - low < _FEW_DECADES else (1,)
    stride = max(1, round((high - low) / _NUM_POWERS))
    powers = range(math.floor(low), math.floor(high) + 1, stride)
    ticks = [step * 10.0**power for power in powers for step in steps]
    inside = [tick for tick in ticks if min(values) <= tick <= max(values)]
    if len(inside) < 2:
        return alt.Axis(grid=True, tickCount=6, format="~g")
    return alt.Axis(grid=True, values=inside, format="~g")


def chart_of(rows: Sequence[Row]) -> alt.Chart:
    """Return a chart of these rows without a mark."""
    values = [dict(row) for row in rows]
    return alt.Chart(alt.Data(values=values))  # type: ignore[no-untyped-call]


def picks(field: str) -> alt.Parameter:
    """Return the parameter with which a click on a mark selects its `field`; see `picked`."""
    return alt.selection_point(name=PICK, fields=[field], on="click", empty=False)


def picked(event: Mapping[str, Any], field: str) -> str:
    """Return the `field` of the clicked mark, empty without a click or such a field."""
    chosen = event.get("selection", {}).get(PICK) or []
    return str(chosen[0].get(field) or "") if chosen else ""


def verdict_colour() -> alt.Color:
    """Return the encoding of the column `verdict` as a colour."""
    return alt.Color(
        "verdict:N",
        scale=alt.Scale(
            domain=[str(verdict) for verdict in VERDICT_COLOURS],
            range=list(VERDICT_COLOURS.values()),
        ),
    )


def time_axis(*, is_utc: bool = False) -> alt.Axis:
    """Return the axis of runs over time: dates of nights, hours of runs of one day.

    It has the time of the browser, or with `is_utc` that of a picture, which has no browser.
    """
    # A night needs its date only; runs of one day need their hours.
    utc, time_format = ("utc", "utcFormat") if is_utc else ("", "timeFormat")
    hours = f"{utc}hours(datum.value) || {utc}minutes(datum.value)"
    label = f"{time_format}(datum.value, {hours} ? '%m-%d %H:%M' : '%Y-%m-%d')"
    return alt.Axis(grid=False, labelExpr=label, labelAngle=0, tickCount=8)


def time_scale(*, is_utc: bool = False, **values: Any) -> alt.Scale:
    """Return the scale of `time_axis`."""
    return alt.Scale(type="utc" if is_utc else "time", **values)


def finished(chart: alt.LayerChart | alt.FacetChart) -> dict[str, Any]:
    """Return the specification of `chart` in the house theme.

    Each layer has its own rows, because Streamlit passes a chart's outer data to a chart that
    exists already. A layer without rows is left out, because Vega warns of its empty extent.
    """
    spec: dict[str, Any] = chart.to_dict()
    if (shared := spec.pop("data", None)) is not None:
        for layer in spec["layer"]:
            layer.setdefault("data", dict(shared))
    spec["layer"] = [layer for layer in spec["layer"] if _has_rows(layer)]
    share_rows(spec["layer"])
    spec["config"] = _CONFIG
    return spec


def _has_rows(layer: Mapping[str, Any]) -> bool:
    # A layer with a name has a selection, which Streamlit listens to.
    return bool(layer["data"]["values"] or "name" in layer)


def share_rows(layers: Sequence[dict[str, Any]]) -> None:
    """Let layers with equal rows refer to those of the first, so rows are sent once."""
    named: list[dict[str, Any]] = []
    for layer in layers:
        rows = layer["data"]
        same = next((item for item in named if item["values"] == rows["values"]), None)
        if same is None:
            rows["name"] = f"rows-{len(named)}"
            named.append(rows)
        else:
            layer["data"] = {"name": same["name"]}
