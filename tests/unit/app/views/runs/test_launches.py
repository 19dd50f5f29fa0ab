"""The reports of a result's launches, as tables and bars."""

from __future__ import annotations

from typing import Any

from compile_hud.app.views.runs.launches import (
    compile_stack,
    launch_table,
    launches_of,
    steps_table,
    training_stack,
)
from tests.support.records.page_results import result_summary

COLD = {
    "state": "cold",
    "compile_s": 10.0,
    "phases_s": {"backend": 6.0, "dynamo": 1.0, "inductor": 2.0, "triton": 0.5},
}


def conditions(*launches: Any) -> str:
    return launch_table({"conditions": list(launches)}, "conditions")


def test_a_launch_is_a_column_and_a_key_a_row_in_one_unit() -> None:
    html = conditions({"load": [1.5, 2.25], "cpu_frequency_hz": 2.5e9}, {"cpu_frequency_hz": 3e9})
    assert ">launch 1<" in html
    assert ">launch 2<" in html
    assert ">load<" in html
    assert ">cpu frequency (GHz)<" in html
    assert ">1.50, 2.25<" in html
    assert ">2.50<" in html
    assert ">3.00<" in html
    assert html.count("<tr>") == 3


def test_a_share_is_in_percent() -> None:
    html = conditions({"steal_share": 0.031})
    assert ">steal (%)<" in html
    assert ">3.10<" in html


def test_many_readings_are_their_range_and_all_of_them_in_the_tooltip() -> None:
    html = conditions({"power_w": [300.0, 310.0, 290.0]})
    assert ">290 to 310<" in html
    assert 'title="3 readings: 300, 310, 290"' in html


def test_words_stay_words_and_truth_is_no_number() -> None:
    html = conditions({"throttle_reasons": ["power", "heat"], "is_settled": True})
    assert ">power, heat<" in html
    assert ">True<" in html


def test_an_unreported_figure_has_no_row() -> None:
    html = conditions({"load": [1.0], "temperature_c": None, "clock_hz": [None, None]})
    assert "temperature" not in html
    assert "clock" not in html


def test_nested_values_are_rows_with_the_unit_of_their_name() -> None:
    html = conditions({"phases_s": {"dynamo": 0.25}, "events": {"stops": 3}})
    assert ">dynamo (ms)<" in html
    assert ">250<" in html
    assert ">stops<" in html


def test_look_ups_of_caches_are_not_in_the_table_twice() -> None:
    html = conditions({"load": 1.0, "cache": {"hits": 3}, "cache_reasons": [{"cache": "x"}]})
    assert "hits" not in html
    assert html.count("<tr>") == 2


def test_a_launch_without_details_has_dashes() -> None:
    html = conditions({"load": 1.0}, None)
    assert html.count("<tr>") == 2
    assert ">-<" in html


def test_details_of_another_kind_give_no_table() -> None:
    for value in (None, "text", 3, [], [None], [{}]):
        assert launch_table({"conditions": value}, "conditions") == ""
    assert launches_of({"telemetry": {"power_w": 3}}, "telemetry") == [{"power_w": 3}]


def test_steps_are_as_long_as_from_their_start_to_their_end() -> None:
    steps = [
        [{"name": "build", "start_s": 1.0, "end_s": 1.5}],
        [{"name": "warm up", "start_s": 0, "end_s": 2}],
    ]
    html = steps_table({"steps": steps})
    assert ">build (ms)<" in html
    assert ">500<" in html
    assert ">warm up (s)<" in html
    assert steps_table({}) == ""
    assert steps_table({"steps": ["build"]}) == ""


def test_compile_time_is_divided_into_phases_and_a_rest() -> None:
    html = compile_stack(
        result_summary(
            details={
                "compile": [COLD, {"state": "warm", "compile_s": 2.0, "phases_s": {"dynamo": 2.0}}]
            }
        )
    )
    assert "cold (launch 1)" in html
    assert "warm (launch 2)" in html
    places = [
        html.index(f'title="{name}: ')
        for name in ("dynamo", "inductor", "backend", "triton", "rest")
    ]
    assert places == sorted(places)
    assert 'title="rest: 0.500 s"' in html
    assert 'style="width:60.00%"' in html
    # The warm launch is on the scale of the cold one, and nothing is left of it.
    assert 'style="width:20.00%"' in html
    assert html.count('title="rest') == 1


def test_a_case_that_compiled_nothing_has_no_bars() -> None:
    for details in ({}, {"compile": [None]}, {"compile": [{"state": "cold"}]}):
        assert compile_stack(result_summary(details=details)) == ""


def test_no_launch_of_another_runtime_is_warm() -> None:
    launches = [{"state": state, "compile_s": 2.0, "phases_s": {}} for state in ("cold", "warm")]
    details = {"compile": launches, "runtime": {"name": "onnxruntime"}}
    html = compile_stack(result_summary(details=details))
    assert "export (launch 1)" in html
    assert "export (launch 2)" in html
    assert "warm" not in html


def test_a_training_step_is_divided_into_its_parts() -> None:
    values = {"latency_s": 0.010, "forward_s": 0.004, "backward_s": 0.005, "optimizer_s": 0.002}
    html = training_stack(result_summary(values=values, details={"breakdown": {"step_s": 0.0125}}))
    assert 'title="forward: 4.00 ms"' in html
    assert 'title="rest: 1.50 ms"' in html
    assert 'title="rest' not in training_stack(result_summary(values=values))
    assert training_stack(result_summary()) == ""
