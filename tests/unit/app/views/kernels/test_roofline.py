"""Positions of kernels under the measured roofs."""

from __future__ import annotations

import itertools
import math

import pytest

from compile_hud.app.views.kernels.roofline import (
    Roof,
    roof_labels,
    roofs_of,
    span_of,
    spots_of,
    uncounted,
)
from tests.support.builders import make_kernel

PEAKS = {
    "fp32_flops_per_s": 100e9,
    "bf16_flops_per_s": 400e9,
    "copy_bytes_per_s": 20e9,
    "method": "best of several",
}
COUNTED = make_kernel("mm", num_bytes=1e6, flops=8e6, mean_s=0.001)
NO_FLOPS = make_kernel("fused", num_bytes=1e6)
NO_BYTES = make_kernel("mystery", num_bytes=None, flops=1e6)
DISPATCH = make_kernel("dispatch", kind="dispatch", num_bytes=None)


def test_roofs_are_what_the_run_measured_the_lowest_first() -> None:
    assert roofs_of({"peaks": PEAKS}) == (
        Roof(name="fp32", flops_per_s=100e9, bytes_per_s=20e9),
        Roof(name="bf16", flops_per_s=400e9, bytes_per_s=20e9),
    )


@pytest.mark.parametrize(
    "peaks",
    [
        None,
        "none",
        {"reason": "no GPU"},
        {"fp32_flops_per_s": 1e9},
        {**PEAKS, "copy_bytes_per_s": 0},
        {**PEAKS, "copy_bytes_per_s": float("inf")},
        {"copy_bytes_per_s": 1e9, "fp32_flops_per_s": True},
    ],
)
def test_without_measured_peaks_there_is_no_roof(peaks: object) -> None:
    assert roofs_of({"peaks": peaks}) == ()
    assert roofs_of({}) == ()


def test_memory_limits_below_the_ridge_and_products_above_it() -> None:
    roof = Roof(name="fp32", flops_per_s=100e9, bytes_per_s=20e9)
    assert roof.ridge == 5.0
    assert roof.at(1.0) == 20e9
    assert roof.at(5.0) == roof.at(500.0) == 100e9


def test_a_kernel_stands_at_its_operations_a_byte_and_a_second() -> None:
    (spot,) = spots_of([COUNTED])
    assert (spot.intensity, spot.flops_per_s) == (8.0, pytest.approx(8e9))


def test_uncounted_kernels_are_named_and_not_drawn() -> None:
    kernels = [COUNTED, NO_FLOPS, NO_BYTES, DISPATCH]
    assert [spot.kernel for spot in spots_of(kernels)] == [COUNTED]
    assert uncounted(kernels) == (NO_FLOPS, NO_BYTES)


@pytest.mark.parametrize(
    ("flops_per_s", "texts"),
    [
        (
            {"bf16": 793e12, "fp16": 763e12, "tf32": 368e12},
            ["bf16: 793, fp16: 763 TFLOP/s", "tf32: 368 TFLOP/s"],
        ),
        ({"bf16": 793e12, "fp16": 300e12}, ["bf16: 793 TFLOP/s", "fp16: 300 TFLOP/s"]),
        ({"fp64": 1.2e12, "fp32": 0.9e12}, ["fp64: 1.20, fp32: 0.900 TFLOP/s"]),
    ],
)
def test_roofs_that_are_one_line_to_the_eye_share_a_label(
    flops_per_s: dict[str, float], texts: list[str]
) -> None:
    peaks = {f"{name}_flops_per_s": rate for name, rate in flops_per_s.items()}
    roofs = roofs_of({"peaks": {**peaks, "copy_bytes_per_s": 4e12}})
    spots = spots_of([COUNTED, make_kernel("small", num_bytes=1e6, flops=1e4, mean_s=1e-6)])
    labels = roof_labels(spots, roofs=roofs)
    assert [label.text for label in labels] == texts
    rates = [label.flops_per_s for label in labels]
    begin, end = span_of(spots, roofs=roofs)
    low = min(*(spot.flops_per_s for spot in spots), roofs[0].at(begin))
    places = [math.log(rate / low) / math.log(rates[0] / low) for rate in rates]
    assert all(high - low > 0.05 for high, low in itertools.pairwise(places))
    # There is room left of each.
    assert all(math.log(it.intensity / begin) > 0.26 * math.log(end / begin) for it in labels)


def test_the_axis_holds_all_points_and_ridges() -> None:
    begin, end = span_of(spots_of([COUNTED]), roofs=roofs_of({"peaks": PEAKS}))
    assert begin < 5.0
    assert end > 20.0
