"""Two sides measured together: the order of launches, when it stops, and what it leaves."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import Outcome, Verdict
from compile_hud.runner.errors import ExecutorError
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.paired_launches import (
    PairLimits,
    PairResult,
    PairSide,
    measure_pair,
)
from compile_hud.runner.protocol.messages import LaunchReport, MeasureSettings, Workload
from tests.support.builders import make_case
from tests.support.errors import value_error_of
from tests.support.fakes import Draw, FakeExecutor, FakeSession, draw_latencies


def _order(model: str) -> CaseOrder:
    return CaseOrder(
        run_id="run-1",
        case=make_case(model, mode="eager", device="cpu"),
        workload=Workload(build="fake", config={}, num_samples=1, num_tokens=None),
        settings=MeasureSettings(),
    )


def _steady(latency_s: float, *, seed: int, launch_sd: float = 0.001) -> Draw:
    return draw_latencies(latency_s, launch_sd=launch_sd, seed=seed)


def _fails_at(number: int, *, draw: Draw) -> Draw:
    def failing(order: CaseOrder, launch: int) -> LaunchReport:
        if launch == number:
            return LaunchReport(outcome=Outcome.FAILED, reason="it broke")
        return draw(order, launch)

    return failing


def _measure(
    left: Draw, right: Draw, *, limits: PairLimits | None = None
) -> tuple[PairResult, FakeExecutor]:
    # One executor draws for both sides, told apart by the model's name.
    draws = {"left": left, "right": right}
    executor = FakeExecutor(draw=lambda order, number: draws[order.case.model](order, number))
    result = measure_pair(
        PairSide(executor=executor, order=_order("left")),
        PairSide(executor=executor, order=_order("right")),
        limits=limits or PairLimits(),
    )
    return result, executor


def _verdict(result: PairResult, metric: str = "latency_cpu_s") -> Verdict:
    return next(row for row in result.rows if row.metric == metric).comparison.verdict


def _models(keys: Sequence[str]) -> str:
    return "".join("L" if "left" in key else "R" for key in keys)


def test_which_side_goes_first_alternates() -> None:
    _, executor = _measure(_steady(0.01, seed=1), _steady(0.01, seed=2))
    assert _models(executor.launched).startswith("LRRLLRRL")


def test_a_clear_change_ends_it_at_the_first_look() -> None:
    result, executor = _measure(_steady(0.01, seed=1), _steady(0.012, seed=2))
    assert _verdict(result) is Verdict.REGRESSION
    assert [session.num_launches for session in executor.sessions] == [8, 8]


def test_a_narrow_interval_that_includes_no_change_ends_it() -> None:
    limits = PairLimits(min_launches=8, max_launches=60)
    result, executor = _measure(_steady(0.01, seed=1), _steady(0.01, seed=2), limits=limits)
    assert _verdict(result) is Verdict.UNCHANGED
    assert executor.sessions[0].num_launches < 60


def test_cases_judged_together_need_more_evidence() -> None:
    def width(num_cases: int) -> float:
        limits = PairLimits(num_cases=num_cases)
        result, _ = _measure(_steady(0.01, seed=1), _steady(0.012, seed=2), limits=limits)
        comparison = next(row for row in result.rows if row.metric == "latency_cpu_s").comparison
        assert comparison.decisive is not None
        low, high = comparison.decisive
        return high / low

    assert width(20) > width(1)


def test_what_stays_undecided_ends_at_the_limit() -> None:
    noisy = [_steady(0.01, seed=seed, launch_sd=0.2) for seed in (1, 2)]
    result, executor = _measure(*noisy, limits=PairLimits(min_launches=4, max_launches=10))
    assert _verdict(result) is Verdict.INCONCLUSIVE
    assert [session.num_launches for session in executor.sessions] == [10, 10]


def test_a_launch_that_fails_ends_it_after_the_other_side_launched() -> None:
    steady = _steady(0.01, seed=1)
    result, executor = _measure(_fails_at(2, draw=steady), steady)
    assert [session.num_launches for session in executor.sessions] == [3, 3]
    assert result.baseline.outcome is Outcome.FAILED
    assert _verdict(result, "outcome") is Verdict.IMPROVEMENT


def test_a_candidate_that_fails_at_once_is_a_regression() -> None:
    steady = _steady(0.01, seed=1)
    result, _ = _measure(steady, _fails_at(0, draw=steady))
    assert [row.metric for row in result.rows] == ["outcome"]
    assert _verdict(result, "outcome") is Verdict.REGRESSION


def test_both_sessions_are_closed() -> None:
    _, executor = _measure(_steady(0.01, seed=1), _steady(0.01, seed=2))
    assert [session.is_closed for session in executor.sessions] == [True, True]


def test_both_sessions_are_closed_when_a_launch_raises(words: SnapshotAssertion) -> None:
    def gone(_order: CaseOrder, _number: int) -> LaunchReport:
        raise ExecutorError("the host is gone")

    executor = FakeExecutor(draw=gone)
    side = PairSide(executor=executor, order=_order("left"))
    with pytest.raises(ExecutorError) as caught:
        measure_pair(side, side, limits=PairLimits())
    assert str(caught.value) == words
    assert [session.is_closed for session in executor.sessions] == [True, True]


class _NoSecond(FakeExecutor):
    def begin(self, order: CaseOrder) -> FakeSession:
        if self.sessions:
            raise ExecutorError("no second session")
        return super().begin(order)


def test_the_first_session_is_closed_when_the_second_does_not_begin() -> None:
    executor = _NoSecond()
    side = PairSide(executor=executor, order=_order("left"))
    with pytest.raises(ExecutorError, match="no second session"):
        measure_pair(side, side, limits=PairLimits())
    assert [session.is_closed for session in executor.sessions] == [True]


def test_impossible_limits_are_refused_before_anything_begins(words: SnapshotAssertion) -> None:
    executor = FakeExecutor()
    side = PairSide(executor=executor, order=_order("left"))
    assert (
        str(
            value_error_of(
                measure_pair, side, side, limits=PairLimits(min_launches=1, max_launches=5)
            )
        )
        == words
    )
    assert executor.sessions == []


def test_the_number_of_pairs_done_is_reported() -> None:
    counts: list[int] = []
    draw = _fails_at(3, draw=_steady(0.01, seed=1))
    side = PairSide(executor=FakeExecutor(draw=draw), order=_order("left"))
    measure_pair(side, side, limits=PairLimits(), on_pair=counts.append)
    assert counts == [1, 2, 3, 4]


def test_another_rule_may_say_what_is_enough() -> None:
    numbers: list[int] = []

    def is_enough(pair: PairResult, number: int) -> bool:
        numbers.append(number)
        return len(pair.rows) > 0 and number >= 6

    side = PairSide(executor=FakeExecutor(draw=_steady(0.01, seed=1)), order=_order("left"))
    limits = PairLimits(min_launches=4, max_launches=20)
    measure_pair(side, side, limits=limits, is_enough=is_enough)
    assert numbers == [4, 6]
