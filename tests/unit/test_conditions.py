"""What is kept about the machine while samples are taken."""

from __future__ import annotations

from dataclasses import replace

import pytest

from runner.measure.conditions import Look, conditions, cpu_ticks, frequency_hz
from runner.measure.timing import Side, Timing

STAT = "cpu  100 0 50 800 10 0 0 40 7 7\ncpu0 1 2 3 4 5 6 7 8 9 10\n"
BEFORE = Look(
    num_involuntary_switches=3,
    num_voluntary_switches=1,
    stolen_ticks=40,
    all_ticks=1000,
    load=0.5,
    cpu_frequency_hz=3e9,
)
AFTER = replace(
    BEFORE,
    num_involuntary_switches=13,
    num_voluntary_switches=2,
    stolen_ticks=60,
    all_ticks=1200,
    load=1.5,
    cpu_frequency_hz=2e9,
)


def side_of(*timings: Timing) -> Side:
    return Side(name="variant", step=lambda: None, samples=list(timings))


def test_stolen_ticks_are_counted_against_all_without_counting_guests_twice() -> None:
    assert cpu_ticks(STAT) == (40, 1000)


@pytest.mark.parametrize("text", ["", "cpu 1 2 3\n"])
def test_a_kernel_that_tells_no_steal_is_not_guessed(text: str) -> None:
    assert cpu_ticks(text) == (None, None)


def test_a_frequency_is_in_hertz_or_missing() -> None:
    assert frequency_hz("2400000\n") == 2.4e9
    assert frequency_hz("") is None


def test_conditions_are_what_changed_between_two_looks() -> None:
    side = side_of(Timing(wall_s=4.0, cpu_s=1.0), Timing(wall_s=4.0, cpu_s=3.0))
    assert conditions(BEFORE, AFTER, sides=[side]) == {
        "involuntary_switches": 10,
        "voluntary_switches": 1,
        "steal_share": 0.1,
        "load": [0.5, 1.5],
        "cpu_frequency_hz": [3e9, 2e9],
        "cpu_share": 0.5,
        "host_share": None,
    }


def test_what_a_device_gets_from_the_host_is_a_share_of_the_time() -> None:
    side = side_of(Timing(wall_s=4.0, cpu_s=None, host_share=0.75))
    found = conditions(BEFORE, AFTER, sides=[side])
    assert found["host_share"] == 0.75
    assert found["cpu_share"] is None


@pytest.mark.parametrize(
    "after", [replace(AFTER, stolen_ticks=None), replace(AFTER, all_ticks=1000)]
)
def test_a_steal_that_cannot_be_told_is_missing(after: Look) -> None:
    assert conditions(BEFORE, after, sides=[side_of()])["steal_share"] is None
