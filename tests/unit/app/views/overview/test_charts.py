"""The trend chart of the overview."""

from __future__ import annotations

import altair as alt
import pytest

from compile_hud.app.ui.charts import PICK
from compile_hud.app.ui.theme import VERDICT_COLOURS
from compile_hud.app.views.overview.charts import (
    DASHES,
    Lane,
    TrendLine,
    TrendPlot,
    label_heights,
    modes_legend,
    plot_domain,
    trend_spec,
)


def row(day: int, value: float, *, width: float = 0.01) -> dict[str, object]:
    """Return a point of a day in January."""
    return {
        "at": f"2026-01-{day:02}T02:30:00Z",
        "value": value,
        "low": value - width,
        "high": value + width,
        "segment": 0,
        "run_id": f"run-{day}",
        "shown": f"{value:.2f}x",
    }


def plot(*values: float, lanes: tuple[Lane, ...] = (), num_points: int = 3) -> TrendPlot:
    """Return a plot with a constant line for each value."""
    return TrendPlot(
        title="training",
        unit="x",
        lines=[
            TrendLine(
                mode=f"mode-{number}",
                text=f"mode-{number} {value:.2f}x",
                points=[row(1 + day, value) for day in range(num_points)],
            )
            for number, value in enumerate(values)
        ],
        lanes=lanes,
        time=("2026-01-01T00:00:00Z", "2026-01-20T00:00:00Z"),
    )


EVENT = {"at": "2026-01-02T02:30:00Z", "text": "570 -> 580", "when": "2026-01-02", "verdict": ""}


def test_the_specification_is_valid_and_lines_have_dashes_instead_of_colours() -> None:
    lanes = tuple(Lane(name=name, events=[EVENT]) for name in ("alerts", "torch", "driver"))
    spec = trend_spec(plot(1.4, 1.9, lanes=lanes), is_small=False)
    alt.LayerChart.from_dict({key: value for key, value in spec.items() if key != "height"})
    lines = [layer for layer in spec["layer"] if layer["mark"]["type"] == "line"]
    dashes = lines[0]["encoding"]["strokeDash"]["scale"]
    assert dashes == {"domain": ["mode-0", "mode-1"], "range": [list(DASHES[0]), list(DASHES[1])]}
    coloured = [layer for layer in spec["layer"] if "color" in layer["encoding"]]
    (scale,) = (layer["encoding"]["color"]["scale"] for layer in coloured)
    assert scale["range"] == list(VERDICT_COLOURS.values())


def test_a_click_on_a_point_picks_its_run() -> None:
    spec = trend_spec(plot(1.4), is_small=True)
    (params,) = (layer["params"] for layer in spec["layer"] if "params" in layer)
    assert (params[0]["name"], params[0]["select"]["fields"]) == (PICK, ["run_id"])


def test_events_of_the_machine_cross_the_plot_and_torch_does_not() -> None:
    def rules(name: str) -> int:
        spec = trend_spec(plot(1.4, lanes=(Lane(name=name, events=[EVENT]),)), is_small=True)
        return sum(layer["mark"]["type"] == "rule" for layer in spec["layer"])

    assert [rules(name) for name in ("driver", "notes", "torch", "alerts")] == [1, 1, 0, 0]


def test_dots_of_many_runs_have_no_ink() -> None:
    def opacity(num_points: int) -> object:
        spec = trend_spec(plot(1.4, num_points=num_points), is_small=True)
        return next(layer["mark"]["opacity"] for layer in spec["layer"] if "params" in layer)

    assert (opacity(12), opacity(60)) == (1, 0)


def test_each_lane_makes_the_plot_higher() -> None:
    lanes = tuple(Lane(name=name, events=[EVENT]) for name in ("torch", "notes"))
    heights = [
        trend_spec(plot(1.4, lanes=lanes[:number]), is_small=True)["height"] for number in range(3)
    ]
    assert heights[0] < heights[1] < heights[2]


def test_values_that_span_decades_are_logarithmic() -> None:
    domain, is_log = plot_domain(plot(1.0, 40.0).lines)
    assert is_log
    assert domain[0] < 0.99 < 40.01 < domain[1]
    assert not plot_domain(plot(1.0, 12.0).lines)[1]
    low, high = plot_domain(plot(0.0).lines)[0]
    assert low < 0 < high


@pytest.mark.parametrize(
    ("values", "is_log"),
    [((1.0, 1.01, 1.02, 5.0), False), ((4.9, 5.0, 1.1), True), ((3.0,), False)],
)
def test_labels_keep_their_order_and_do_not_cover_one_another(
    values: tuple[float, ...], is_log: bool
) -> None:
    heights = label_heights(values, domain=(1.0, 5.0), is_log=is_log, height=200)
    assert sorted(range(len(values)), key=values.__getitem__) == sorted(
        range(len(values)), key=heights.__getitem__
    )
    if not is_log:
        pixels = sorted(200 * (level - 1) / 4 for level in heights)
        assert all(b - a > 13.9 for a, b in zip(pixels, pixels[1:], strict=False))


def test_a_narrow_window_has_a_legend_of_the_dashes() -> None:
    html = modes_legend(plot(1.4, 1.9))
    assert html.count('class="dash"') == 2
    assert "mode-1 1.90x" in html


def test_the_axis_has_the_time_of_the_browser() -> None:
    spec = trend_spec(plot(1.4, lanes=(Lane(name="torch", events=[EVENT]),)), is_small=True)
    axes = [layer["encoding"]["x"] for layer in spec["layer"] if "x" in layer["encoding"]]
    assert {axis["scale"]["type"] for axis in axes} == {"time"}
    assert all(axis["axis"]["labelExpr"].startswith("timeFormat(") for axis in axes)
