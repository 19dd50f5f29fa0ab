"""Runs that compile ahead, in lanes on a simulated clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from compile_hud.db.records.results import Outcome, RunState
from compile_hud.db.records.summaries import CaseSeconds
from compile_hud.runner.events import CaseSampling, CasesCompiling
from compile_hud.runner.execution.environment import fingerprint
from compile_hud.runner.execution.executor import CaseOrder, CompileLane
from compile_hud.runner.execution.run_plan import ResolvedRun
from compile_hud.runner.planning.suites import Selection
from tests.support.fakes import FakeExecutor
from tests.support.runs.runs import REQUEST, RunSandbox, interrupt
from tests.support.runs.virtual_lanes import LaunchCost, VirtualClock, VirtualLane

AHEAD = replace(REQUEST, compile_ahead=2)
COST = LaunchCost(compile_s=0.0, device_s=1.0)


class AnyCosts(dict[str, list[LaunchCost]]):
    """One launch of COST for each case, two for those with `slow` in their key."""

    def __init__(self, slow: str) -> None:
        super().__init__()
        self.slow = slow

    def __missing__(self, key: str) -> list[LaunchCost]:
        return [COST] * (2 if self.slow and self.slow in key.split("/") else 1)


class AheadExecutor(FakeExecutor):
    """An executor with lanes; `outcome_of` decides the outcome of a case, attempt by attempt."""

    def __init__(
        self,
        *,
        outcome_of: Callable[[CaseOrder, int], Outcome] | None = None,
        slow: str = "",
    ) -> None:
        super().__init__()
        self.slow = slow
        self.virtual = VirtualClock()
        self.outcome_of = outcome_of
        self.attempts: list[str] = []
        self.cores_each = 0
        self.make_lanes = self._lanes

    def _lanes(self, number: int, cores_each: int) -> Sequence[CompileLane]:
        self.cores_each = cores_each
        return [
            VirtualLane(self.virtual, AnyCosts(self.slow), outcome_of=self._outcome)
            for _ in range(number)
        ]

    def _outcome(self, order: CaseOrder) -> Outcome:
        self.attempts.append(order.case.key)
        if self.outcome_of is None:
            return Outcome.OK
        return self.outcome_of(order, self.attempts.count(order.case.key))


@pytest.fixture
def sandbox(tmp_path: Path) -> RunSandbox:
    return RunSandbox(tmp_path)


def test_a_run_that_compiles_ahead_has_the_same_cases(sandbox: RunSandbox) -> None:
    executor = AheadExecutor()
    document = sandbox.run(AHEAD, executor=executor)
    assert document.run.state is RunState.FINISHED
    assert {result.case for result in document.results} == set(document.run.plan)
    assert sandbox.load("latest") == document
    # Nothing was measured outside the lanes.
    assert executor.executed == []
    assert executor.launched == []


def test_its_environment_says_so_and_it_compares_with_its_like(sandbox: RunSandbox) -> None:
    executor = AheadExecutor()
    run = sandbox.run(AHEAD, executor=executor).run
    fact = {"processes": 2, "cores_each": executor.cores_each}
    assert run.environment["compile_ahead"] == fact
    assert run.fingerprint == fingerprint({**run.environment, "compile_ahead": fact})
    alone = sandbox.run(REQUEST, executor=FakeExecutor()).run
    assert "compile_ahead" not in alone.environment
    assert alone.fingerprint != run.fingerprint


def test_an_executor_without_lanes_measures_one_case_after_the_other(sandbox: RunSandbox) -> None:
    executor = FakeExecutor()
    document = sandbox.run(AHEAD, executor=executor)
    assert "compile_ahead" not in document.run.environment
    assert set(executor.launched) == {result.case.key for result in document.results}


def test_two_interleaved_runs_do_not_compile_ahead(sandbox: RunSandbox) -> None:
    executors = (AheadExecutor(), AheadExecutor())
    other = replace(AHEAD, toolchain="other")
    documents = sandbox.run_together([AHEAD, other], executors=executors)
    assert all("compile_ahead" not in document.run.environment for document in documents)
    assert executors[0].attempts == []


def test_a_case_without_memory_among_others_is_measured_again_alone(sandbox: RunSandbox) -> None:
    def outcome_of(order: CaseOrder, attempt: int) -> Outcome:
        is_crowded = order.case.model == "bert" and attempt == 1
        return Outcome.OUT_OF_MEMORY if is_crowded else Outcome.OK

    executor = AheadExecutor(outcome_of=outcome_of)
    document = sandbox.run(AHEAD, executor=executor)
    assert {result.outcome for result in document.results} == {Outcome.OK}
    bert = [result for result in document.results if result.case.model == "bert"]
    assert len([key for key in executor.attempts if key.startswith("bert/")]) == 2 * len(bert)
    assert {warning.code for result in bert for warning in result.warnings} == {"measured-again"}


def test_equal_code_counts_once_the_case_that_has_it_is_ok(sandbox: RunSandbox) -> None:
    """`default` samples one launch before the follower's turn, and may fail in its second."""
    follower = "max-autotune-no-cudagraphs"

    def ended(default: Outcome) -> dict[str, Outcome]:
        def outcome_of(order: CaseOrder, attempt: int) -> Outcome:
            if order.case.variant == follower:
                return Outcome.SAME_CODE if attempt == 1 else Outcome.OK
            return default if order.case.variant == "default" else Outcome.OK

        executor = AheadExecutor(outcome_of=outcome_of, slow="default")
        request = replace(AHEAD, selection=Selection(models=("bert",), modes=("default", follower)))
        document = sandbox.run(request, executor=executor)
        assert [result.warnings for result in document.results] == [()] * 2
        return {result.case.variant: result.outcome for result in document.results}

    assert ended(Outcome.OK) == {"default": Outcome.OK, follower: Outcome.SAME_CODE}
    assert ended(Outcome.FAILED) == {"default": Outcome.FAILED, follower: Outcome.OK}


