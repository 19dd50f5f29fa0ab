"""Warming up and sampling, on timers that follow a script."""

from __future__ import annotations

import gc
import itertools
import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import numpy as np
import pytest

from compile_hud.runner.measure.latency import timing
from compile_hud.runner.measure.latency.timing import (
    MAX_LEVEL_DROPS,
    MAX_WARMUP_ROUNDS,
    MIN_CALLS,
    MIN_ROUNDS,
    SamplingSummary,
    Side,
    Step,
    Timing,
    calibrate,
    clock_name,
    garbage_collection_paused,
    has_cpu_clock,
    headline,
    quiet_interpreter,
    sampling_details,
    take_samples,
    warm_up,
)
from compile_hud.runner.protocol.messages import MeasureSettings

FIXED = MeasureSettings(num_rounds=40, budget_s=math.inf, target_interval=0.0)
EXHAUSTED = MeasureSettings(num_rounds=100, budget_s=-1.0)


class ScriptedTimer:
    """A timer on which an iteration takes what the script says; `calls` are what was timed."""

    def __init__(self, script: Callable[[Step], float]) -> None:
        self._script = script
        self.calls: list[tuple[Step, int]] = []

    def time_iterations(self, call: Step, *, num_iterations: int) -> Timing:
        self.calls.append((call, num_iterations))
        return Timing(wall_s=self._script(call), cpu_s=None)


def first() -> None: ...


def second() -> None: ...


def following(times: Sequence[float]) -> ScriptedTimer:
    """Return a timer that gives `times` one after the other, then the last for ever."""
    left = list(times)
    return ScriptedTimer(lambda _: left.pop(0) if len(left) > 1 else left[0])


def variant() -> Side:
    return Side(name="variant", step=first)


def walls(timings: Sequence[Timing]) -> list[float]:
    return [timing.wall_s for timing in timings]


def test_a_sample_lasts_five_milliseconds() -> None:
    side = variant()
    calibrate(side, device=ScriptedTimer(lambda _: 0.0004))
    assert side.num_iterations == 13
    calibrate(side, device=ScriptedTimer(lambda _: 2.0))
    assert side.num_iterations == 1


@pytest.mark.parametrize("slow_calls", [1, 2])
def test_slow_calls_do_not_decide_the_length_of_all_samples(slow_calls: int) -> None:
    side = variant()
    calibrate(side, device=following([0.3] * slow_calls + [0.0004]))
    assert side.num_iterations == 13


def test_a_short_sample_is_not_tried_again() -> None:
    timer = ScriptedTimer(lambda _: 0.0004)
    calibrate(variant(), device=timer)
    assert [count for _, count in timer.calls] == [1, 2, 4, 8, 16, 16, 16]


def test_the_length_is_checked_again_after_warming_up() -> None:
    side = variant()
    warm_up([side], device=following([0.5] * 7 + [0.001]), deadline_s=math.inf)
    assert side.num_iterations == 5


def test_a_length_that_is_about_right_stays() -> None:
    side = variant()
    warm_up([side], device=following([0.005] * 3 + [0.003]), deadline_s=math.inf)
    assert side.num_iterations == 1


def test_warm_up_ends_when_the_level_is_reached_and_keeps_its_times() -> None:
    side = variant()
    timer = following([1.0, 1.0, 1.0, 0.5, 0.4, 0.3, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1])
    assert warm_up([side], device=timer, deadline_s=math.inf)
    assert walls(side.warmups) == [0.5, 0.4, 0.3, 0.1, 0.1, 0.1, 0.1, 0.1]


def test_both_sides_must_settle() -> None:
    falling = iter(2.0**-n for n in range(100))
    sides = [Side(name="eager", step=second), variant()]
    timer = ScriptedTimer(lambda step: 1.0 if step is first else next(falling))
    assert not warm_up(sides, device=timer, deadline_s=math.inf)
    assert len(sides[0].warmups) == len(sides[1].warmups) == MAX_WARMUP_ROUNDS


def test_warm_up_stops_at_its_deadline() -> None:
    side = variant()
    timer = following([2.0**-n for n in range(100)])
    assert not warm_up([side], device=timer, deadline_s=-math.inf)
    assert len(side.warmups) == 1


def test_rounds_alternate_which_side_goes_first() -> None:
    timer = ScriptedTimer(lambda _: 0.01)
    sides = [Side(name="eager", step=first), Side(name="variant", step=second)]
    take_samples(sides, device=timer, settings=MeasureSettings(num_rounds=3))
    assert [step for step, _ in timer.calls] == [first, second, second, first, first, second]
    assert [len(side.samples) for side in sides] == [3, 3]


