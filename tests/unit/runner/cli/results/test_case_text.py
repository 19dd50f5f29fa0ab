from __future__ import annotations

import io
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from rich.console import Console

from compile_hud.db.records.imported import IMPORTED_DETAILS
from compile_hud.db.records.results import Outcome
from compile_hud.runner.cli.results import case_text
from compile_hud.runner.cli.results.case_text import measurement_rows, print_case
from tests.support.builders import make_measurement, make_result

TRACEBACK = """Traceback (of the model's own code):
  File "/models/bench.py", line 9, in forward
RuntimeError: no \x1b[31m"""

IMPORTED: dict[str, Any] = {IMPORTED_DETAILS: {}}


@pytest.mark.parametrize(
    ("samples", "interval", "text"),
    [
        ((0.01, 0.02, 0.03), (0.01, 0.03), "[10.0 ms, 30.0 ms]"),
        ((0.01, 0.01), (0.01, 0.01), "[10.0 ms, 10.0 ms]"),
        ((0.01,), (0.01, 0.01), "-"),
        # What follows from several measurements is one number with an interval.
        ((0.02,), (0.01, 0.03), "[10.0 ms, 30.0 ms]"),
    ],
)
def test_a_number_stands_with_its_interval_where_it_has_one(
    samples: tuple[float, ...], interval: tuple[float, float], text: str
) -> None:
    (row,) = measurement_rows([make_measurement(samples=samples, interval=interval)])
    assert row[2] == text


@pytest.mark.parametrize("outcome", [Outcome.FAILED, Outcome.OK])
def test_a_case_that_is_not_ok_is_shown_with_the_end_of_its_log(
    monkeypatch: pytest.MonkeyPatch, outcome: Outcome
) -> None:
    output = io.StringIO()
    console = Console(file=output, width=200, color_system=None)
    monkeypatch.setattr(case_text, "stdout", lambda: console)
    print_case(replace(make_result(outcome=outcome), log_tail=f"{TRACEBACK}\n"))
    text = output.getvalue()
    assert text.endswith("RuntimeError: no ?[31m\n") == (outcome is Outcome.FAILED)
    assert ("Traceback" in text) == (outcome is Outcome.FAILED)


@pytest.mark.parametrize(
    ("runtime", "text"),
    [
        (
            {"name": "onnxruntime", "version": "1.32.0", "providers": ["A", "B"], "num_threads": 2},
            "runtime    onnxruntime 1.32.0: providers A B, num_threads 2\n",
        ),
        ({"name": "openvino", "version": "2026.4"}, "runtime    openvino 2026.4\n"),
        ({}, ""),
        (None, ""),
    ],
)
def test_another_runtime_is_reported_with_what_it_ran_with(
    monkeypatch: pytest.MonkeyPatch, runtime: object, text: str
) -> None:
    output = io.StringIO()
    console = Console(file=output, width=200, color_system=None)
    monkeypatch.setattr(case_text, "stdout", lambda: console)
    print_case(make_result(details={"runtime": runtime}))
    shown = output.getvalue()
    assert ("runtime" in shown) == bool(text)
    assert text in shown


@pytest.mark.parametrize(
    ("details", "text"), [({}, "took       1.00 s\n"), (IMPORTED, "took       not known\n")]
)
def test_how_long_an_imported_case_took_is_not_known(
    monkeypatch: pytest.MonkeyPatch, details: dict[str, Any], text: str
) -> None:
    output = io.StringIO()
    console = Console(file=output, width=200, color_system=None)
    monkeypatch.setattr(case_text, "stdout", lambda: console)
    result = make_result(details=details)
    print_case(replace(result, finished_at=result.started_at + timedelta(seconds=1)))
    assert text in output.getvalue()
