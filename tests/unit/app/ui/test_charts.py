"""The chart specifications."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest

from compile_hud.app.components.trend.chart import PAIR, PART, Trend, brushed, pair_of, trend_spec
from compile_hud.app.ui.charts import (
    LOCAL_TIME,
    LOG_SUFFIX,
    PICK,
    log_axis,
    number_axis,
    samples_spec,
    spans_decades,
    sweep_spec,
)
from compile_hud.app.ui.theme import IMPROVEMENT, NEUTRAL, REGRESSION

POINT = {
    "at": "2026-01-01T02:30:00Z",
    "value": 10.0,
    "low": 9.9,
    "high": 10.1,
    "segment": "0",
    "verdict": "unchanged",
    "shown": "10.0 ms",
    "num_samples": 24,
    "revision": "rev",
    "when": "then",
    "text": "",
    "is_new_revision": True,
    "run_id": "run-0",
    "result_id": "result-0",
}
BAND = {"start": POINT["at"], "end": POINT["at"], "level": 10.0, "low": 9.0, "high": 11.0}
MARK = {"at": POINT["at"], "text": "regression: +9 %", "verdict": "regression", "row": 1}
FAILURE = {"at": POINT["at"], "text": "failed", "revision": "rev", "when": "then", "run_id": "r"}


def trend(**rows: Any) -> dict[str, Any]:
    """Return the trend of one point, with what else is named."""
    return trend_spec(Trend(**{"title": "latency (ms)", "points": [POINT], **rows}))


def marks_of(spec: dict[str, Any]) -> list[str]:
    """Return what each layer draws, in the order of drawing."""
    return [layer["mark"]["type"] for layer in spec["layer"]]


def rows_of(layer: dict[str, Any], first: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of a layer, which may be those of the `first` that draws them."""
    rows: list[dict[str, Any]] = layer["data"].get("values") or first["data"]["values"]
    return rows


def test_a_trend_draws_line_intervals_points_and_revisions() -> None:
    assert marks_of(trend()) == ["line", "rule", "point", "tick"]


@pytest.mark.parametrize(
    ("value", "domain"), [(10.666471, [10.133, 11.2]), (-2.5, [-2.625, -2.375]), (3.0, None)]
)
def test_a_single_value_is_no_tick_with_all_its_digits(
    value: float, domain: list[float] | None
) -> None:
    spec = trend(points=[{**POINT, "value": value, "low": value, "high": value}])
    scale = spec["layer"][0]["encoding"]["y"]["scale"]
    assert scale.get("domain") == (None if domain is None else pytest.approx(domain, rel=1e-4))


def test_bands_and_marks_lie_below_the_points_and_failures_above() -> None:
    spec = trend(bands=[BAND], marks=[{**MARK, "side": "left"}], failures=[FAILURE])
    assert marks_of(spec) == [
        *("rect", "rule"),
        *("rule", "text"),
        *("line", "rule", "point", "tick"),
        "point",
    ]


def test_a_point_of_one_sample_has_no_interval() -> None:
    single = {**POINT, "low": 10.0, "high": 10.0}
    assert marks_of(trend(points=[single])) == ["line", "point", "tick"]
    assert marks_of(trend(points=[single, POINT])) == ["line", "rule", "point", "tick"]
    spec = samples_spec(samples=[sample(10.0)], median=10.0, low=10.0, high=10.0, title=[])
    assert marks_of(spec) == ["rule", "point"]


@pytest.mark.parametrize("points", [[], [{**POINT, "is_new_revision": False}], [POINT, POINT]])
def test_each_layer_has_rows_of_its_own_or_a_selection(points: list[dict[str, Any]]) -> None:
    # Of the extent of nothing Vega warns, and of what Streamlit puts into a chart later.
    spec = trend(points=points)
    assert "data" not in spec
    (selecting,) = {view for param in spec["params"] for view in param["views"]}
    names = [layer.get("name") for layer in spec["layer"]]
    assert selecting in names
    for layer in spec["layer"]:
        assert layer["data"].get("values", True) or layer.get("name") == selecting


def test_clicks_pick_runs_and_a_brush_a_part_of_the_time() -> None:
    params = {param["name"]: param["select"] for param in trend()["params"]}
    assert params[PICK]["on"] == "click[!event.shiftKey]"
    assert params[PAIR]["on"] == "click[event.shiftKey]"
    assert params[PAIR]["fields"] == params[PICK]["fields"] == ["run_id"]
    assert params[PART]["encodings"] == ["x"]


