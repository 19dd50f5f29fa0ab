"""The messages between runner and worker."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import Outcome
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.runner.measure.steps import STEP_ORDER, StepLog
from compile_hud.runner.protocol.files import whole_file, write_json
from compile_hud.runner.protocol.messages import (
    Checkout,
    LaunchReport,
    LaunchRequest,
    MeasureSettings,
    RawMetric,
    ShapeSweep,
    Workload,
)
from tests.support.builders import make_case

REQUEST = LaunchRequest(
    case=make_case(),
    workload=Workload(build="m", config={"depth": 2}, num_samples=1, num_tokens=None),
    settings=MeasureSettings(),
    launch=0,
    cache_dir="cache",
    report_path="report",
    log_path="log",
)
REPORT = LaunchReport(
    outcome=Outcome.OK,
    effective_mode="default",
    metrics={"latency_s": RawMetric(samples=(1.0, 2.0), method="clock", warmups=(3.0,))},
    warnings=(RunWarning(code="unsettled", text="moved"),),
    details={"core": 1},
)


def test_a_request_survives_json() -> None:
    assert LaunchRequest.from_json(json.loads(json.dumps(REQUEST.to_json()))) == REQUEST


def test_a_request_for_another_commit_survives_json() -> None:
    checkout = Checkout(folder="/state/checkout", repository="/home/me/models")
    request = replace(REQUEST, workload=replace(REQUEST.workload, checkout=checkout))
    assert LaunchRequest.from_json(json.loads(json.dumps(request.to_json()))) == request


def test_a_request_for_other_shapes_survives_json() -> None:
    sweep = ShapeSweep(axis="length", values=(4, 8))
    request = replace(REQUEST, workload=replace(REQUEST.workload, sweep=sweep))
    assert LaunchRequest.from_json(json.loads(json.dumps(request.to_json()))) == request


def test_a_report_survives_json() -> None:
    assert LaunchReport.from_json(json.loads(json.dumps(REPORT.to_json()))) == REPORT


def test_another_protocol_version_is_refused(words: SnapshotAssertion) -> None:
    document = REPORT.to_json() | {"protocol_version": 99}
    with pytest.raises(ValueError, match="99") as caught:
        LaunchReport.from_json(document)
    assert str(caught.value) == words


def test_steps_are_recorded_with_their_times() -> None:
    moments = iter([100.0, 101.0, 103.0, 104.0, 108.0])
    log = StepLog(now_s=lambda: next(moments))
    with log.step("build"):
        pass
    with log.step("sample"):
        pass
    assert log.entries == [
        {"name": "build", "start_s": 1.0, "end_s": 3.0},
        {"name": "sample", "start_s": 4.0, "end_s": 8.0},
    ]


def test_a_step_inside_another_is_refused() -> None:
    log = StepLog()
    with log.step("sample"), pytest.raises(AssertionError, match="inside"), log.step("memory"):
        pass


def test_a_step_out_of_order_is_refused() -> None:
    log = StepLog()
    with log.step("memory"):
        pass
    with pytest.raises(AssertionError, match="too late"), log.step("sample"):
        pass


def test_the_order_is_the_one_of_the_design() -> None:
    assert STEP_ORDER == (
        "fingerprint",
        "build",
        "eager oracle",
        "compile",
        "accuracy",
        "turn",
        "warm up",
        "sample",
        "memory",
        "allocations",
        "energy",
        "breakdown",
        "tokens",
        "counters",
        "work",
        "kernels",
        "result",
        "shapes",
        "aligned accuracy",
    )


def test_file_is_what_it_was_when_its_content_breaks_off(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("good")
    with pytest.raises(TypeError, match="not JSON serializable"):
        write_json(path, {"a": 1, "b": object()})
    assert path.read_text() == "good"
    assert list(tmp_path.iterdir()) == [path]


def test_file_behind_a_link_is_written_and_the_link_stays(tmp_path: Path) -> None:
    link, path = tmp_path / "link", tmp_path / "out.csv"
    path.touch()
    link.symlink_to(path)
    with whole_file(link) as stream:
        stream.write(b"all")
    assert link.is_symlink()
    assert path.read_bytes() == b"all"


def test_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_json(pipe, {"a": 1})
        assert os.read(reader, 100) == b'{"a": 1}'
    finally:
        os.close(reader)
    assert pipe.is_fifo()
