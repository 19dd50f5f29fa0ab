"""The recorded state of the machine during sampling."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest

from compile_hud.runner.measure.latency.conditions import (
    MIN_TICKS,
    Look,
    conditions,
    cores_left,
    cpu_ticks,
    frequency_hz,
)
from compile_hud.runner.measure.latency.timing import Side, Timing

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
STAT = "cpu  100 0 50 800 10 0 0 40 7 7\ncpu0 1 2 3 4 5 6 7 8 9 10\n"
BEFORE = Look(
    num_involuntary_switches=3,
    num_voluntary_switches=1,
    stolen_ticks=40,
    all_ticks=1000,
    idle_ticks=810,
    process_cpu_s=1.0,
    load=0.5,
    cpu_frequency_hz=3e9,
)
AFTER = replace(
    BEFORE,
    num_involuntary_switches=13,
    num_voluntary_switches=2,
    stolen_ticks=60,
    all_ticks=1200,
    idle_ticks=910,
    process_cpu_s=1.0 + 20 / TICKS_PER_S,
    load=1.5,
    cpu_frequency_hz=2e9,
)


def side_of(*timings: Timing) -> Side:
    return Side(name="variant", step=lambda: None, samples=list(timings))


def test_ticks_are_those_of_all_cpus_without_counting_guests_twice() -> None:
    assert cpu_ticks(STAT) == [100, 0, 50, 800, 10, 0, 0, 40]


@pytest.mark.parametrize("text", ["", "cpu 1 2 3\n"])
def test_a_kernel_without_steal_is_not_guessed(text: str) -> None:
    assert cpu_ticks(text) == []


def test_a_frequency_is_in_hertz_or_missing() -> None:
    assert frequency_hz("2400000\n") == 2.4e9
    assert frequency_hz("") is None


def test_conditions_are_what_changed_between_two_looks() -> None:
    side = side_of(Timing(wall_s=4.0, cpu_s=1.0), Timing(wall_s=4.0, cpu_s=3.0))
    assert conditions(BEFORE, AFTER, sides=[side], num_threads=2) == {
        "involuntary_switches": 10,
        "voluntary_switches": 1,
        "steal_share": 0.1,
        "load": [0.5, 1.5],
        "cpu_frequency_hz": [3e9, 2e9],
        "cpu_share": 0.5,
        "cores_left": cores_left(BEFORE, AFTER, num_cpus=os.cpu_count() or 1),
        "num_threads": 2,
        "host_share": None,
    }


def test_what_a_device_gets_from_the_host_is_a_share_of_the_time() -> None:
    side = side_of(Timing(wall_s=4.0, cpu_s=None, host_share=0.75))
    warnings = conditions(BEFORE, AFTER, sides=[side], num_threads=1)
    assert warnings["host_share"] == 0.75
    assert warnings["cpu_share"] is None


@pytest.mark.parametrize(
    "after", [replace(AFTER, stolen_ticks=None), replace(AFTER, all_ticks=1000)]
)
def test_an_unknown_steal_is_missing(after: Look) -> None:
    assert conditions(BEFORE, after, sides=[side_of()], num_threads=1)["steal_share"] is None


def test_the_cores_of_other_processes_are_not_left() -> None:
    # Of 200 ticks 100 were idle and 20 our own: others had 80, four tenths of the machine.
    assert cores_left(BEFORE, AFTER, num_cpus=10) == pytest.approx(6.0)


@pytest.mark.parametrize(
    "after",
    [
        replace(AFTER, idle_ticks=None),
        replace(AFTER, all_ticks=None),
        replace(AFTER, all_ticks=1000 + MIN_TICKS - 1),
    ],
)
def test_cores_that_ticks_cannot_tell_are_missing(after: Look) -> None:
    assert cores_left(BEFORE, after, num_cpus=10) is None


def test_more_work_of_our_own_than_ticks_leaves_every_core() -> None:
    after = replace(AFTER, process_cpu_s=1.0 + 500 / TICKS_PER_S)
    assert cores_left(BEFORE, after, num_cpus=10) == 10.0
