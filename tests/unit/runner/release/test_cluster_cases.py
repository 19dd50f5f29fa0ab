"""The cases of a release on a cluster: how each is measured, and which ones begin in time."""

from __future__ import annotations

import pickle
from datetime import timedelta

from compile_hud.runner.analysis.release.runs import MAX_LAUNCHES, MIN_LAUNCHES
from compile_hud.runner.release.cluster_cases import ReleasePolicy, UntilDecided
from tests.support.fakes import FakeClock
from tests.unit.runner.release.test_sequential import NUM_CASES, RULES, Toolchains


def policy(budget_s: float | None, *, clock: FakeClock) -> ReleasePolicy:
    budget = None if budget_s is None else timedelta(seconds=budget_s)
    return ReleasePolicy(RULES, num_cases=NUM_CASES, budget=budget, now=clock)


def budget_s(measure: object) -> float | None:
    assert isinstance(measure, UntilDecided)
    return None if measure.budget is None else measure.budget.total_seconds()


def test_a_case_is_launched_until_it_is_decided() -> None:
    toolchains = Toolchains()
    cases = toolchains.cases()
    measure = UntilDecided(rules=RULES, num_cases=NUM_CASES, budget=None)
    for number in (3, 11):
        before, after = measure(cases[number])
        assert before.case == after.case == cases[number][0].order.case
    assert toolchains.launched["model3"] == 2 * MIN_LAUNCHES
    assert 2 * MIN_LAUNCHES < toolchains.launched["model11"] <= 2 * MAX_LAUNCHES
    sessions = [session for executor in toolchains.executors for session in executor.sessions]
    assert all(session.is_closed for session in sessions)


def test_the_measurement_of_a_case_travels_to_a_node() -> None:
    measure = UntilDecided(rules=RULES, num_cases=NUM_CASES, budget=timedelta(seconds=9))
    assert pickle.loads(pickle.dumps(measure)) == measure  # noqa: S301


def test_without_a_budget_every_case_begins() -> None:
    clock = FakeClock()
    rules = policy(None, clock=clock)
    clock.advance(10**6)
    assert rules.has_time()
    assert budget_s(rules.begin()) is None


def test_a_case_begins_if_it_probably_ends_in_time() -> None:
    clock = FakeClock()
    rules = policy(100, clock=clock)
    assert budget_s(rules.begin()) == 100
    clock.advance(30)
    rules.end(timedelta(seconds=30))
    assert rules.has_time()
    assert budget_s(rules.begin()) == 70
    clock.advance(30)
    rules.end(timedelta(seconds=30))
    assert rules.has_time()
    clock.advance(10)
    assert not rules.has_time()


def test_the_first_case_begins_however_late_it_is() -> None:
    clock = FakeClock()
    rules = policy(10, clock=clock)
    clock.advance(60)
    assert rules.has_time()
    assert budget_s(rules.begin()) == 1
    assert not rules.has_time()