def test_two_points_picked_with_shift_are_a_pair_and_one_is_not() -> None:
    first, second, third = ({"run_id": f"run-{number}"} for number in range(3))
    assert pair_of({"selection": {PAIR: [second, first]}}) == ["run-1", "run-0"]
    assert pair_of({"selection": {PAIR: [second, first, third]}}) == ["run-1", "run-0"]
    for chosen in ([], [first], [first, {}], None):
        assert pair_of({"selection": {PAIR: chosen}}) == []
    assert pair_of({}) == []


def test_a_brush_is_two_moments_in_order() -> None:
    interval = brushed({"selection": {PART: {"at": [1767398400000, 1767225600000]}}})
    assert interval == (
        datetime(2026, 1, 1, tzinfo=timezone.utc),
        datetime(2026, 1, 3, tzinfo=timezone.utc),
    )


@pytest.mark.parametrize(
    "chosen",
    [
        None,
        {},
        [],
        {"at": [1]},
        {"at": [5, 5]},
        {"at": ["a", "b"]},
        {"at": [1e300, 2e300]},
        {"at": 3},
    ],
)
def test_an_invalid_brush_is_ignored(chosen: object) -> None:
    assert brushed({"selection": {PART: chosen}}) is None


def test_the_time_between_the_last_good_and_the_first_bad_run_is_shaded() -> None:
    mark = {**MARK, "side": "left", "after": "2025-12-31T02:30:00Z"}
    rect, rule = trend(marks=[mark])["layer"][:2]
    assert rect["mark"]["type"] == "rect"
    assert rect["mark"]["color"] == rule["mark"]["color"] == {"expr": "datum.colour"}
    for layer in (rect, rule):
        assert [row["colour"] for row in rows_of(layer, rect)] == [REGRESSION]
    assert (rect["encoding"]["x"]["field"], rect["encoding"]["x2"]["field"]) == ("at", "after")


def test_marks_share_layers_and_each_has_its_own_look() -> None:
    marks = [
        {**MARK, "side": "left", "row": 0},
        {**MARK, "side": "right", "verdict": "improvement"},
        {**MARK, "side": "right", "verdict": "", "text": "new baseline"},
    ]
    spec = trend(marks=marks)
    assert marks_of(spec) == [*("rule", "text"), *("line", "rule", "point", "tick")]
    rows = rows_of(spec["layer"][0], spec["layer"][0])
    assert [row["colour"] for row in rows] == [REGRESSION, IMPROVEMENT, NEUTRAL]
    assert [row["dash"] for row in rows] == [[], [], [6, 3]]
    assert [(row["align"], row["dx"]) for row in rows] == [("right", -5), ("left", 5), ("left", 5)]
    assert [row["weight"] for row in rows] == [600, 600, 400]


def test_single_samples_lie_below_their_points() -> None:
    spec = trend(samples=[{"at": POINT["at"], "value": 10.2}])
    assert marks_of(spec)[0] == "point"
    assert spec["layer"][0]["data"]["values"] == [{"at": POINT["at"], "value": 10.2}]


def test_a_note_stands_below_the_axis() -> None:
    spec = trend(note="320 of 730", bands=[BAND], marks=[{**MARK, "side": "left"}])
    assert {layer["encoding"]["x"]["title"] for layer in spec["layer"]} == {
        f"{LOCAL_TIME}; 320 of 730"
    }


def test_rows_that_several_layers_draw_are_in_a_chart_once() -> None:
    data = [layer["data"] for layer in trend()["layer"]]
    named = {rows["name"]: rows["values"] for rows in data if "values" in rows}
    assert len(named) == len({json.dumps(rows) for rows in named.values()})
    assert any("values" not in rows for rows in data)
    assert {rows["name"] for rows in data} == set(named)


def test_a_mark_of_a_new_revision_is_reported_when_it_is_alone() -> None:
    ticks = next(layer for layer in trend()["layer"] if layer["mark"]["type"] == "tick")
    assert ticks["data"]["values"] == [{"at": POINT["at"]}]


def test_a_verdict_has_a_shape_as_well_as_a_colour() -> None:
    encoding = trend()["layer"][2]["encoding"]
    verdicts = ["regression", "improvement", "unchanged", "inconclusive", "identical"]
    assert encoding["color"]["scale"]["domain"] == verdicts
    assert encoding["color"]["scale"]["range"][:2] == [REGRESSION, IMPROVEMENT]
    shapes = encoding["shape"]["scale"]
    assert dict(zip(shapes["domain"], shapes["range"], strict=True)) == {
        "regression": "triangle-up",
        "improvement": "triangle-down",
        "unchanged": "circle",
        "inconclusive": "diamond",
        "identical": "square",
    }


