"""The programs that the cases of a run compiled to."""

from __future__ import annotations

from typing import Any

from compile_hud.db.records.results import Outcome
from compile_hud.runner.execution.ahead.programs import MeasuredPrograms
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.protocol.messages import MeasureSettings, Workload, program
from tests.support.builders import make_case, make_result

NAME = program("abc", effective_mode="default")


def make_order(variant: str, *, position: int, **case: Any) -> CaseOrder:
    return CaseOrder(
        run_id="run",
        case=make_case(variant=variant, **case),
        workload=Workload(build="", config={}, num_samples=1, num_tokens=None),
        settings=MeasureSettings(),
        position=position,
    )


def note(programs: MeasuredPrograms, order: CaseOrder, outcome: Outcome) -> list[str]:
    """Return the codes of the warnings of a result with NAME."""
    result = make_result(
        case=order.case,
        outcome=outcome,
        effective_mode="default",
        details={"generated_code_sha256": "abc"},
    )
    return [warning.code for warning in programs.note(order, result).warnings]


FIRST, LATER = make_order("first", position=1), make_order("later", position=2)


def test_a_program_of_a_case_that_is_ok_is_known_to_later_ones_of_its_model() -> None:
    programs = MeasuredPrograms()
    assert note(programs, FIRST, Outcome.OK) == []
    assert programs.others(LATER) == {NAME: "first"}
    assert programs.others(make_order("later", position=2, model="vit")) == {}
    assert note(programs, LATER, Outcome.OK) == ["same-code"]
    assert programs.others(FIRST) == {}


def test_a_case_that_fails_after_its_first_launch_has_measured_no_program() -> None:
    programs = MeasuredPrograms()
    programs.add(FIRST, NAME)
    assert programs.others(LATER) == {NAME: "first"}
    note(programs, FIRST, Outcome.TIMEOUT)
    assert programs.others(LATER) == {}


def test_another_variant_with_the_program_remains_when_the_first_fails() -> None:
    programs = MeasuredPrograms()
    programs.add(FIRST, NAME)
    programs.add(LATER, NAME)
    note(programs, FIRST, Outcome.FAILED)
    assert programs.others(make_order("last", position=3)) == {NAME: "later"}
