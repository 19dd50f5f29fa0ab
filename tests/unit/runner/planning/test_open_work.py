"""The seconds that the open cases of a run need."""

from __future__ import annotations

from datetime import timedelta

import pytest

from compile_hud.db.records.results import ALONE_S, TURNS, WAITED_S, Case, CaseResult
from compile_hud.db.records.summaries import CaseSeconds
from compile_hud.runner.planning.open_work import OpenWork
from tests.support.builders import START, make_case, make_result

A, B, C = (make_case(name) for name in "abc")
EAGER = make_case("a", mode="eager")


def ended(case: Case, *, took_s: float, waited_s: float, alone_s: float) -> CaseResult:
    return make_result(
        case=case,
        started_at=START,
        finished_at=START + timedelta(seconds=took_s + waited_s),
        details={TURNS: {WAITED_S: waited_s, ALONE_S: alone_s}},
    )


def test_only_seconds_alone_on_the_device_count_whole() -> None:
    assert CaseSeconds(took_s=50.0, alone_s=10.0).shared(4) == 20.0
    assert CaseSeconds(took_s=50.0).shared(4) == 50.0
    assert CaseSeconds(took_s=50.0, alone_s=10.0).shared(1) == 50.0


def test_a_case_waits_for_those_that_are_open() -> None:
    known = {A.key: CaseSeconds(took_s=50.0, alone_s=10.0), B.key: CaseSeconds(took_s=8.0)}
    work = OpenWork(4, known=known)
    work.begin(B)
    assert work.needed_s(A) == 28.0
    work.end(ended(B, took_s=8.0, waited_s=100.0, alone_s=8.0))
    assert work.needed_s(A) == 20.0


def test_an_unknown_case_takes_the_median_of_its_kind_in_the_run() -> None:
    work = OpenWork(2, known={})
    assert work.needed_s(C) == 0.0
    work.end(ended(EAGER, took_s=2.0, waited_s=50.0, alone_s=2.0))
    assert work.needed_s(C) == 2.0
    for case, took_s in ((A, 10.0), (B, 30.0)):
        work.end(ended(case, took_s=took_s, waited_s=50.0, alone_s=4.0))
    assert work.needed_s(C) == pytest.approx(12.0)
    assert work.needed_s(make_case("c", mode="eager")) == 2.0


def test_an_unknown_case_takes_the_median_of_known_ones_before_the_first_result() -> None:
    known = {case.key: CaseSeconds(took_s=took_s) for case, took_s in ((A, 5.0), (B, 7.0))}
    assert OpenWork(2, known=known).needed_s(C) == 6.0
