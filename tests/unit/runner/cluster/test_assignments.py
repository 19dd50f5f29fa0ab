"""Who gets which case of a plan."""

from __future__ import annotations

from dataclasses import replace

from compile_hud.runner.cluster.assignments import MAX_ASSIGNMENTS, Assignment, CaseQueue
from compile_hud.runner.planning.plan import PlannedCase
from compile_hud.runner.protocol.messages import Workload
from tests.support.builders import make_case

WORKLOAD = Workload(build="fake", config={}, num_samples=1, num_tokens=None)


def board(*models: str, homes: dict[str, str] | None = None) -> CaseQueue:
    plan = [
        PlannedCase(case=replace(make_case(), model=model), workload=WORKLOAD) for model in models
    ]
    keys = {planned.case.model: planned.case.key for planned in plan}
    return CaseQueue(plan, homes={keys[name]: home for name, home in (homes or {}).items()})


def take(found: CaseQueue, machine: str = "m") -> Assignment:
    ticket = found.take(machine, machines={"m", "n"})
    assert ticket is not None
    return ticket


def test_cases_are_taken_in_their_order() -> None:
    found = board("a", "b")
    assert [take(found).planned.case.model for _ in range(2)] == ["a", "b"]
    assert found.take("m", machines={"m"}) is None


def test_machine_takes_its_own_before_those_of_nobody_and_of_others() -> None:
    homes = {"a": "n", "b": "gone", "d": "m"}
    found = board("a", "b", "c", "d", homes=homes)
    assert [take(found).planned.case.model for _ in range(4)] == ["d", "b", "c", "a"]


def test_result_counts_once() -> None:
    found = board("a")
    ticket = take(found)
    assert [found.accept(ticket), found.accept(ticket)] == [True, False]


def test_late_result_of_a_case_that_another_machine_has_does_not_count() -> None:
    found = board("a")
    late = take(found)
    assert found.take_back(late)
    again = take(found, "n")
    assert [found.accept(late), found.accept(again)] == [False, True]


def test_case_that_was_taken_back_is_next() -> None:
    found = board("a", "b")
    found.take_back(take(found))
    assert take(found).planned.case.model == "a"


def test_case_is_given_to_so_many_machines_at_most() -> None:
    found = board("a")
    answers = [found.take_back(take(found)) for _ in range(MAX_ASSIGNMENTS)]
    assert answers == [True] * (MAX_ASSIGNMENTS - 1) + [False]
    assert not found.waiting


def test_machine_that_did_not_begin_does_not_count() -> None:
    found = board("a")
    assert all(found.take_back(take(found), is_counted=False) for _ in range(MAX_ASSIGNMENTS + 1))
