"""After how many calls compiling is paid back, by hand."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import Measurement
from compile_hud.runner.execution.launch_aggregation import break_even
from tests.support.builders import make_measurement

# 10 ms a call where eager takes 20 ms: each call saves 10 ms, between 5 and 20 ms.
LATENCY = make_measurement("latency_s", samples=(0.010,))
CPU = make_measurement("latency_cpu_s", samples=(0.005,), interval=(0.004, 0.008))
SPEEDUP = make_measurement("speedup", samples=(2.0,), interval=(1.5, 3.0))
COLD = make_measurement("compile_cold_s", samples=(30.0,))
WARM = make_measurement("compile_warm_s", samples=(6.0, 8.0, 7.0))


def derived(*measurements: Measurement) -> dict[str, Measurement]:
    values = break_even({item.metric: item for item in measurements})
    return {item.metric: item for item in values}


def test_break_even_is_the_cost_over_what_a_call_saves() -> None:
    measurements = derived(LATENCY, SPEEDUP, COLD, WARM)
    cold, warm = measurements["break_even_calls"], measurements["break_even_warm_calls"]
    assert cold.median == pytest.approx(3000)
    assert (cold.unit, cold.samples) == ("calls", (cold.median,))
    assert warm.median == pytest.approx(700)


def test_the_cpu_time_of_a_call_is_taken_where_there_is_one(words: SnapshotAssertion) -> None:
    break_even_calls = derived(LATENCY, CPU, SPEEDUP, COLD)["break_even_calls"]
    assert break_even_calls.median == pytest.approx(6000)
    assert break_even_calls.interval == pytest.approx((30 / 0.016, 30 / 0.002))
    assert break_even_calls.method == words


def test_the_interval_holds_what_both_the_cost_and_the_saving_may_be() -> None:
    measurements = derived(LATENCY, SPEEDUP, COLD, WARM)
    assert measurements["break_even_calls"].interval == pytest.approx((1500, 6000))
    assert measurements["break_even_warm_calls"].interval == pytest.approx((300, 1600))


@pytest.mark.parametrize("low", [1.0, 0.9])
def test_a_variant_that_is_not_significantly_faster_pays_nothing_back(low: float) -> None:
    speedup = make_measurement("speedup", samples=(2.0,), interval=(low, 3.0))
    assert derived(LATENCY, speedup, COLD, WARM) == {}


def test_what_was_not_measured_is_not_paid_back() -> None:
    assert list(derived(LATENCY, SPEEDUP, COLD)) == ["break_even_calls"]
    assert derived(LATENCY, COLD) == {}
    assert derived(SPEEDUP, COLD) == {}
