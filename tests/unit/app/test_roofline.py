"""Where kernels stand under the measured roofs."""

from __future__ import annotations

import pytest

from app.roofline import Roof, roofs_of, span_of, spots_of, uncounted
from tests.builders import make_kernel

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


def test_what_nobody_counted_is_named_and_has_no_place() -> None:
    kernels = [COUNTED, NO_FLOPS, NO_BYTES, DISPATCH]
    assert [spot.kernel for spot in spots_of(kernels)] == [COUNTED]
    assert uncounted(kernels) == (NO_FLOPS, NO_BYTES)


def test_the_axis_holds_all_points_and_ridges() -> None:
    begin, end = span_of(spots_of([COUNTED]), roofs=roofs_of({"peaks": PEAKS}))
    assert begin < 5.0
    assert end > 20.0
