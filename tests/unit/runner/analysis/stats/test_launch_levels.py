from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from compile_hud.db.records.results import CaseResult, Measurement
from compile_hud.runner.analysis.stats.launch_levels import common_speed_probe_s, launch_levels
from tests.support.builders import make_case, make_measurement, make_result

TIMES = ["latency_s", "latency_cpu_s", "eager_latency_s", "eager_latency_cpu_s"]


def _result(*measurements: Measurement, device: str = "cpu") -> CaseResult:
    return make_result(case=make_case(device=device), measurements=measurements)


def _launches(metric: str, *launches: list[float]) -> Measurement:
    samples = [sample for launch in launches for sample in launch]
    return make_measurement(metric, samples=samples, launches=tuple(map(len, launches)))


@pytest.mark.parametrize("metric", [*TIMES, "compile_warm_s", "speedup"])
def test_level_is_the_median_of_each_launch(metric: str) -> None:
    result = _result(_launches(metric, [3.0, 1.0, 2.0], [5.0, 4.0, 9.0, 6.0]))
    assert launch_levels(result, metric).tolist() == [2.0, 5.5]


@pytest.mark.parametrize("metric", TIMES)
def test_time_of_a_slow_moment_is_brought_to_the_common_pace(metric: str) -> None:
    time = _launches(metric, [2.0, 2.0], [4.0, 4.0], [2.0, 2.0])
    speed_probe = _launches("pace_s", [0.5, 0.5], [1.0, 1.0], [0.5, 0.5])
    assert launch_levels(_result(time, speed_probe), metric).tolist() == [2.0, 2.0, 2.0]
    at_one = launch_levels(_result(time, speed_probe), metric, speed_probe_s=1.0)
    assert at_one.tolist() == [4.0, 4.0, 4.0]


def test_a_ratio_of_two_times_has_no_pace() -> None:
    speedup = _launches("speedup", [2.0], [3.0])
    speed_probe = _launches("pace_s", [0.5], [1.0])
    assert launch_levels(_result(speedup, speed_probe), "speedup", speed_probe_s=1.0).tolist() == [
        2.0,
        3.0,
    ]


@pytest.mark.parametrize(
    "speed_probe",
    [
        _launches("pace_s", [0.5], [1.0], [2.0]),
        _launches("pace_s", [0.5], [0.0]),
        _launches("latency_cpu_s", [0.5], [1.0]),
    ],
    ids=["of another number of launches", "of no time", "not taken"],
)
def test_without_the_pace_of_every_launch_levels_are_left_alone(speed_probe: Measurement) -> None:
    result = _result(_launches("latency_s", [2.0], [4.0]), speed_probe)
    assert launch_levels(result, "latency_s", speed_probe_s=9.0).tolist() == [2.0, 4.0]


def test_common_pace_lies_between_those_of_two_results() -> None:
    slow, fast = _result(_launches("pace_s", [4.0], [4.0])), _result(_launches("pace_s", [1.0]))
    assert common_speed_probe_s(slow, fast) == pytest.approx(2.0)
    assert common_speed_probe_s(slow) == pytest.approx(4.0)


@pytest.mark.parametrize("other", [_result(), _result(_launches("pace_s", [0.0]))])
def test_there_is_no_common_pace_unless_all_have_one(other: CaseResult) -> None:
    assert common_speed_probe_s(_result(_launches("pace_s", [1.0])), other) is None


def test_a_metric_that_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="has no flux"):
        launch_levels(_result(), "flux")


@given(st.lists(st.floats(0.5, 2.0), min_size=1, max_size=8), st.floats(1e-3, 1e3))
def test_levels_scale_with_the_unit_and_forget_the_order(
    samples: list[float], factor: float
) -> None:
    plain = launch_levels(_result(make_measurement(samples=samples)), "latency_s")
    scaled = [factor * sample for sample in sorted(samples)]
    levels = launch_levels(_result(make_measurement(samples=scaled)), "latency_s")
    assert np.allclose(levels, factor * plain)
