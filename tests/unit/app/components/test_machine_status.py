"""The texts about the machine."""

from __future__ import annotations

import dataclasses

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.components.machine_status import machine_notice, moved_cell, reference_table
from compile_hud.app.data.page_records import MachineMove
from compile_hud.db.records.results import Outcome
from compile_hud.db.records.run_warning import RunWarning
from tests.support.builders import make_case
from tests.support.records.page_results import result_summary, run_page

MOVED = MachineMove(
    model="ref_copy",
    kind="memory",
    metric="latency_s",
    verdict="moved",
    reason="slower, beyond 5 %",
    change_pct=9.04,
    interval_pct=(6.1, 12.0),
)
STEADY = dataclasses.replace(
    MOVED,
    model="ref_gemm",
    kind="compute",
    verdict="steady",
    reason="",
    change_pct=0.2,
    interval_pct=(-3.0, 3.4),
)
UNKNOWN = MachineMove(
    model="ref_chain", kind="launch", metric="latency_s", verdict="unknown", reason="no history"
)
REFERENCE = make_case("ref_copy", family="reference", mode="eager")


def test_a_machine_that_moved_has_a_banner_with_the_figures(words: SnapshotAssertion) -> None:
    lines = machine_notice([STEADY, MOVED, UNKNOWN])
    assert lines == words
    assert "compute" not in " ".join(lines)


def test_a_machine_that_did_not_move_has_no_banner() -> None:
    assert machine_notice([STEADY, UNKNOWN]) == ()
    assert machine_notice([]) == ()


def test_the_list_of_runs_says_moved_steady_or_nothing() -> None:
    assert moved_cell([STEADY, MOVED]).text == "memory +9.0 %"
    assert moved_cell([STEADY]).text == "steady"
    assert moved_cell([STEADY, UNKNOWN]).text == "-"
    assert moved_cell([]).text == "-"
    assert "ref_chain: unknown, no history" in moved_cell([UNKNOWN]).title


def test_the_reference_cases_of_a_run_have_a_table_of_their_own() -> None:
    page = run_page([result_summary(REFERENCE, values={"latency_s": 0.0074}), result_summary()])
    html = reference_table(dataclasses.replace(page, machine=(MOVED,)))
    assert html.count("<tr>") == 2
    for text in ("ref_copy", "memory", "7.40 ms", "+9.0 %", "[+6.1, +12.0] %", "moved"):
        assert text in html


def test_a_reference_case_without_a_number_says_how_it_ended() -> None:
    failed = result_summary(REFERENCE, outcome=Outcome.FAILED, reason="no room")
    html = reference_table(run_page([failed]))
    assert ">failed<" in html
    assert 'title="no room"' in html


@pytest.mark.parametrize("machine", [(), (MOVED,)])
@pytest.mark.parametrize("values", [{}, {"latency_s": 0.0074}])
def test_a_reference_case_has_its_warnings(
    machine: tuple[MachineMove, ...], values: dict[str, float]
) -> None:
    warning = RunWarning(code="launches-disagree", text="launches are 17.9% apart")
    result = result_summary(REFERENCE, values=values, warnings=[warning])
    html = reference_table(dataclasses.replace(run_page([result]), machine=machine))
    assert 'title="launches are 17.9% apart"><div class="text">1</div></td></tr>' in html


def test_a_reference_case_that_is_not_judged_has_its_time_all_the_same() -> None:
    html = reference_table(run_page([result_summary(REFERENCE, values={"latency_s": 0.0074})]))
    assert "7.40 ms" in html
    assert "moved" not in html


def test_times_on_different_clocks_name_them() -> None:
    other = make_case("ref_chain", family="reference", mode="eager")
    results = [
        result_summary(REFERENCE, values={"latency_s": 0.0074}),
        result_summary(other, values={"latency_cpu_s": 0.00045, "latency_s": 0.00046}),
    ]
    on_cpu = dataclasses.replace(UNKNOWN, metric="latency_cpu_s")
    html = reference_table(dataclasses.replace(run_page(results), machine=(MOVED, on_cpu)))
    wall, cpu = ("latency", "latency (CPU time)")
    assert [html.count(f">{name}<") for name in (wall, cpu)] == [1, 1]
    one = reference_table(dataclasses.replace(run_page(results[:1]), machine=(MOVED,)))
    assert one.count(">latency<") == 1
    assert ">time<" not in one


def test_a_run_without_reference_cases_has_no_such_table() -> None:
    assert reference_table(run_page([result_summary()])) == ""
