"""Phases with lanes on a simulated clock."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compile_hud.db.records.results import CaseResult
from compile_hud.runner.errors import ExecutorError
from compile_hud.runner.execution.ahead.phases import Phases
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.protocol.messages import MeasureSettings, Workload
from tests.support.builders import make_case
from tests.support.runs.virtual_lanes import (
    LaunchCost,
    Span,
    VirtualClock,
    VirtualLane,
    VirtualSession,
)

GROUPS = (frozenset({0, 1}), frozenset({2, 3}))
LONG, SHORT = LaunchCost(compile_s=8.0, device_s=1.0), LaunchCost(compile_s=2.0, device_s=1.0)


def make_order(model: str) -> CaseOrder:
    workload = Workload(build="", config={}, num_samples=1, num_tokens=None)
    return CaseOrder(
        run_id="run", case=make_case(model=model), workload=workload, settings=MeasureSettings()
    )


class Night:
    """A night of models with the costs of their launches, in `num_lanes` lanes."""

    def __init__(self, costs: dict[str, list[LaunchCost]], *, num_lanes: int = 4) -> None:
        self.clock = VirtualClock()
        self.orders = [make_order(model) for model in costs]
        by_key = dict(zip((o.case.key for o in self.orders), costs.values(), strict=True))
        self.lanes = [VirtualLane(self.clock, by_key) for _ in range(num_lanes)]
        self.phases = Phases(self.lanes, core_groups=GROUPS, pause=self.clock.pause)

    def run(self) -> list[CaseResult]:
        return list(self.phases.measure(self.orders))

    def spans(self, kind: str) -> list[Span]:
        return [span for span in self.clock.spans if span.kind == kind]


def overlap(one: Span, other: Span) -> bool:
    return one.start_s < other.end_s and other.start_s < one.end_s


def test_no_launch_compiles_or_samples_while_another_one_samples() -> None:
    night = Night({f"model-{number}": [LONG, SHORT, SHORT] for number in range(9)})
    assert len(night.run()) == 9
    samples = night.spans("sample")
    assert len(samples) == 27
    for number, sample in enumerate(samples):
        others = (*night.spans("compile"), *samples[:number], *samples[number + 1 :])
        assert not [other for other in others if overlap(sample, other)]


def test_launches_that_compile_at_a_time_have_cores_of_their_own() -> None:
    night = Night({f"model-{number}": [LONG, SHORT] for number in range(5)})
    night.run()
    spans = night.spans("compile")
    pairs = [(a, b) for a in spans for b in spans if a is not b and overlap(a, b)]
    assert pairs
    assert all(not one.cores & other.cores for one, other in pairs)
    # There are never more of them than groups of cores.
    starts = [span.start_s for span in spans]
    assert max(sum(s.start_s <= at < s.end_s for s in spans) for at in starts) == len(GROUPS)


def test_two_launches_at_a_time_take_half_as_long_to_compile() -> None:
    night = Night({f"model-{number}": [LONG] for number in range(4)})
    night.run()
    assert night.clock.now_s == 2 * LONG.compile_s + 4 * LONG.device_s


def test_the_result_of_each_case_comes_once_it_has_all_launches() -> None:
    night = Night({"a": [SHORT, SHORT, SHORT], "b": [SHORT], "c": [SHORT]})
    assert [result.case.model for result in night.run()] == ["b", "c", "a"]


def test_a_launch_that_ends_early_gets_no_turn() -> None:
    early = LaunchCost(compile_s=1.0, device_s=0.0, ends_early=True)
    night = Night({"fails": [early, SHORT], "works": [SHORT]})
    assert {result.case.model for result in night.run()} == {"fails", "works"}
    assert [span.case_key for span in night.spans("sample")] == [make_order("works").case.key]


def test_a_launch_knows_how_many_others_wait_with_their_model_on_the_device() -> None:
    night = Night({"a": [SHORT], "b": [SHORT], "c": [SHORT]})
    night.run()
    assert sorted(number for lane in night.lanes for number in lane.neighbours) == [0, 1, 2]


def test_a_case_is_taken_only_when_a_lane_is_free_for_it() -> None:
    night = Night({f"model-{number}": [SHORT] for number in range(5)}, num_lanes=2)
    taken: list[str] = []

    def take() -> Iterator[CaseOrder]:
        for order in night.orders:
            taken.append(order.case.model)
            yield order

    results = night.phases.measure(take())
    next(results)
    assert taken == ["model-0", "model-1"]
    assert len(list(results)) == 4


def test_a_case_has_its_result_before_the_next_one_samples() -> None:
    night = Night({"a": [SHORT], "b": [SHORT]})
    results = night.phases.measure(night.orders)
    next(results)
    assert len(night.spans("sample")) == 1
    assert len(list(results)) == 1


def test_no_cases_are_no_results() -> None:
    assert Night({}).run() == []


def test_a_case_may_be_measured_alone_between_the_results_of_others() -> None:
    night = Night({"a": [SHORT], "b": [SHORT, SHORT], "again": [LONG]}, num_lanes=2)
    results = night.phases.measure(night.orders[:2])
    first = next(results)
    alone = night.phases.measure_alone(night.orders[2])
    rest = [result.case.model for result in results]
    assert (first.case.model, alone.case.model, rest) == ("a", "again", ["b"])


def test_an_error_closes_every_session_and_frees_its_lane(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    night = Night({"a": [SHORT], "b": [SHORT]})

    def fail(_session: VirtualSession, *, num_neighbours: int) -> None:
        raise ExecutorError(f"no host, {num_neighbours} wait")

    monkeypatch.setattr(VirtualSession, "sample", fail)
    with pytest.raises(ExecutorError, match="no host, 1 wait"):
        night.run()
    assert [lane.num_open for lane in night.lanes] == [0] * 4
