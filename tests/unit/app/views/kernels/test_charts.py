"""The charts of kernels, as specifications."""

from __future__ import annotations

import dataclasses
import json
from datetime import timedelta
from typing import Any

from compile_hud.app.ui.charts import picked
from compile_hud.app.ui.format import Scale
from compile_hud.app.ui.theme import KIND_COLOURS
from compile_hud.app.views.kernels.charts import (
    icicle_spec,
    kernel_trend_legend,
    kernel_trend_spec,
    roofline_legend,
    roofline_spec,
    strip_spec,
)
from compile_hud.app.views.kernels.icicle import layout
from compile_hud.app.views.kernels.roofline import roofs_of, spots_of
from compile_hud.app.views.kernels.tables import kernel_id
from compile_hud.app.views.kernels.timeline import lane_name, strip_rows, strip_text
from compile_hud.db.records.kernels import KINDS, KernelPoint, Profile, TimelineSpan
from tests.support.builders import START, make_kernel

PEAKS = {"fp32_flops_per_s": 100e9, "copy_bytes_per_s": 20e9}
PRODUCT = make_kernel("mm", label="mm", kind="gemm", flops=8e6, roofline=1.25)
HOSTILE = make_kernel("<b>" + "x" * 10_000, label="<b>" + "x" * 10_000, kind="<i>", flops=8e6)


def rows(spec: dict[str, Any], layer: int) -> list[dict[str, Any]]:
    values: list[dict[str, Any]] = spec["layer"][layer]["data"]["values"]
    return values


def test_the_icicle_has_a_rectangle_for_each_and_words_where_there_is_room() -> None:
    tiny = make_kernel("tiny", label="tiny", mean_s=1e-6)
    spec = icicle_spec(layout([PRODUCT, tiny]))
    # In a narrow window the numbers of the axis have room, too.
    assert spec["layer"][0]["encoding"]["x"]["axis"]["tickCount"] == {"expr": "ceil(width / 100)"}
    assert [row["name"] for row in rows(spec, 0) if row["what"] == "kernel"] == ["mm", "tiny"]
    assert "tiny" not in [row["name"] for row in rows(spec, 1)]
    assert {row["kernel"] for row in rows(spec, 0)} == {"", kernel_id(PRODUCT), kernel_id(tiny)}


def test_points_above_the_roof_are_drawn_where_they_were_measured() -> None:
    spec = roofline_spec(spots_of([PRODUCT]), roofs=roofs_of({"peaks": PEAKS}))
    (dot,) = rows(spec, 2)
    assert (dot["intensity"], dot["rate"]) == (8.0, 8.0)
    assert dot["roofline"] == "in cache"
    assert {row["roof"] for row in rows(spec, 0)} == {"fp32"}
    assert [row["roof"] for row in rows(spec, 1)] == ["fp32: 100 GFLOP/s"]
    # Else Vega warns, which unites what it would say of the two in one legend.
    dots = spec["layer"][2]["encoding"]
    assert dots["color"]["scale"]["domain"] == dots["shape"]["scale"]["domain"]


def test_the_axes_of_the_roofline_have_a_tick_at_each_power_of_ten() -> None:
    spec = roofline_spec(spots_of([PRODUCT]), roofs=roofs_of({"peaks": PEAKS}))
    drawn = [row["rate"] for layer in (0, 2) for row in rows(spec, layer)]
    ticks = spec["layer"][0]["encoding"]["y"]["axis"]["values"]
    powers = [tick for tick in (0.1, 1, 10, 100) if min(drawn) <= tick <= max(drawn)]
    assert set(powers) <= set(ticks)
    assert len(ticks) > 1


def test_names_in_tooltips_are_cut_and_kinds_without_a_colour_are_other() -> None:
    specs = [
        icicle_spec(layout([HOSTILE])),
        roofline_spec(spots_of([HOSTILE]), roofs=roofs_of({"peaks": PEAKS})),
    ]
    for spec in specs:
        assert len(json.dumps(spec)) < 12_000
    assert rows(specs[1], 2)[0]["kind"] == "other"
    assert rows(specs[1], 2)[0]["kind_shown"] == "<i>"


