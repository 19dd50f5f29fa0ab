"""The first cases of a run with a time budget."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta

from compile_hud.db.records.results import REFERENCE_FAMILY, Case
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.paired_launches import PairSide
from compile_hud.runner.planning.time_budget import (
    SUSPECT_WEIGHT,
    TRACKED_WEIGHT,
    TimeBudget,
    Worth,
)
from compile_hud.runner.protocol.messages import MeasureSettings, Workload
from tests.support.builders import START, make_case
from tests.support.fakes import FakeClock, FakeExecutor

WORKLOAD = Workload(build="x", config={}, num_samples=1, num_tokens=0)
DAY = timedelta(days=1)


def side(case: Case) -> PairSide:
    order = CaseOrder(run_id="r", case=case, workload=WORKLOAD, settings=MeasureSettings())
    return PairSide(executor=FakeExecutor(), order=order)


def case(name: str) -> Case:
    family = REFERENCE_FAMILY if name.startswith("ref_") else "fake"
    return replace(make_case(), model=name, family=family)


def turns(
    waited_days: dict[str, float | None],
    *,
    suspects: Collection[str] = (),
    tracked: Collection[str] = (),
) -> list[str]:
    """Return the models in turn, of cases that waited for so many days, None for ever."""
    worth = Worth(
        last_measured={
            case(name).key: START - days * DAY
            for name, days in waited_days.items()
            if days is not None
        },
        suspects={case(name).key for name in suspects},
        is_tracked=lambda case: case.model in tracked,
    )
    budget = TimeBudget(60.0, worth=worth, now=FakeClock())
    cases = [case(name) for name in waited_days]
    return [item.model for item in budget.in_turn(cases, case_of=lambda item: item)]


def test_what_waited_longest_comes_first() -> None:
    assert turns({"a": 1, "b": 3, "c": 2}) == ["b", "c", "a"]


def test_what_was_never_measured_comes_before_what_waited_longest() -> None:
    assert turns({"a": 1, "b": 3, "c": None, "d": None}) == ["c", "d", "b", "a"]


def test_in_a_new_store_the_plan_is_the_order() -> None:
    assert turns({"b": None, "a": None}) == ["b", "a"]
    assert turns({"b": None, "a": None}, tracked=["a"]) == ["a", "b"]


def test_reference_cases_come_first_of_all() -> None:
    assert turns({"a": None, "ref_gemm": 1}, suspects=["a"]) == ["ref_gemm", "a"]


def test_an_open_regression_is_worth_nights_of_waiting() -> None:
    almost, more = SUSPECT_WEIGHT - 0.1, SUSPECT_WEIGHT + 0.1
    assert turns({"a": almost, "suspect": 1}, suspects=["suspect"]) == ["suspect", "a"]
    assert turns({"a": more, "suspect": 1}, suspects=["suspect"]) == ["a", "suspect"]


def test_a_tracked_shape_is_worth_more_than_another() -> None:
    assert turns({"a": TRACKED_WEIGHT - 0.1, "b": 1}, tracked=["b"]) == ["b", "a"]
    both = turns({"a": 7, "b": 1, "c": 1}, tracked=["b"], suspects=["b", "c"])
    assert both == ["b", "a", "c"]


def test_over_many_nights_nothing_starves_and_suspects_come_oftener() -> None:
    names = [f"m{number}" for number in range(12)]
    at: dict[str, datetime] = {}
    counts: Counter[str] = Counter()
    for night in range(60):
        now = START + night * DAY
        waited = {name: (now - at[name]) / DAY if name in at else None for name in names}
        for name in turns(waited, suspects=["m0", "m1"])[:4]:
            at[name] = now
            counts[name] += 1
    others = [counts[name] for name in names[2:]]
    assert min(others) > 0
    assert max(others) - min(others) <= 1
    assert min(counts["m0"], counts["m1"]) >= 2 * max(others)
