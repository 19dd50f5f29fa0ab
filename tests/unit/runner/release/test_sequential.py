"""Many cases under two toolchains: which get launches, when they end, and what a stop leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from compile_hud.db.records.results import CaseResult, Outcome
from compile_hud.runner.analysis.release.runs import MAX_LAUNCHES, MIN_LAUNCHES, ReleaseRules
from compile_hud.runner.analysis.release.sign_off import (
    judge_together,
    paired_results,
    standard_of,
)
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.paired_launches import PairSide
from compile_hud.runner.protocol.messages import LaunchReport, MeasureSettings, Workload
from compile_hud.runner.release.sequential import SequentialMeasurement
from tests.support.builders import make_case
from tests.support.fakes import Draw, FakeClock, FakeExecutor, draw_latencies

NUM_CASES = 30
RULES = ReleaseRules(baseline="a", candidate="b")
SLOWER = {3: 1.3, 11: 1.08}


class Toolchains:
    """Two toolchains of fake cases, each case with a latency and a spread of its own."""

    def __init__(self, *, fails: int | None = None, launch_sd: float = 0.012) -> None:
        self.clock = FakeClock()
        self.draws: dict[tuple[int, int], Draw] = {}
        self.fails = fails
        self.launch_sd = launch_sd
        self.launched: Counter[str] = Counter()
        self.executors = tuple(FakeExecutor(draw=partial(self._draw, side)) for side in range(2))

    def _draw(self, side: int, order: CaseOrder, launch: int) -> LaunchReport:
        self.clock.advance(1.0)
        number = int(order.case.model.removeprefix("model"))
        self.launched[order.case.model] += 1
        if side and number == self.fails:
            return LaunchReport(outcome=Outcome.FAILED, reason="it broke")
        latency_s = 0.01 * (SLOWER.get(number, 1.0) if side else 1.0)
        new = draw_latencies(latency_s, launch_sd=self.launch_sd, seed=2 * number + side)
        return self.draws.setdefault((side, number), new)(order, launch)

    def cases(self) -> list[tuple[PairSide, ...]]:
        return [
            tuple(
                PairSide(
                    executor=executor,
                    order=CaseOrder(
                        run_id="run-1",
                        case=make_case(f"model{number}", mode="default", device="cpu"),
                        workload=Workload(build="fake", config={}, num_samples=1, num_tokens=None),
                        settings=MeasureSettings(),
                    ),
                )
                for executor in self.executors
            )
            for number in range(NUM_CASES)
        ]

    def measurement(self, budget: timedelta | None = None) -> SequentialMeasurement:
        return SequentialMeasurement(
            rules=RULES,
            num_cases=NUM_CASES,
            budget=budget,
            now=self.clock,
            notify=lambda _event: None,
        )


def _measured(
    toolchains: Toolchains, measurement: SequentialMeasurement
) -> list[Sequence[CaseResult]]:
    return list(measurement.measure(iter(toolchains.cases()), lambda: False))


def _regressions(results: Sequence[Sequence[CaseResult]], standard: object) -> set[str]:
    pairs = paired_results(*zip(*results, strict=True))
    judged = judge_together(pairs, standard=standard)  # type: ignore[arg-type]
    return {item.pair.baseline.case.model for item in judged if item.worst is not None}


def test_launches_go_where_the_answer_is_open() -> None:
    toolchains = Toolchains()
    measurement = toolchains.measurement()
    results = _measured(toolchains, measurement)
    assert len(results) == NUM_CASES
    expected = {f"model{number}" for number in SLOWER}
    assert _regressions(results, standard_of(RULES, num_cases=NUM_CASES)) == expected
    # A large change ends at the first look, one near the floor takes longer.
    assert toolchains.launched["model3"] == 2 * MIN_LAUNCHES
    assert toolchains.launched["model11"] > 2 * MIN_LAUNCHES
    assert sum(toolchains.launched.values()) == measurement.num_launches
    assert measurement.num_launches < NUM_CASES * MAX_LAUNCHES


def test_files_of_every_case_are_removed() -> None:
    toolchains = Toolchains()
    _measured(toolchains, toolchains.measurement())
    sessions = [session for executor in toolchains.executors for session in executor.sessions]
    assert len(sessions) == 2 * NUM_CASES
    assert all(session.is_closed for session in sessions)


def test_a_failed_launch_ends_its_case() -> None:
    toolchains = Toolchains(fails=5)
    measurement = toolchains.measurement()
    results = _measured(toolchains, measurement)
    assert toolchains.launched["model5"] == 2
    assert "model5" in _regressions(results, standard_of(RULES, num_cases=NUM_CASES))


def test_a_budget_measures_some_cases_and_leaves_the_others() -> None:
    toolchains = Toolchains(launch_sd=0.05)
    cases = iter(toolchains.cases())
    budget = timedelta(seconds=80)
    results = list(toolchains.measurement(budget).measure(cases, lambda: False))
    # Eight launches of a second each.
    assert len(results) == 10
    assert len(list(cases)) == NUM_CASES - 10


def test_open_cases_have_results_when_the_time_is_up() -> None:
    toolchains = Toolchains(launch_sd=0.05)
    results = _measured(toolchains, toolchains.measurement(timedelta(seconds=8 * NUM_CASES + 30)))
    assert len(results) == NUM_CASES
    counts = set(toolchains.launched.values())
    assert min(counts) == 2 * MIN_LAUNCHES < max(counts)


def test_a_stop_ends_the_waiting_cases_with_what_they_have() -> None:
    toolchains = Toolchains(launch_sd=0.05)
    measurement = toolchains.measurement()
    measured = list(
        measurement.measure(iter(toolchains.cases()), lambda: measurement.num_launches > 50)
    )
    # Eight launches a case; the seventh case was running.
    assert len(measured) == 6
    assert all(side.outcome is Outcome.OK for sides in measured for side in sides)
    sessions = [session for executor in toolchains.executors for session in executor.sessions]
    assert all(session.is_closed for session in sessions)


def test_a_stop_before_the_first_launch_of_a_case_leaves_no_result_of_it() -> None:
    toolchains = Toolchains()
    measurement = toolchains.measurement()

    def is_stopped() -> bool:
        return any(executor.sessions for executor in toolchains.executors)

    assert not list(measurement.measure(iter(toolchains.cases()), is_stopped))
    assert measurement.num_launches == 0
    assert all(item.is_closed for executor in toolchains.executors for item in executor.sessions)


def test_a_case_whose_time_is_up_ends_with_its_samples() -> None:
    toolchains = Toolchains(launch_sd=0.05)
    for executor in toolchains.executors:
        executor.most_launches = 5
    results = _measured(toolchains, toolchains.measurement())
    assert {len(side.measurements[0].launches) for sides in results for side in sides} <= {4, 5}
    assert all(side.outcome is Outcome.OK for sides in results for side in sides)


def test_a_result_lasts_as_long_as_its_own_launches() -> None:
    toolchains = Toolchains(launch_sd=0.05)
    results = _measured(toolchains, toolchains.measurement())
    for baseline, candidate in results:
        worked = timedelta(seconds=toolchains.launched[baseline.case.model])
        assert baseline.finished_at - baseline.started_at == worked
        assert candidate.finished_at - candidate.started_at == worked