def test_a_case_that_fails_by_itself_is_a_result(sandbox: RunSandbox) -> None:
    executor = AheadExecutor(outcome_of=lambda _order, _attempt: Outcome.FAILED)
    document = sandbox.run(AHEAD, executor=executor)
    assert {result.outcome for result in document.results} == {Outcome.FAILED}
    assert len(executor.attempts) == len(document.results)


def test_the_longest_compilations_of_last_time_come_first(sandbox: RunSandbox) -> None:
    executor = AheadExecutor()
    plan = sandbox.run(AHEAD, executor=executor).run.plan
    sandbox.compile_seconds = {case.key: float(number) for number, case in enumerate(plan)}
    document = sandbox.run(AHEAD, executor=AheadExecutor())
    assert [result.case for result in document.results] == list(reversed(plan))
    # A model that is new may take any time.
    sandbox.compile_seconds = {plan[-1].key: 1.0}
    document = sandbox.run(AHEAD, executor=AheadExecutor())
    assert [result.case for result in document.results] == list(plan)


def test_a_variant_without_a_time_follows_the_one_whose_code_it_may_have(
    sandbox: RunSandbox,
) -> None:
    plan = sandbox.run(AHEAD, executor=AheadExecutor()).run.plan
    known, unknown = plan[0], plan[1]
    assert known.model == unknown.model
    sandbox.compile_seconds = {known.key: 5.0, plan[2].key: 9.0, plan[3].key: 7.0}
    document = sandbox.run(AHEAD, executor=AheadExecutor())
    assert [result.case for result in document.results] == [plan[2], plan[3], known, unknown]


def test_with_a_time_budget_the_order_is_that_of_worth(sandbox: RunSandbox) -> None:
    budgeted: ResolvedRun = replace(AHEAD, time_budget_s=3600.0)
    plan = sandbox.run(budgeted, executor=AheadExecutor()).run.plan
    sandbox.compile_seconds = {case.key: float(number) for number, case in enumerate(plan)}
    document = sandbox.run(budgeted, executor=AheadExecutor())
    assert [result.case for result in document.results] == list(plan)


def test_a_time_budget_opens_no_case_that_cannot_end_within_it(sandbox: RunSandbox) -> None:
    """The clock of the run moves by ten seconds with each result."""

    def outcome_of(_order: CaseOrder, _attempt: int) -> Outcome:
        sandbox.clock.advance(10.0)
        return Outcome.OK

    executor = AheadExecutor()
    plan = sandbox.run(AHEAD, executor=executor).run.plan
    sandbox.durations = {case.key: CaseSeconds(took_s=10.0) for case in plan}

    def measured(budget_s: float) -> list[str]:
        budgeted = replace(AHEAD, time_budget_s=budget_s)
        document = sandbox.run(budgeted, executor=AheadExecutor(outcome_of=outcome_of))
        assert document.run.state is RunState.FINISHED
        assert len(document.results) == len(plan)
        return [result.case.key for result in document.results if not result.is_deferred]

    # All four cases could open at once.
    assert len(measured(39.0)) == 3
    assert len(measured(40.0)) == 4
    # The first case may always begin: else nothing would ever be measured.
    assert len(measured(5.0)) == 1


def test_the_progress_names_the_cases_that_compile_and_the_one_that_samples(
    sandbox: RunSandbox,
) -> None:
    plan = sandbox.run(AHEAD, executor=AheadExecutor()).run.plan
    compiling = [event.cases for event in sandbox.events if isinstance(event, CasesCompiling)]
    assert compiling[0] == plan[:2]
    sampling = [event.case for event in sandbox.events if isinstance(event, CaseSampling)]
    assert sorted(case.key for case in sampling) == sorted(case.key for case in plan)


def test_a_stopped_run_is_interrupted_and_stores_no_result_of_a_killed_case(
    sandbox: RunSandbox,
) -> None:
    def outcome_of(_order: CaseOrder, _attempt: int) -> Outcome:
        if len(executor.attempts) == 2:
            interrupt()
        return Outcome.OK

    executor = AheadExecutor(outcome_of=outcome_of)
    document = sandbox.run(AHEAD, executor=executor)
    assert document.run.state is RunState.INTERRUPTED
    assert len(document.results) == 1
    resumed = sandbox.run(replace(AHEAD, resume_id=document.run.id), executor=AheadExecutor())
    assert resumed.run.state is RunState.FINISHED
    assert len(resumed.results) == len(resumed.run.plan)
