from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any

import pytest

from compile_hud.db.records.results import Outcome, RunDocument
from compile_hud.runner.interop.exporters.mlperf import global_batch_size, to_mll
from tests.support.builders import START, make_case, make_measurement, make_result, make_run

# What the readers of mlperf_logging take a line apart with.
LINE = re.compile(r":::MLLOG (\{.*\})")
KEYS = ["namespace", "time_ms", "event_type", "key", "value", "metadata"]

FAST, SLOW = make_case(model="bert", phase="training"), make_case(model="vit")
RUN = make_run(environment={"device_name": "Some CPU"}, plan=[FAST, SLOW])
MEASUREMENTS = [
    make_measurement("latency_s", samples=[0.010, 0.020, 0.040]),
    make_measurement("throughput_samples_per_s", samples=[800.0, 400.0, 200.0]),
    make_measurement("forward_s", samples=[0.004]),
]
FIRST = make_result(
    "first",
    run=RUN,
    case=FAST,
    measurements=MEASUREMENTS,
    started_at=START,
    finished_at=START + timedelta(seconds=1.5),
)
SECOND = make_result(
    "second",
    run=RUN,
    case=SLOW,
    outcome=Outcome.INACCURATE,
    measurements=[],
    started_at=START + timedelta(seconds=2),
    finished_at=START + timedelta(seconds=3),
)


def parse(text: str) -> list[dict[str, Any]]:
    events = []
    for line in text.splitlines():
        match = LINE.fullmatch(line)
        assert match is not None, line
        events.append(json.loads(match[1]))
    return events


def log(*results: Any) -> list[dict[str, Any]]:
    return parse(to_mll(RunDocument(run=RUN, results=results)))


def test_every_line_has_the_keys_in_the_order_of_the_reference() -> None:
    for number, event in enumerate(log(FIRST, SECOND), start=1):
        assert list(event) == KEYS
        assert event["metadata"]["file"] == f"run {RUN.id}"
        assert event["metadata"]["lineno"] == number
        assert isinstance(event["time_ms"], int)


def test_a_case_is_an_interval_with_what_was_measured_inside() -> None:
    events = log(FIRST)
    assert [(event["event_type"], event["key"]) for event in events] == [
        ("POINT_IN_TIME", "submission_benchmark"),
        ("POINT_IN_TIME", "submission_platform"),
        ("POINT_IN_TIME", "global_batch_size"),
        ("INTERVAL_START", "run_start"),
        ("POINT_IN_TIME", "tracked_stats"),
        ("INTERVAL_END", "run_stop"),
    ]
    assert [event["value"] for event in events] == [
        "bert",
        "Some CPU",
        8,
        None,
        {
            "throughput": 400.0,
            "latency_s": 0.020,
            "throughput_samples_per_s": 400.0,
            "forward_s": 0.004,
        },
        None,
    ]
    assert {event["namespace"] for event in events} == {FAST.key}
    assert events[-1]["time_ms"] - events[0]["time_ms"] == 1500
    assert events[0]["time_ms"] == round(START.timestamp() * 1000)
    assert events[3]["metadata"]["phase"] == "training"
    assert events[4]["metadata"]["units"]["forward_s"] == "s"
    assert events[5]["metadata"]["status"] == "success"


def test_what_is_not_ok_is_aborted_and_has_no_numbers() -> None:
    events = log(SECOND)
    assert [event["key"] for event in events] == [
        "submission_benchmark",
        "submission_platform",
        "run_start",
        "run_stop",
    ]
    ending = events[-1]["metadata"]
    assert (ending["status"], ending["outcome"]) == ("aborted", "inaccurate")


def test_the_log_follows_the_clock_whatever_the_order_of_the_document() -> None:
    assert log(SECOND, FIRST) == log(FIRST, SECOND)
    times = [event["time_ms"] for event in log(SECOND, FIRST)]
    assert times == sorted(times)


def test_without_a_name_the_device_is_the_platform_and_without_throughput_there_is_no_batch() -> (
    None
):
    run = make_run(environment={})
    result = make_result(run=run, measurements=[make_measurement("latency_s")])
    events = parse(to_mll(RunDocument(run=run, results=(result,))))
    assert [event["value"] for event in events[:3]] == ["bert", "cpu", None]
    assert "throughput" not in events[3]["value"]


@pytest.mark.parametrize("numbers", [(3e180, 2e170), (5e14, 7e13), (1e-90, 1e-95), (-4.0, 2.0)])
def test_numbers_that_are_no_batch_give_none(numbers: tuple[float, float]) -> None:
    latency, throughput = numbers
    result = make_result(
        measurements=[
            make_measurement("latency_s", samples=[latency]),
            make_measurement("throughput_samples_per_s", samples=[throughput]),
        ]
    )
    assert global_batch_size(result) is None
    assert to_mll(RunDocument(run=make_run(plan=[result.case]), results=(result,)))
