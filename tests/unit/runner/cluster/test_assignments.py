"""The assignment of a plan's cases to nodes."""

from __future__ import annotations

from dataclasses import replace

from compile_hud.runner.cluster.assignments import MAX_ASSIGNMENTS, CaseQueue
from compile_hud.runner.planning.plan import PlannedCase
from compile_hud.runner.protocol.messages import Workload
from tests.support.builders import make_case

WORKLOAD = Workload(build="fake", config={}, num_samples=1, num_tokens=None)


def queue(*models: str, homes: dict[str, str] | None = None) -> CaseQueue:
    plan = [
        PlannedCase(case=replace(make_case(), model=model), workload=WORKLOAD) for model in models
    ]
    keys = {planned.case.model: planned.case.key for planned in plan}
    return CaseQueue(plan, homes={keys[name]: home for name, home in (homes or {}).items()})


def take(queue: CaseQueue, machine: str = "m") -> PlannedCase:
    planned = queue.take(machine, machines={"m", "n"})
    assert planned is not None
    return planned


def test_cases_are_taken_in_their_order() -> None:
    case_queue = queue("a", "b")
    assert [take(case_queue).case.model for _ in range(2)] == ["a", "b"]
    assert case_queue.take("m", machines={"m"}) is None


def test_a_node_takes_its_own_cases_first() -> None:
    homes = {"a": "n", "b": "gone", "d": "m"}
    case_queue = queue("a", "b", "c", "d", homes=homes)
    assert [take(case_queue).case.model for _ in range(4)] == ["d", "b", "c", "a"]


def test_case_of_a_failed_machine_is_next() -> None:
    case_queue = queue("a", "b")
    assert case_queue.retry(take(case_queue))
    assert take(case_queue).case.model == "a"


def test_case_is_given_to_so_many_machines_at_most() -> None:
    case_queue = queue("a")
    answers = [case_queue.retry(take(case_queue)) for _ in range(MAX_ASSIGNMENTS)]
    assert answers == [True] * (MAX_ASSIGNMENTS - 1) + [False]
    assert not case_queue


def test_machine_that_did_not_begin_does_not_count() -> None:
    case_queue = queue("a")
    for _ in range(MAX_ASSIGNMENTS + 1):
        case_queue.put_back(take(case_queue))
    assert case_queue.retry(take(case_queue))


def test_remaining_cases_are_taken_at_once() -> None:
    case_queue = queue("a", "b")
    assert [planned.case.model for planned in case_queue.take_all()] == ["a", "b"]
    assert not case_queue
