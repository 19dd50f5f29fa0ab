"""The charts, as Vega-Lite specifications. Pure: rows in, dicts out, one house theme.

Values come in the scale of the chart. Colour is for verdicts only; shapes, dashes and labels carry
everything else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from compile_hud.app.ui.format import is_interval
from compile_hud.app.ui.theme import NEUTRAL, VERDICT_COLOURS

Row = Mapping[str, Any]
# The selection that a click on a point makes.
PICK = "pick"
SAMPLES_HEIGHT = 220
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
    y_scale = alt.Scale(domain=_domain(samples, low=low, high=high), clamp=True, nice=False)
    y = alt.Y("value:Q", scale=y_scale, title=title)
    reference = chart_of([{"median": median, "low": low, "high": high}])
    interval = reference.mark_rect(color=NEUTRAL, opacity=0.18).encode(
        y=alt.Y("low:Q", scale=y_scale, title=title), y2="high:Q"
    )
    middle = reference.mark_rule(color=NEUTRAL).encode(
        y=alt.Y("median:Q", scale=y_scale, title=title)
    )
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
    lowest, highest = min(row["value"] for row in rows), max(row["value"] for row in rows)
    # Names stand behind the last points.
    domain = [lowest - 0.05 * (highest - lowest), highest + 0.18 * (highest - lowest)]
    x = alt.X(
        "value:Q",
        title=axis,
        scale=alt.Scale(domain=domain, nice=False),
        axis=alt.Axis(grid=False, values=sorted({row["value"] for row in rows})),
    )
    y = alt.Y("median:Q", title=title, scale=alt.Scale(zero=True))
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
                x=x, y=alt.Y("low:Q", title=title), y2="high:Q"
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


def _domain(samples: Sequence[Row], *, low: float, high: float) -> list[float]:
    """Return the range of the samples, with a margin; warm-ups beyond it lie on the edge."""
    values = [row["value"] for row in samples if row["kind"] == "sample"] + [low, high]
    margin = 0.12 * (max(values) - min(values)) or 0.05 * abs(max(values)) or 1.0
    return [min(values) - margin, max(values) + margin]


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


def time_axis() -> alt.Axis:
    """Return the axis of runs over time: dates of nights, hours of runs of one day."""
    # A night needs its date only; runs of one day need their hours.
    form = "utchours(datum.value) || utcminutes(datum.value) ? '%m-%d %H:%M' : '%Y-%m-%d'"
    label = f"utcFormat(datum.value, {form})"
    return alt.Axis(grid=False, labelExpr=label, labelAngle=0, tickCount=8)


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
    _share_rows(spec["layer"])
    spec["config"] = _CONFIG
    return spec


def _has_rows(layer: Mapping[str, Any]) -> bool:
    # A layer with a name has a selection, which Streamlit listens to.
    return bool(layer["data"]["values"] or "name" in layer)


def _share_rows(layers: Sequence[dict[str, Any]]) -> None:
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
