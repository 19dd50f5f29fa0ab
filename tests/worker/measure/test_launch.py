"""One launch from its first step to its report, in this process."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from compile_hud.runner.measure import launch
from compile_hud.runner.measure.context import Context
from tests.support.nightly import daily_first
from tests.support.runs.launch_contexts import make_context


class Failing:
    """A step that fails as a driver or a kernel does."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __call__(self, *_arguments: object) -> None:
        raise self._error


@pytest.fixture
def context() -> Context:
    inputs = {"input": torch.ones(4, 8)}
    return make_context(torch.nn.Linear(8, 8), inputs, backend="eager", num_rounds=5)


@pytest.mark.parametrize(
    "error",
    daily_first(
        [RuntimeError("no pinned memory"), OSError("gone"), torch.OutOfMemoryError("out")],
        num_daily=1,
    ),
)
def test_a_step_that_only_explains_costs_no_result(
    error: Exception, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "report_energy", Failing(error))
    assert launch._measure(context).reason == ""
    assert "latency_s" in context.findings.metrics
    (warning,) = (item for item in context.findings.warnings if item.code == "no-energy")
    assert str(error) in warning.text


def test_a_step_that_measures_fails_the_launch(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "report_memory", Failing(RuntimeError("no memory")))
    with pytest.raises(RuntimeError, match="no memory"):
        launch._measure(context)


def test_an_error_of_our_own_is_not_swallowed(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "report_counters", Failing(KeyError("latency_s")))
    with pytest.raises(KeyError):
        launch._measure(context)


def test_a_full_disk_for_the_name_of_the_step_costs_no_launch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, context: Context
) -> None:
    request = replace(context.request, report_path=str(tmp_path / "report-0.json"))
    launch._write_step(request, "build")
    assert (tmp_path / "report-0.step").read_text() == "build"

    def fail(*_arguments: object, **_options: object) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(Path, "write_text", fail)
    launch._write_step(request, "compile")
    assert (tmp_path / "report-0.step").read_text() == "build"


def test_a_whole_launch_explains_itself_without_a_warning(context: Context) -> None:
    assert launch._measure(context).reason == ""
    assert [item.code for item in context.findings.warnings if item.code.startswith("no-")] == []


def test_a_launch_that_records_kernels_names_the_holders_of_memory(
    context: Context, tmp_path: Path
) -> None:
    request = replace(context.request, trace_path=str(tmp_path / "trace.json.gz"))
    context = replace(context, request=request)
    assert launch._measure(context).reason == ""
    peak = context.findings.details["memory_peak"]["peak_bytes"]
    assert context.findings.metrics["peak_bytes"].samples == (peak,)
    assert "allocations" in [step["name"] for step in context.log.entries]


def test_a_launch_without_kernels_has_no_step_for_allocations(context: Context) -> None:
    assert launch._measure(context).reason == ""
    assert "memory_peak" not in context.findings.details
    assert "allocations" not in [step["name"] for step in context.log.entries]