def test_each_kind_has_a_colour_and_a_shape_of_its_own() -> None:
    spec = roofline_spec(spots_of([PRODUCT]), roofs=roofs_of({"peaks": PEAKS}))
    shapes = spec["layer"][2]["encoding"]["shape"]["scale"]
    assert len(set(shapes["range"])) == len(shapes["domain"]) == len(KINDS)
    assert len({KIND_COLOURS[kind] for kind in KINDS}) == len(KINDS)


def test_a_lane_of_the_timeline_is_a_thread_or_a_stream() -> None:
    slices = (
        TimelineSpan(start_s=0.0, duration_s=0.002, lane=0, kernel=0),
        TimelineSpan(start_s=0.003, duration_s=0.001, lane=1, kernel=1),
        TimelineSpan(start_s=0.004, duration_s=0.001, lane=0, kernel=99),
    )
    profile = Profile(
        num_iterations=9,
        iteration_s=0.005,
        latency_s=None,
        components={"gemm": 0.005},
        timeline=slices,
    )
    strips = strip_rows(profile, [PRODUCT, HOSTILE], scale=Scale(1e-3, "ms"))
    assert [(row["lane"], row["start"], row["end"]) for row in strips] == [
        ("thread 1", 0.0, 2.0),
        ("thread 2", 3.0, 4.0),
    ]
    assert rows(strip_spec(strips, unit="ms"), 0)[1]["kind"] == "other"
    assert len(json.dumps(strip_spec(strips, unit="ms"))) < 8_000
    assert lane_name(7, device="cuda") == "stream 7"
    assert "median of 9 iterations" in strip_text(profile)


def trend_points() -> list[KernelPoint]:
    """Return a point of each of three runs, the last one in another environment."""
    return [
        KernelPoint(
            run_id=f"run-{number}",
            result_id=f"result-{number}",
            at=START + timedelta(days=number),
            revision=f"rev-{number}",
            machine="box",
            toolchain="stable",
            fingerprint="a" if number < 2 else "b",
            count=2.0,
            total_s=0.002,
            min_s=0.001,
            share=0.2,
            num_sources=1,
        )
        for number in range(3)
    ]


def test_a_point_of_the_trend_has_its_revision() -> None:
    values = rows(kernel_trend_spec(trend_points()), 0)
    assert [(row["revision"], row["value"]) for row in values] == [
        ("rev-0", 2.0),
        ("rev-1", 2.0),
        ("rev-2", 2.0),
    ]
    assert [row["segment"] for row in values] == ["a", "a", "b"]


def test_what_was_clicked_is_read_and_nothing_else() -> None:
    assert picked({"selection": {"pick": [{"kernel": "abc"}]}}, "kernel") == "abc"
    assert picked({"selection": {"pick": [{"other": "abc"}]}}, "kernel") == ""
    assert picked({"selection": {"pick": []}}, "kernel") == ""
    assert picked({}, "kernel") == ""
    assert picked({"selection": {"pick": [{"run_id": "run-3"}]}}, "run_id") == "run-3"


def test_the_legend_of_the_roofline_has_the_kinds_that_are_drawn() -> None:
    plain = dataclasses.replace(PRODUCT, kind="reduction")
    signs = [item.sign for item in roofline_legend(spots_of([plain, PRODUCT, PRODUCT]))]
    assert signs == ["kind-gemm", "kind-reduction", "point-sizes", "roof"]


def test_the_legend_of_a_kernel_names_a_broken_line_only_where_it_is_broken() -> None:
    points = trend_points()
    (whole,), (broken,) = kernel_trend_legend(points[:2]), kernel_trend_legend(points)
    assert (whole.text, whole.sign) == ("run", broken.sign)
    assert "environment" in broken.text