@pytest.mark.parametrize(("side", "align"), [("left", "right"), ("right", "left")])
def test_the_words_of_a_mark_stand_next_to_its_line(side: str, align: str) -> None:
    rule, text = trend(marks=[{**MARK, "side": side}])["layer"][:2]
    (row,) = rows_of(text, rule)
    assert row["colour"] == REGRESSION
    assert row["dash"] == []
    assert row["align"] == align
    assert text["encoding"]["y"] == {"value": {"expr": "datum.row * 14"}}


def test_a_drift_is_drawn_from_its_first_level_to_its_last() -> None:
    days = {"since": "2026-01-02T02:30:00Z", "until": "2026-01-09T02:30:00Z"}
    mark = {**MARK, "side": "left", **days, "from": 10.0, "to": 10.9}
    spec = trend(marks=[mark])
    assert marks_of(spec)[:3] == ["rule", "rule", "text"]
    slope = spec["layer"][1]
    assert [row["colour"] for row in rows_of(slope, spec["layer"][0])] == [REGRESSION]
    ends = {name: channel["field"] for name, channel in slope["encoding"].items()}
    assert ends == {"x": "since", "x2": "until", "y": "from", "y2": "to"}


def test_a_new_baseline_is_dashed_and_has_no_verdict_colour() -> None:
    rule = trend(marks=[{**MARK, "verdict": "", "side": "left"}])["layer"][0]
    (row,) = rows_of(rule, rule)
    assert row["dash"] == [6, 3]
    assert row["colour"] not in (REGRESSION, IMPROVEMENT)


@pytest.mark.parametrize(
    ("is_utc", "scale", "opening", "title"),
    [
        (False, "time", "timeFormat(datum.value, hours(", LOCAL_TIME),
        (True, "utc", "utcFormat(datum.value, utchours(", "UTC"),
    ],
)
def test_times_are_those_of_the_browser_and_of_a_picture_in_utc(
    is_utc: bool, scale: str, opening: str, title: str
) -> None:
    spec = trend(is_utc=is_utc, bands=[BAND], marks=[{**MARK, "side": "left"}])
    axes = [layer["encoding"]["x"] for layer in spec["layer"]]
    assert {axis["scale"]["type"] for axis in axes} == {scale}
    assert {axis["title"] for axis in axes} == {title}
    (expression,) = {axis["axis"]["labelExpr"] for axis in axes if "axis" in axis}
    assert expression.startswith(opening)


def test_the_value_axis_names_the_unit_and_has_no_zero() -> None:
    encoding = trend()["layer"][0]["encoding"]
    assert encoding["y"]["title"] == "latency (ms)"
    assert encoding["y"]["scale"]["zero"] is False


def sample(value: float, kind: str = "sample") -> dict[str, Any]:
    """Return a row of the samples chart."""
    return {"launch": 1, "position": 1, "value": value, "kind": kind, "shown": ""}


def test_warm_ups_are_crosses_and_do_not_set_the_range() -> None:
    rows = [sample(10.0), sample(11.0), sample(99.0, "warm-up")]
    spec = samples_spec(samples=rows, median=10.5, low=10.2, high=10.8, title=["latency", "(ms)"])
    assert marks_of(spec) == ["rect", "rule", "point", "point"]
    crosses, dots = spec["layer"][2:]
    assert crosses["mark"]["shape"] == "cross"
    assert [row["value"] for row in crosses["data"]["values"]] == [99.0]
    assert [row["value"] for row in dots["data"]["values"]] == [10.0, 11.0]
    scale = dots["encoding"]["y"]["scale"]
    assert scale["domain"] == [pytest.approx(9.88), pytest.approx(11.12)]
    assert scale["clamp"] is True
    # An ordinal axis puts launch 10 after launch 9, a nominal one after launch 1.
    assert dots["encoding"]["x"]["type"] == "ordinal"


@pytest.mark.parametrize(("value", "domain"), [(20.0, [19.0, 21.0]), (0.0, [-1.0, 1.0])])
def test_equal_samples_have_a_range(value: float, domain: list[float]) -> None:
    spec = samples_spec(samples=[sample(value)], median=value, low=value, high=value, title=[])
    assert spec["layer"][-1]["encoding"]["y"]["scale"]["domain"] == domain


