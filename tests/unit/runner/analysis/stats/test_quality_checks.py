"""Doubts about numbers have figures and a hint, and are rarely false."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import Measurement
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.runner.analysis.stats.quality_checks import (
    Attempts,
    find_headline,
    stability_warnings,
)

SAMPLING = Attempts(
    device="cpu",
    num_launches=3,
    max_launches=6,
    num_rounds=40,
    budget_s=4.0,
    num_threads=1,
    target_interval=0.02,
)
QUIET = {
    "involuntary_switches": 4,
    "voluntary_switches": 0,
    "steal_share": 0.0,
    "load": [0.1, 0.2],
    "cpu_frequency_hz": [3.0e9, 3.1e9],
    "cpu_share": 0.99,
    "cores_left": 1.9,
    "num_threads": 1,
    "host_share": None,
}
CALM = {"stopped_by": "rounds", "num_falls": 0, "is_settled": True, "num_rounds": 30}
CALM |= {"num_warmup_rounds": 6}
COOL = {
    "clock_sm_mhz": [1410, 1410],
    "temperature_c": [60, 61],
    "throttle_reasons": ["gpu_idle"],
    "power_w": [300.0],
}


def measurement(
    *launches: Sequence[float] | np.ndarray, metric: str = "latency_cpu_s"
) -> Measurement:
    samples = tuple(float(value) for part in launches for value in part)
    return Measurement(
        metric=metric,
        unit="s",
        samples=samples,
        launches=tuple(len(part) for part in launches),
        median=1.0,
        interval=(1.0, 1.0),
        method="clock",
    )


def noise(seed: int = 0, *, n: int = 30, sd: float = 0.02) -> np.ndarray:
    return np.exp(np.random.default_rng(seed).normal(0.0, sd, n))


STEADY = tuple(noise(seed) for seed in range(3))


def warnings_of(
    *launches: Sequence[float] | np.ndarray,
    details: Mapping[str, Any] | None = None,
    sampling: Attempts = SAMPLING,
    metric: str = "latency_cpu_s",
) -> tuple[RunWarning, ...]:
    measured = measurement(*(launches or STEADY), metric=metric)
    return stability_warnings([measured], details=details or {}, attempts=sampling)


def only(warnings: Sequence[RunWarning], code: str) -> RunWarning:
    assert [warning.code for warning in warnings] == [code]
    return warnings[0]


def sampling(**changes: Any) -> dict[str, Any]:
    return {"sampling": [CALM, CALM | changes, CALM]}


def conditions(**changes: Any) -> dict[str, Any]:
    return {"core": 1, "conditions": [QUIET, QUIET | changes, QUIET]}


def telemetry(**changes: Any) -> dict[str, Any]:
    return {"telemetry": [None, COOL, COOL | changes]}


def test_steady_launches_under_calm_conditions_are_beyond_doubt() -> None:
    assert warnings_of(details=sampling() | conditions() | telemetry()) == ()


def test_a_result_without_a_latency_has_nothing_to_doubt() -> None:
    assert warnings_of(metric="graphs") == ()


def test_the_steadiest_metric_is_the_headline() -> None:
    assert find_headline(["latency_s", "latency_cpu_s", "speedup"]) == "speedup"
    assert find_headline(["latency_s", "latency_cpu_s"]) == "latency_cpu_s"
    assert find_headline(["latency_s"]) == "latency_s"
    assert find_headline(["peak_bytes"]) is None


@pytest.mark.parametrize("sd", [0.005, 0.02, 0.05])
def test_repeats_of_one_build_hardly_ever_give_a_warning(sd: float) -> None:
    rng = np.random.default_rng(7)
    num_warned = 0
    for _ in range(200):
        levels = np.exp(rng.normal(0.0, 0.01, 3))
        launches = [level * np.exp(rng.normal(0.0, sd, 30)) for level in levels]
        num_warned += bool(warnings_of(*launches, details=sampling() | conditions()))
    assert num_warned <= 2


def test_few_rounds_in_the_budget(words: SnapshotAssertion) -> None:
    details = sampling(stopped_by="budget", num_rounds=5)
    warning = only(warnings_of(details=details), "few-samples")
    assert warning.text == words
    assert "budget_s above 4" in warning.hint


@pytest.mark.parametrize(
    "launch",
    [{"stopped_by": "budget", "num_rounds": 6}, {"stopped_by": "rounds", "num_rounds": 5}],
)
def test_few_requested_rounds_are_no_warning(launch: Mapping[str, Any]) -> None:
    assert warnings_of(details=sampling(**launch)) == ()


def test_a_level_that_keeps_falling() -> None:
    details = sampling(is_settled=False, num_falls=4, num_warmup_rounds=31)
    warning = only(warnings_of(details=details), "unsettled")
    assert "fell 4 times" in warning.text
    assert "31 warm-up rounds" in warning.text
    assert "[run] rounds above 40" in warning.hint


def test_the_hint_for_a_level_that_keeps_falling_knows_what_ended_it() -> None:
    details = sampling(is_settled=False, num_falls=4, stopped_by="budget")
    assert "[run] budget_s above 4" in only(warnings_of(details=details), "unsettled").hint


def test_a_drift_inside_the_launches() -> None:
    rising = [part * np.linspace(1.0, 1.2, 30) for part in STEADY]
    warning = only(warnings_of(*rising), "drift")
    assert "latency_cpu_s moved by +1" in warning.text
    assert "rounds above 40" in warning.hint


def test_the_hint_for_a_drift_points_at_the_clocks_where_they_were_read() -> None:
    rising = [part * np.linspace(1.0, 1.2, 30) for part in STEADY]
    warning = only(warnings_of(*rising, details=telemetry()), "drift")
    assert "clocks and temperatures" in warning.hint


def test_a_small_drift_does_not_matter() -> None:
    rising = [np.linspace(1.0, 1.04, 30) for _ in range(3)]
    assert warnings_of(*rising) == ()


ALTERNATING = np.tile([1.0, 1.5], 15)
# The median lies in the fast mode.
MOSTLY_FAST = np.tile([1.0, 1.0, 1.5], 10)


def test_two_modes(words: SnapshotAssertion) -> None:
    warning = only(warnings_of(*(part * ALTERNATING for part in STEADY)), "bimodal")
    assert "two modes, " in warning.text
    assert "50% of the samples" in warning.text
    assert "3 of 3 launches" in warning.text
    assert warning.hint == words


def test_the_hint_for_two_modes_with_several_threads_is_one_thread() -> None:
    sampling = replace(SAMPLING, num_threads=4)
    warning = only(
        warnings_of(*(part * ALTERNATING for part in STEADY), sampling=sampling), "bimodal"
    )
    assert "threads = 1 instead of 4" in warning.hint


def test_two_modes_in_one_launch_of_three_are_an_accident() -> None:
    assert warnings_of(STEADY[0] * MOSTLY_FAST, *STEADY[1:]) == ()


def test_launches_too_short_for_modes_do_not_outvote_the_others() -> None:
    warnings = warnings_of(STEADY[0] * MOSTLY_FAST, STEADY[1][:6], STEADY[2][:6])
    assert only(warnings, "bimodal")


def test_a_neighbour_on_the_same_core(words: SnapshotAssertion) -> None:
    details = conditions(cpu_share=0.52, involuntary_switches=300, load=[2.0, 2.5])
    warning = only(warnings_of(details=details), "noisy-neighbour")
    assert warning.text == words
    assert "300 times, load 2.5" in warning.text
    assert warning.hint == words


def test_what_a_neighbour_leaves_to_trust_is_what_the_case_has(words: SnapshotAssertion) -> None:
    details = conditions(cpu_share=0.52, involuntary_switches=300)
    alone = only(warnings_of(details=details), "noisy-neighbour").hint
    eager_hint = only(warnings_of(details=details, metric="speedup"), "noisy-neighbour").hint
    assert alone == words
    assert eager_hint == words


def test_without_pinning_the_hint_names_no_core() -> None:
    details = conditions(cpu_share=0.52, involuntary_switches=300) | {"core": None}
    assert "off its core" in only(warnings_of(details=details), "noisy-neighbour").hint


@pytest.mark.parametrize(
    "launch",
    [
        {"cpu_share": 0.91, "involuntary_switches": 300},
        {"cpu_share": 0.5, "involuntary_switches": 3, "voluntary_switches": 400},
        {"cpu_share": None, "involuntary_switches": 300},
    ],
)
def test_a_thread_that_has_its_core_or_waits_by_itself_has_no_neighbour(
    launch: Mapping[str, Any],
) -> None:
    assert warnings_of(details=conditions(**launch)) == ()


def test_several_threads_need_as_many_cores(words: SnapshotAssertion) -> None:
    details = conditions(cores_left=1.3, num_threads=2, cpu_share=None, load=[2.0, 3.5])
    warning = only(warnings_of(details=details), "noisy-neighbour")
    assert warning.text == words
    assert "[run] threads = 1" in warning.hint


@pytest.mark.parametrize(
    "launch",
    [
        {"cores_left": 1.9, "num_threads": 2},
        {"cores_left": None, "num_threads": 2},
        {"cores_left": 0.2, "num_threads": 1},
    ],
)
def test_threads_that_have_their_cores_and_a_thread_with_a_clock_have_no_crowd(
    launch: Mapping[str, Any],
) -> None:
    assert warnings_of(details=conditions(**launch)) == ()


def test_time_that_the_hypervisor_took(words: SnapshotAssertion) -> None:
    warning = only(warnings_of(details=conditions(steal_share=0.12)), "noisy-neighbour")
    assert warning.text == words


def test_an_unknown_or_small_steal_is_no_warning() -> None:
    assert warnings_of(details=conditions(steal_share=None)) == ()
    assert warnings_of(details=conditions(steal_share=0.04)) == ()


def test_a_neighbour_seen_in_two_ways_is_one_warning() -> None:
    details = conditions(cpu_share=0.52, involuntary_switches=300, steal_share=0.2)
    assert "ran 52%" in only(warnings_of(details=details), "noisy-neighbour").text


def test_a_clock_of_the_gpu_that_changed() -> None:
    warning = only(warnings_of(details=telemetry(clock_sm_mhz=[1200, 1300, 1410])), "clock-change")
    assert "SM clock was 1300 to 1410 MHz" in warning.text
    assert "--lock-gpu-clocks" in warning.hint


def test_a_clock_of_the_cpu_that_changed() -> None:
    details = conditions(cpu_frequency_hz=[2.0e9, None])
    warning = only(warnings_of(details=details), "clock-change")
    assert "CPU clock was 2000 to 3100 MHz" in warning.text
    assert "governor" in warning.hint


def test_throttling_names_its_reasons_and_figures(words: SnapshotAssertion) -> None:
    details = telemetry(throttle_reasons=["hw_thermal_slowdown"], temperature_c=[88, 91])
    warning = only(warnings_of(details=details), "throttled")
    assert warning.text == words


def test_throttling_without_figures_is_reported() -> None:
    details = {"telemetry": [{"throttle_reasons": [["sw_power_cap"], ["none"]]}]}
    warning = only(warnings_of(details=details), "throttled")
    assert warning.text.endswith("in 1 of 1 launch: sw_power_cap")


def at_levels(*levels: float) -> list[np.ndarray]:
    return [part * level for part, level in zip((noise(n) for n in range(9)), levels, strict=False)]


def test_launches_that_stay_apart_after_the_most_launches(words: SnapshotAssertion) -> None:
    launches = at_levels(1.0, 1.2, 1.4, 1.0, 1.2, 1.4)
    warning = only(warnings_of(*launches), "launches-disagree")
    assert warning.text == words
    assert "max_launches above 6" in warning.hint


def test_launches_for_which_there_was_no_time() -> None:
    assert "timeout_s" in only(warnings_of(*at_levels(1.0, 1.2, 1.4)), "launches-disagree").hint


def test_a_fixed_number_of_launches_that_disagree() -> None:
    fixed = replace(SAMPLING, target_interval=0.0)
    warning = only(warnings_of(*at_levels(1.0, 1.2, 1.4), sampling=fixed), "launches-disagree")
    assert "target_interval above 0" in warning.hint


def test_two_launches_must_differ_much(words: SnapshotAssertion) -> None:
    quick = replace(SAMPLING, num_launches=2, max_launches=2)
    assert warnings_of(*at_levels(1.0, 1.06), sampling=quick) == ()
    warning = only(warnings_of(*at_levels(1.0, 1.15), sampling=quick), "launches-disagree")
    assert warning.text == words
    assert "max_launches above 2" in warning.hint


def test_one_launch_agrees_with_itself() -> None:
    assert warnings_of(noise()) == ()


def test_a_wide_target_is_the_requested_one() -> None:
    wide = replace(SAMPLING, target_interval=0.5)
    assert warnings_of(*at_levels(1.0, 1.1, 1.2), sampling=wide) == ()
    assert only(warnings_of(*at_levels(1.0, 1.1, 1.2)), "launches-disagree")
