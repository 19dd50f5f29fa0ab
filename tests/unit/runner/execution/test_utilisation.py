"""MFU and bandwidth against counts, latencies and peaks made up so that shares are round."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import CaseResult, Dtype, Measurement, Outcome
from compile_hud.runner.execution.utilisation import peaks_in_trace, with_utilisation
from tests.support.builders import make_case, make_measurement, make_result

PEAKS = {
    "fp32_flops_per_s": 1000.0,
    "bf16_flops_per_s": 4000.0,
    "fp16_flops_per_s": 8000.0,
    "copy_bytes_per_s": 200.0,
    "method": "made up",
}


def used(
    *, dtype: Dtype = Dtype.FP32, without: str = "", peaks: dict[str, Any] = PEAKS, **counts: float
) -> CaseResult:
    """Return a case that takes 0.5 s and 0.25 s in turn, with its utilisation."""
    numbers = {"flops": 100.0, "compulsory_bytes": 50.0} | counts
    measurements = [
        make_measurement("latency_s", samples=[0.5, 0.25, 0.5, 0.25], launches=(2, 2)),
        *(make_measurement(name, samples=[value]) for name, value in numbers.items()),
    ]
    measurements_left = [item for item in measurements if item.metric != without]
    result = make_result(case=make_case(dtype=dtype), measurements=measurements_left)
    return with_utilisation(result, peaks=peaks)


def samples(result: CaseResult, metric: str) -> tuple[float, ...] | None:
    measurement = result.measurement(metric)
    return None if measurement is None else measurement.samples


@pytest.mark.parametrize(
    ("dtype", "shares"),
    [
        (Dtype.FP32, (0.2, 0.4, 0.2, 0.4)),
        (Dtype.BF16, (0.05, 0.1, 0.05, 0.1)),
        (Dtype.BF16_AUTOCAST, (0.05, 0.1, 0.05, 0.1)),
        (Dtype.FP16, (0.025, 0.05, 0.025, 0.05)),
        (Dtype.FP16_AUTOCAST, (0.025, 0.05, 0.025, 0.05)),
    ],
)
def test_mfu_is_the_share_of_the_peak_of_the_cases_dtype(
    dtype: Dtype, shares: tuple[float, ...]
) -> None:
    assert samples(used(dtype=dtype), "mfu") == pytest.approx(shares)


def test_utilisation_keeps_the_launches_of_the_latency() -> None:
    mfu = used().measurement("mfu")
    assert isinstance(mfu, Measurement)
    assert mfu.launches == (2, 2)
    assert mfu.unit == "share"
    assert mfu.interval[0] <= mfu.median <= mfu.interval[1]
    assert "fp32_flops_per_s" in mfu.method


@pytest.mark.parametrize(
    ("dtype", "peaks", "mfu"),
    [
        # 60 of the 100 operations at 1000 a second, 40 at 8000: 65 ms of 500.
        (Dtype.FP32, PEAKS | {"tf32_flops_per_s": 8000.0}, 0.13),
        (Dtype.FP32, PEAKS, 0.2),
        (Dtype.BF16, PEAKS | {"tf32_flops_per_s": 8000.0}, 0.05),
        (Dtype.TF32, PEAKS | {"tf32_flops_per_s": 8000.0}, 0.025),
    ],
)
def test_convolutions_in_tf32_are_compared_with_products_in_tf32(
    dtype: Dtype, peaks: dict[str, Any], mfu: float
) -> None:
    measurements = [
        make_measurement("latency_s", samples=[0.5]),
        make_measurement("flops", samples=[100.0]),
    ]
    by_operator = {"aten.mm": 60, "aten.convolution": 15, "aten.convolution_backward": 25}
    result = make_result(case=make_case(dtype=dtype), measurements=measurements)
    result = replace(result, details={"work": {"flops_by_operator": by_operator}})
    measurement = with_utilisation(result, peaks=peaks).measurement("mfu")
    assert isinstance(measurement, Measurement)
    assert measurement.median == pytest.approx(mfu)
    assert ("tf32_flops_per_s" in measurement.method) == (mfu in {0.13, 0.025})


def test_kernels_of_a_case_in_tf32_are_compared_with_products_in_tf32() -> None:
    peaks = PEAKS | {"tf32_flops_per_s": 8000.0}
    assert peaks_in_trace(Dtype.TF32, peaks=peaks)["fp32_flops_per_s"] == 8000.0
    assert peaks_in_trace(Dtype.FP32, peaks=peaks)["fp32_flops_per_s"] == 1000.0
    assert peaks_in_trace(Dtype.TF32, peaks=PEAKS)["fp32_flops_per_s"] == 1000.0
    assert "method" not in peaks_in_trace(Dtype.FP32, peaks=PEAKS)


def test_bandwidth_is_compared_with_a_copy() -> None:
    result = used()
    assert samples(result, "bandwidth_bytes_per_s") == pytest.approx((100, 200, 100, 200))
    assert samples(result, "bandwidth_share") == pytest.approx((0.5, 1.0, 0.5, 1.0))


@pytest.mark.parametrize(
    ("without", "left"),
    [
        ("latency_s", set()),
        ("flops", {"bandwidth_bytes_per_s", "bandwidth_share"}),
        ("compulsory_bytes", {"mfu"}),
    ],
)
def test_what_was_not_counted_has_no_share(without: str, left: set[str]) -> None:
    derived = {"mfu", "bandwidth_bytes_per_s", "bandwidth_share"}
    assert {item.metric for item in used(without=without).measurements} & derived == left


def test_cpu_time_is_the_clock_where_there_is_some() -> None:
    assert "latency_s" in used().measurement("mfu").method  # type: ignore[union-attr]
    measurements = [
        make_measurement("latency_s", samples=[9.0, 9.0]),
        make_measurement("latency_cpu_s", samples=[0.5, 0.25]),
        make_measurement("flops", samples=[100.0]),
    ]
    result = with_utilisation(make_result(measurements=measurements), peaks=PEAKS)
    assert samples(result, "mfu") == pytest.approx((0.2, 0.4))
    assert "latency_cpu_s" in result.measurement("mfu").method  # type: ignore[union-attr]


def test_without_peaks_there_is_a_rate_and_no_share() -> None:
    result = used(peaks={"reason": "the child was killed"})
    assert samples(result, "mfu") is None
    assert samples(result, "bandwidth_share") is None
    assert samples(result, "bandwidth_bytes_per_s") is not None


def test_an_mfu_above_one_is_a_warning(words: SnapshotAssertion) -> None:
    assert used(flops=300.0).warnings == ()
    warning = used(flops=500.0).warnings[-1]
    assert warning.code == "mfu-above-one"
    assert "1.50 times" in warning.text
    assert warning.hint == words


def test_another_runtime_may_be_faster_than_the_products_of_torch(words: SnapshotAssertion) -> None:
    measurements = [
        make_measurement("latency_s", samples=[0.25]),
        make_measurement("flops", samples=[500.0]),
    ]
    result = make_result(
        case=replace(make_case(), backend="openvino"),
        measurements=measurements,
        details={"runtime": {"name": "openvino"}},
    )
    (warning,) = with_utilisation(result, peaks=PEAKS).warnings
    assert warning.hint == words


def test_an_mfu_that_may_as_well_be_one_is_no_warning() -> None:
    measurements = [
        make_measurement("latency_s", samples=[0.1, 0.101, 0.089], launches=(1, 1, 1)),
        make_measurement("flops", samples=[100.5]),
    ]
    result = with_utilisation(make_result(measurements=measurements), peaks=PEAKS)
    mfu = result.measurement("mfu")
    assert isinstance(mfu, Measurement)
    assert mfu.median > 1
    assert result.warnings == ()


def test_a_failed_case_stays_as_it_is() -> None:
    failed = make_result(outcome=Outcome.FAILED, measurements=None)
    assert with_utilisation(failed, peaks=PEAKS) == failed