def test_between_rounds_something_may_be_read_outside_the_timers() -> None:
    timer = ScriptedTimer(lambda _: 0.01)
    seen: list[int] = []
    take_samples(
        [variant()],
        device=timer,
        settings=MeasureSettings(num_rounds=3),
        between_rounds=lambda: seen.append(len(timer.calls)),
    )
    assert seen == [1, 2, 3]


def test_a_spent_budget_still_gives_the_minimum_of_rounds() -> None:
    side = variant()
    course = take_samples([side], device=following([0.01]), settings=EXHAUSTED)
    assert len(side.samples) == MIN_ROUNDS
    assert course.stopped_by == "budget"


def test_all_rounds_are_taken_when_nothing_may_stop_them() -> None:
    side = variant()
    course = take_samples([side], device=following([0.01]), settings=FIXED)
    assert len(side.samples) == FIXED.num_rounds
    assert course == SamplingSummary(stopped_by="rounds", num_falls=0, is_settled=True)


def test_samples_that_agree_end_the_launch_early() -> None:
    side = Side(name="variant", step=first, num_iterations=MIN_CALLS)
    settings = MeasureSettings(num_rounds=40, budget_s=math.inf)
    course = take_samples([side], device=following([0.01]), settings=settings)
    # Six are the fewest that have an interval of 95 %.
    assert len(side.samples) == 6
    assert course.stopped_by == "interval"


def test_samples_that_differ_do_not() -> None:
    side = Side(name="variant", step=first, num_iterations=MIN_CALLS)
    settings = MeasureSettings(num_rounds=40, budget_s=math.inf)
    take_samples([side], device=following([0.01, 0.0105] * 20), settings=settings)
    assert len(side.samples) == 40


def test_a_launch_of_few_calls_is_not_ended_early() -> None:
    side = variant()
    settings = MeasureSettings(num_rounds=1000, budget_s=math.inf)
    take_samples([side], device=following([0.01]), settings=settings)
    assert len(side.samples) == MIN_CALLS


def test_it_is_the_ratio_that_must_agree() -> None:
    levels = iter([level for level in (0.01, 0.02) for _ in range(2)] * 100)
    sides = [
        Side(name=name, step=step, num_iterations=MIN_CALLS)
        for name, step in (("eager", first), ("variant", second))
    ]
    settings = MeasureSettings(num_rounds=40, budget_s=math.inf)
    take_samples(sides, device=ScriptedTimer(lambda _: next(levels)), settings=settings)
    assert len(sides[0].samples) == 6


def test_a_cliff_among_the_samples_makes_warm_ups_of_those_before_it() -> None:
    side = variant()
    timer = following([0.015] * 20 + [0.01])
    course = take_samples([side], device=timer, settings=FIXED)
    assert course == SamplingSummary(stopped_by="rounds", num_falls=1, is_settled=True)
    assert walls(side.warmups) == [0.015] * 20
    assert walls(side.samples) == [0.01] * FIXED.num_rounds


def test_both_sides_lose_the_same_rounds() -> None:
    falling = following([0.015] * 20 + [0.01])
    sides = [Side(name="eager", step=second), variant()]
    timer = ScriptedTimer(
        lambda step: (
            0.01 if step is second else falling.time_iterations(step, num_iterations=1).wall_s
        )
    )
    take_samples(sides, device=timer, settings=FIXED)
    assert [len(side.warmups) for side in sides] == [20, 20]
    assert [len(side.samples) for side in sides] == [40, 40]


def test_pace_has_one_sample_for_each_round_that_is_preserved() -> None:
    side, probe = variant(), Side(name="pace", step=second)
    falling, number = following([0.015] * 20 + [0.01]), itertools.count()
    timer = ScriptedTimer(
        lambda step: (
            float(next(number))
            if step is second
            else falling.time_iterations(step, num_iterations=1).wall_s
        )
    )
    take_samples([side], device=timer, settings=FIXED, speed_probe=probe)
    assert len(side.samples) == FIXED.num_rounds
    # Those of the 20 rounds that turned out to be warm-ups went with them.
    assert walls(probe.samples) == [20.0 + index for index in range(FIXED.num_rounds)]


