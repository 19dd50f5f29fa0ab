"""Eager in its own process against eager in the processes of variants."""

from __future__ import annotations

import pytest

from compile_hud.db.records.results import CaseResult
from compile_hud.runner.analysis.comparison.eager_processes import of_results
from tests.support.builders import make_case, make_measurement, make_result

_CPU = "in turn with eager, CPU time"


def _eager(level: float, *, model: str = "gan", clock: str = "latency_s") -> CaseResult:
    measured = [make_measurement(clock, samples=(0.99 * level, level, 1.01 * level))]
    return make_result(case=make_case(model, mode="eager"), measurements=measured)


def _variant(
    level: float,
    *,
    model: str = "gan",
    mode: str = "default",
    clock: str = "eager_latency_s",
    method: str = "in turn",
) -> CaseResult:
    measured = [
        make_measurement(clock, samples=(0.99 * level, level, 1.01 * level)),
        make_measurement("speedup", samples=(1.5, 1.6, 1.7), method=method),
    ]
    return make_result(case=make_case(model, mode=mode), measurements=measured)


@pytest.mark.parametrize("factor", [1.3, 0.8])
def test_eager_that_differs_beyond_both_intervals_is_returned_with_its_own_time(
    factor: float,
) -> None:
    other = _variant(0.004 * factor)
    ((key, own),) = of_results([_eager(0.004), other]).items()
    assert key == other.case.key
    assert own.value == pytest.approx(0.004)


@pytest.mark.parametrize("factor", [1.0, 1.015, 1.045])
def test_eager_within_the_intervals_or_the_floor_is_not_returned(factor: float) -> None:
    assert of_results([_eager(0.004), _variant(0.004 * factor)]) == {}


def test_times_of_one_clock_are_compared() -> None:
    cpu = _variant(0.006, clock="eager_latency_cpu_s", method=_CPU)
    assert of_results([_eager(0.004), cpu]) == {}
    (key,) = of_results([_eager(0.004, clock="latency_cpu_s"), cpu])
    assert key == cpu.case.key


def test_only_variants_of_the_same_case_are_compared() -> None:
    others = [_variant(0.009, model="vit"), _variant(0.009, mode="max-autotune")]
    assert list(of_results([_eager(0.004), *others])) == [others[1].case.key]
    assert of_results(others) == {}