@pytest.mark.parametrize(
    ("values", "is_log"),
    [
        ([], False),
        ([3.0], False),
        ([2.0, 60.0], False),
        ([2.0, 70.0], True),
        ([0.0, 70.0], False),
        ([-1.0, 1.0, 1000.0], False),
        ([1e-300, 1e300], True),
    ],
)
def test_positive_values_over_decades_suit_a_logarithmic_axis(
    values: list[float], is_log: bool
) -> None:
    assert spans_decades(values) is is_log
    axis = number_axis(values, "time (s)", zero=False, padding=9)
    scale = axis["scale"].to_dict()
    assert scale["padding"] == 9
    assert (scale.get("type") == "log") is is_log
    assert axis["title"] == ("time (s)" + LOG_SUFFIX * is_log)
    assert ("zero" in scale) is not is_log


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([0.3, 40.0], [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]),
        ([0.3, 400.0], [1.0, 10.0, 100.0]),
        ([12.0, 80.0], [20.0, 50.0]),
        ([0.5, 4e8], [10.0 ** (power - 1) for power in range(1, 10)]),
        ([2e-300, 1.5e308], [10.0 ** (76 * number - 300) for number in range(1, 9)]),
    ],
)
def test_ticks_of_a_logarithmic_axis_are_round(values: list[float], ticks: list[float]) -> None:
    assert log_axis(values).to_dict()["values"] == pytest.approx(ticks)


def test_a_range_without_round_numbers_has_the_ticks_of_the_renderer() -> None:
    assert log_axis([21.0, 48.0]).to_dict()["tickCount"] == 6


def wide_trend(**rows: Any) -> dict[str, Any]:
    """Return a trend whose values span two decades."""
    high = {**POINT, "value": 900.0, "low": 880.0, "high": 910.0}
    return trend(points=[POINT, high], **rows)


def test_every_layer_of_a_trend_over_decades_has_the_logarithmic_axis() -> None:
    band = {**BAND, "low": -4.0}
    slope = {**MARK, "side": "left", "since": POINT["at"], "until": POINT["at"]}
    spec = wide_trend(bands=[band], marks=[{**slope, "from": -1.0, "to": 30.0}])
    axes = [
        layer["encoding"]["y"]
        for layer in spec["layer"]
        if "field" in layer["encoding"].get("y", {})
    ]
    assert {axis["scale"]["type"] for axis in axes} == {"log"}
    assert {axis["title"] for axis in axes} == {f"latency (ms){LOG_SUFFIX}"}
    shade = spec["layer"][0]
    assert (shade["mark"]["type"], rows_of(shade, shade)[0]["low"]) == ("rect", POINT["low"])
    (drift,) = [
        row for layer in spec["layer"] for row in layer["data"].get("values", []) if "from" in row
    ]
    assert (drift["from"], drift["to"]) == (POINT["low"], 30.0)


def test_a_band_below_zero_stays_whole_on_a_linear_axis() -> None:
    spec = trend(bands=[{**BAND, "low": -4.0}])
    assert spec["layer"][0]["data"]["values"][0]["low"] == -4.0


def test_samples_over_decades_have_room_on_a_logarithmic_axis() -> None:
    rows = [sample(2.0), sample(400.0)]
    spec = samples_spec(samples=rows, median=20.0, low=2.0, high=400.0, title=["latency", "(ms)"])
    y = spec["layer"][0]["encoding"]["y"]
    assert y["scale"]["type"] == "log"
    assert y["scale"]["domain"][0] < 2.0 < 400.0 < y["scale"]["domain"][1]
    assert y["title"] == ["latency", f"(ms){LOG_SUFFIX}"]


def test_shapes_over_decades_leave_room_for_names_on_a_logarithmic_axis() -> None:
    row = {"side": "eager", "is_variant": False, "shown": "", "num_samples": 3, "label": ""}
    rows = [
        {**row, "value": value, "median": value / 8, "low": value / 8, "high": value / 8}
        for value in (1, 64, 4096)
    ]
    spec = sweep_spec(rows, axis="batch", title="latency (ms)")
    x, y = (spec["layer"][0]["encoding"][name] for name in "xy")
    assert (x["title"], y["title"]) == (f"batch{LOG_SUFFIX}", f"latency (ms){LOG_SUFFIX}")
    assert x["scale"]["domain"][1] > 2 * 4096