def test_samples_that_became_too_short_are_taken_again() -> None:
    side = variant()
    timer = following([0.01] * 20 + [0.0001])
    take_samples([side], device=timer, settings=FIXED)
    assert walls(side.warmups) == [0.01] * 20 + [0.0001] * 20
    assert side.num_iterations == 50
    assert {count for _, count in timer.calls[40:]} == {50}


def test_after_a_cliff_a_spent_budget_still_gives_the_minimum() -> None:
    side = variant()
    clocks = MeasureSettings(num_rounds=12, budget_s=math.inf, target_interval=0.0)
    timer = following([0.015] * 6 + [0.01])
    take_samples([side], device=timer, settings=clocks)
    assert len(side.samples) == 12
    assert walls(side.samples) == [0.01] * 12


def test_a_cliff_at_the_very_end_is_looked_at_more_closely() -> None:
    side = variant()
    course = take_samples([side], device=following([0.015] * 39 + [0.01]), settings=FIXED)
    assert course == SamplingSummary(stopped_by="rounds", num_falls=1, is_settled=True)
    assert walls(side.samples) == [0.01] * FIXED.num_rounds


def test_a_last_round_that_was_fast_by_accident_costs_one_more() -> None:
    side = variant()
    course = take_samples([side], device=following([0.015] * 39 + [0.01, 0.015]), settings=FIXED)
    assert course.num_falls == 0
    assert len(side.samples) == FIXED.num_rounds + 1


def test_a_spent_budget_is_not_exceeded_for_what_may_be_a_fall(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    side = variant()
    timer = following([0.015] * 5 + [0.01])
    # A clock on which each round takes a second.
    clock = SimpleNamespace(perf_counter=lambda: float(len(timer.calls)))
    monkeypatch.setattr(timing, "time", clock)
    settings = MeasureSettings(num_rounds=100, budget_s=5.5, target_interval=0.0)
    course = take_samples([side], device=timer, settings=settings)
    assert course.stopped_by == "budget"
    assert walls(side.samples) == [0.015] * 5 + [0.01]


def test_a_level_that_keeps_falling_never_settles() -> None:
    side = variant()
    timer = following((2.0 ** -np.arange(1000)).tolist())
    settings = MeasureSettings(num_rounds=12, budget_s=math.inf, target_interval=0.0)
    course = take_samples([side], device=timer, settings=settings)
    assert not course.is_settled
    assert course.num_falls == MAX_LEVEL_DROPS + 1
    assert len(side.samples) == 12


def side_of(*timings: Timing) -> Side:
    return Side(name="x", step=first, samples=list(timings))


def test_the_headline_of_one_side_is_its_steadiest_time() -> None:
    assert headline([side_of(Timing(wall_s=9.0, cpu_s=4.0))]) == [4.0]
    assert headline([side_of(Timing(wall_s=9.0, cpu_s=None))]) == [9.0]


def test_cpu_time_counts_only_where_every_sample_has_it() -> None:
    whole, part = Timing(wall_s=9.0, cpu_s=4.0), Timing(wall_s=3.0, cpu_s=None)
    assert has_cpu_clock([side_of(whole), side_of(whole)])
    assert not has_cpu_clock([side_of(whole), side_of(part)])
    assert clock_name([side_of(whole), side_of(whole)]) == "thread CPU time"
    assert clock_name([side_of(whole), side_of(part)]) == "wall time"
    assert headline([side_of(whole), side_of(part)]) == [3.0]


def test_the_case_result_keeps_how_the_sampling_went() -> None:
    side = variant()
    course = take_samples([side], device=following([0.01]), settings=EXHAUSTED)
    assert sampling_details([side], course) == {
        "stopped_by": "budget",
        "num_falls": 0,
        "is_settled": True,
        "num_rounds": MIN_ROUNDS,
        "num_warmup_rounds": 0,
        "iterations_per_sample": {"variant": 1},
    }


@pytest.mark.parametrize("was_enabled", [True, False])
def test_the_garbage_collector_stays_out_and_is_left_as_it_was(was_enabled: bool) -> None:
    is_enabled = gc.isenabled()
    (gc.enable if was_enabled else gc.disable)()
    try:
        for quiet in (quiet_interpreter, garbage_collection_paused):
            with quiet():
                assert not gc.isenabled()
            assert gc.isenabled() is was_enabled
    finally:
        (gc.enable if is_enabled else gc.disable)()


def test_only_samples_are_worth_a_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    collections: list[str] = []
    monkeypatch.setattr(gc, "collect", lambda: collections.append("collected"))
    with garbage_collection_paused():
        assert collections == []
    with quiet_interpreter():
        assert collections == ["collected"]
