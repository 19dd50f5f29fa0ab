"""The parts of the time of a run whose every second is known."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from benchmarks.overhead import account
from benchmarks.startup import BenchmarkError
from compile_hud.db.records.results import CaseResult, Outcome
from tests.support.builders import START, make_case, make_document, make_result, make_run

ORIGIN_S = START.timestamp()


def at(seconds: float) -> Any:
    return START + timedelta(seconds=seconds)


def step(name: str, start_s: float, end_s: float) -> dict[str, Any]:
    return {"name": name, "start_s": start_s, "end_s": end_s}


def result(mode: str, *, family: str = "transformer", begin: float, end: float) -> CaseResult:
    """Return a case of two launches of 4 s: 1 s outside the steps, 1 s memory, 2 s samples."""
    steps = [step("sample", 0.5, 2.5), step("memory", 2.5, 3.5)]
    return make_result(
        case=make_case(mode=mode, family=family),
        started_at=at(begin),
        finished_at=at(end),
        details={"steps": [steps, steps], "launch_wall_s": [4.0, 4.0], "oracle": "shared"},
    )


RUN = make_run(started_at=at(10), finished_at=at(61))
RESULTS = [
    result("eager", family="reference", begin=11, end=20),
    result("eager", begin=21, end=31),
    result("default", begin=40, end=50),
    result("reduce-overhead", begin=51, end=60),
]


def test_every_second_of_a_run_is_in_one_part() -> None:
    accounts = account(
        make_document(RUN, results=RESULTS), started_at=ORIGIN_S + 2, ended_at=ORIGIN_S + 66
    )
    assert accounts["parts_s"] == {
        "before_run": 8.0,
        # 9 s passed before the first compiled case, usually 1 s does.
        "priming": 8.0,
        "between_cases": 5.0,
        "reference_cases": 9.0,
        # Three cases of 10, 10 and 9 s with two launches of 4 s each.
        "around_launches": 5.0,
        "around_steps": 6.0,
        "other_steps": 6.0,
        "after_run": 5.0,
    }
    assert accounts["unavoidable_s"] == 12.0
    assert (
        accounts["wall_s"] == 64.0 == sum(accounts["parts_s"].values()) + accounts["unavoidable_s"]
    )
    assert accounts["ratio"] == round(64 / 12, 4)
    assert accounts["ratio_with_header"] == round(64 / (12 + 8), 4)
    assert (accounts["num_cases"], accounts["num_reference_cases"], accounts["num_launches"]) == (
        3,
        1,
        6,
    )
    assert accounts["launches"][0] == {
        "case": RESULTS[1].case.key,
        "launch": 0,
        "wall_s": 4.0,
        "outside_steps_s": 1.0,
    }


def test_without_a_compiled_case_nothing_was_primed() -> None:
    accounts = account(
        make_document(RUN, results=RESULTS[:2]), started_at=ORIGIN_S, ended_at=ORIGIN_S + 70
    )
    assert accounts["parts_s"]["priming"] == 0.0


@pytest.mark.parametrize("is_finished", [True, False])
def test_a_run_that_is_not_whole_is_no_measurement(
    is_finished: bool, words: SnapshotAssertion
) -> None:
    run = RUN if is_finished else make_run(started_at=at(10))
    broken = make_result(case=make_case(), outcome=Outcome.FAILED)
    results = [*RESULTS, broken] if is_finished else RESULTS
    with pytest.raises(BenchmarkError) as caught:
        account(make_document(run, results=results), started_at=ORIGIN_S, ended_at=ORIGIN_S + 70)
    assert str(caught.value) == words
