"""A suite with a time budget: what it measures tonight, and that everything has its turn."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.queries.latest import load_latest
from compile_hud.db.queries.outcomes import load_outcomes, load_unusual_outcomes
from compile_hud.db.queries.runs import load_plans
from compile_hud.db.records.results import CaseResult, Outcome, RunDocument, RunState
from tests.support.fakes import FakeExecutor
from tests.support.runs.runs import REQUEST, RunSandbox, interrupt, on_case

# Four cases, the one model's taking 10 s each and the other's 3 s.
BUDGETED = replace(REQUEST, time_budget_s=15.0)


@pytest.fixture
def sandbox(tmp_path: Path) -> RunSandbox:
    return RunSandbox(tmp_path)


def measured(document: RunDocument) -> list[str]:
    return [short(result) for result in document.results if not result.is_deferred]


def short(result: CaseResult) -> str:
    return f"{result.case.model} {result.case.variant}"


def test_no_case_is_started_when_the_time_is_over(
    sandbox: RunSandbox, words: SnapshotAssertion
) -> None:
    document = sandbox.run(BUDGETED, executor=FakeExecutor())
    assert measured(document) == ["bert eager", "bert default"]
    assert document.run.state is RunState.FINISHED
    assert len(document.run.plan) == 4
    left = [result for result in document.results if result.is_deferred]
    assert [short(result) for result in left] == ["takes_3s eager", "takes_3s default"]
    assert left[0].outcome is Outcome.SKIPPED
    assert left[0].reason == words
    assert sandbox.load("latest") == document
    assert sandbox.messages()[-1] == (words)


def test_the_next_run_begins_with_what_waited_longest(sandbox: RunSandbox) -> None:
    nights, plans = [], []
    for _ in range(4):
        document = sandbox.run(BUDGETED, executor=FakeExecutor())
        nights.append(measured(document))
        plans.append(document.run.plan)
        sandbox.clock.advance(86_400)
    assert plans == [plans[0]] * 4
    assert nights[1] == ["takes_3s eager", "takes_3s default", "bert eager"]
    assert nights[2] == ["bert default", "takes_3s eager", "takes_3s default"]
    counts = Counter(name for night in nights for name in night)
    assert set(counts.values()) == {2, 3}


def test_a_budget_for_nothing_measures_one_case_and_every_reference(sandbox: RunSandbox) -> None:
    request = replace(REQUEST, time_budget_s=0.001, has_references=True)
    for expected in ("bert eager", "bert default"):
        document = sandbox.run(request, executor=FakeExecutor())
        assert measured(document) == [
            *("ref_gemm eager", "ref_copy eager", "ref_chain eager"),
            expected,
        ]
        sandbox.clock.advance(86_400)


def test_runs_of_another_suite_are_not_waited_for(sandbox: RunSandbox) -> None:
    sandbox.run(BUDGETED, executor=FakeExecutor())
    other = replace(BUDGETED, suite="other")
    assert measured(sandbox.run(other, executor=FakeExecutor()))[0] == "bert eager"


def test_runs_in_turn_put_the_same_cases_off(sandbox: RunSandbox) -> None:
    documents = sandbox.run_together(
        [BUDGETED, replace(BUDGETED, toolchain="nightly")],
        executors=(FakeExecutor(), FakeExecutor()),
    )
    assert [measured(document) for document in documents] == [["bert eager"]] * 2
    assert [len(document.results) for document in documents] == [4, 4]


def test_a_run_that_is_interrupted_puts_nothing_off(sandbox: RunSandbox) -> None:
    document = sandbox.run(BUDGETED, executor=FakeExecutor(on_execute=on_case(2, interrupt)))
    assert document.run.state is RunState.INTERRUPTED
    assert len(document.results) == 1


def test_deferred_cases_keep_their_last_result_and_are_not_judged(sandbox: RunSandbox) -> None:
    for _ in range(2):
        sandbox.run(BUDGETED, executor=FakeExecutor())
        sandbox.clock.advance(86_400)
    assert sandbox.store is not None
    latest = load_latest(sandbox.store)
    assert [cell.summary.outcome for cell in latest] == [Outcome.OK] * 4
    assert load_unusual_outcomes(sandbox.store, runs=load_plans(sandbox.store)) == ()
    points = [point for item in load_outcomes(sandbox.store) for point in item.points]
    assert {point.outcome for point in points if point.is_deferred} == {Outcome.SKIPPED}
    assert {point.outcome for point in points if not point.is_deferred} == {Outcome.OK}


def test_an_open_regression_is_measured_every_night(sandbox: RunSandbox) -> None:
    suspect = sandbox.run(BUDGETED, executor=FakeExecutor()).run.plan[0]
    sandbox.suspects = {suspect.key}
    for _ in range(3):
        sandbox.clock.advance(86_400)
        document = sandbox.run(BUDGETED, executor=FakeExecutor())
        assert short(document.results[0]) == "bert eager"
