"""An energy is in doubt if its iterations took another time than the latency."""

from __future__ import annotations

from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.metrics import FLUSHED
from compile_hud.db.records.results import Measurement
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.runner.analysis.stats.quality_checks import (
    MAX_ENERGY_STRETCH,
    MIN_ENERGY_STRETCH,
    stability_warnings,
)
from tests.support.builders import make_measurement
from tests.unit.runner.analysis.stats.test_quality_checks import SAMPLING

POWER_W = 400.0
# What an H200 recorded while readings of the counter kept it waiting: energy and power of an
# iteration, and its latency.
RECORDED = {
    "ref_gemm": (2.0222, 416.42, 2.6949e-3),
    "ref_copy": (0.16512, 348.17, 0.26103e-3),
    "bert eager": (4.6791, 420.94, 6.2455e-3),
    "bert default": (8.2257, 575.37, 10.3037e-3),
}


def latency(*samples: float, launches: tuple[int, ...] = (), method: str = "clock") -> Measurement:
    return make_measurement(
        "latency_s", samples=samples, launches=launches or (len(samples),), method=method
    )


def warned(
    of_latency: Measurement, *, energy_j: float, power_w: float = POWER_W, device: str = "cuda"
) -> tuple[RunWarning, ...]:
    measured = [
        of_latency,
        make_measurement("energy_j", unit="J", samples=[energy_j]),
        make_measurement("power_w", unit="W", samples=[power_w]),
    ]
    return stability_warnings(measured, details={}, attempts=replace(SAMPLING, device=device))


def stretched(stretch: float, of_latency: Measurement | None = None) -> tuple[RunWarning, ...]:
    """Return the warnings of a loop whose iterations took `stretch` times 10 ms."""
    return warned(of_latency or latency(0.010), energy_j=POWER_W * 0.010 * stretch)


@pytest.mark.parametrize("name", RECORDED)
def test_a_device_that_waited_for_its_counter_is_a_warning(
    name: str, words: SnapshotAssertion
) -> None:
    energy_j, power_w, latency_s = RECORDED[name]
    (warning,) = warned(latency(latency_s), energy_j=energy_j, power_w=power_w)
    assert warning.code == "energy-loop"
    assert warning.hint == words


def test_a_warning_has_figures_and_a_hint(words: SnapshotAssertion) -> None:
    (slower,) = stretched(1.5)
    assert slower.text == words
    (faster,) = stretched(0.5)
    assert faster.code == "energy-loop"
    assert faster.hint == words


@pytest.mark.parametrize("stretch", [MIN_ENERGY_STRETCH * 1.01, 1.0, MAX_ENERGY_STRETCH * 0.99])
def test_a_loop_about_as_fast_as_the_samples_is_beyond_doubt(stretch: float) -> None:
    assert stretched(stretch) == ()


def test_the_latency_is_that_of_the_launch_that_measures_energy() -> None:
    slow_later = latency(0.010, 0.010, 0.020, 0.020, 0.020, launches=(2, 3))
    assert "energy-loop" not in {item.code for item in stretched(1.0, slow_later)}


def test_samples_that_find_nothing_in_the_cache_are_no_measure_of_the_loop() -> None:
    assert stretched(0.5, latency(0.010, method=f"each after a write that {FLUSHED}")) == ()


def test_the_clock_of_a_cpu_is_that_of_its_neighbours_too() -> None:
    assert warned(latency(0.010), energy_j=POWER_W * 0.020, device="cpu") == ()


def test_energy_without_power_is_no_doubt() -> None:
    energy = make_measurement("energy_j", unit="J", samples=[9.0])
    assert stability_warnings([latency(0.010), energy], details={}, attempts=SAMPLING) == ()
    assert warned(latency(0.010), energy_j=0.0, power_w=0.0) == ()
