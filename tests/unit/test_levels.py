from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.records import CaseResult, Measurement
from runner.analysis.levels import launch_levels
from tests.builders import make_case, make_measurement, make_result

TWENTY = [float(number) for number in range(1, 22)]


def _result(*measurements: Measurement, device: str = "cpu") -> CaseResult:
    return make_result(case=make_case(device=device), measurements=measurements)


def _two(metric: str, first: list[float], second: list[float]) -> Measurement:
    return make_measurement(metric, samples=[*first, *second], launches=(len(first), len(second)))


@pytest.mark.parametrize(
    "metric", ["latency_s", "latency_cpu_s", "eager_latency_s", "eager_latency_cpu_s"]
)
def test_level_of_a_time_on_a_cpu_is_the_lower_decile_of_each_launch(metric: str) -> None:
    result = _result(_two(metric, TWENTY, [2 * number for number in TWENTY]))
    assert launch_levels(result, metric).tolist() == [3.0, 6.0]


def test_level_of_a_time_on_another_device_is_the_median() -> None:
    result = _result(_two("latency_s", TWENTY, TWENTY), device="cuda")
    assert launch_levels(result, "latency_s").tolist() == [11.0, 11.0]


def test_level_of_anything_else_is_the_median() -> None:
    result = _result(_two("compile_warm_s", TWENTY, TWENTY))
    assert launch_levels(result, "compile_warm_s").tolist() == [11.0, 11.0]


def test_level_of_a_speedup_is_the_ratio_of_the_levels_on_the_steadier_clock() -> None:
    result = _result(
        make_measurement("eager_latency_cpu_s", samples=TWENTY),
        make_measurement("latency_cpu_s", samples=[1.5] * 21),
        make_measurement("eager_latency_s", samples=[100.0] * 21),
        make_measurement("latency_s", samples=[1.0] * 21),
        make_measurement("speedup", samples=[7.0] * 21),
    )
    assert launch_levels(result, "speedup").tolist() == [2.0]


def test_level_of_a_speedup_without_cpu_times_is_that_of_the_wall_clock() -> None:
    result = _result(
        make_measurement("eager_latency_s", samples=[4.0] * 5),
        make_measurement("latency_s", samples=[2.0] * 5),
        make_measurement("speedup", samples=[7.0] * 5),
    )
    assert launch_levels(result, "speedup").tolist() == [2.0]


@pytest.mark.parametrize(
    ("variant", "device"),
    [
        (make_measurement("latency_s", samples=[2.0] * 4, launches=(2, 2)), "cpu"),
        (make_measurement("latency_s", samples=[2.0, 0.0, 2.0, 2.0], launches=(4,)), "cpu"),
        (make_measurement("latency_s", samples=[2.0] * 4, launches=(4,)), "cuda"),
    ],
)
def test_level_of_a_speedup_that_no_times_give_is_its_median(
    variant: Measurement, device: str
) -> None:
    eager = make_measurement("eager_latency_s", samples=[4.0] * 4, launches=(4,))
    speedup = make_measurement("speedup", samples=[6.0, 7.0, 8.0])
    assert launch_levels(_result(eager, variant, speedup, device=device), "speedup") == [7.0]


def test_a_metric_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="has no flux"):
        launch_levels(_result(), "flux")


@given(st.lists(st.floats(0.5, 2.0), min_size=1, max_size=8), st.floats(1e-3, 1e3))
def test_levels_scale_with_the_unit_and_forget_the_order(
    samples: list[float], factor: float
) -> None:
    plain = launch_levels(_result(make_measurement(samples=samples)), "latency_s")
    scaled = [factor * sample for sample in sorted(samples)]
    found = launch_levels(_result(make_measurement(samples=scaled)), "latency_s")
    assert np.allclose(found, factor * plain)
