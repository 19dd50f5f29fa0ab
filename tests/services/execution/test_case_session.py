"""A case during its execution, with a host that answers at once."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import Outcome
from compile_hud.runner.execution.case_session import LocalSession
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.launch_aggregation import DISK_FULL, Ending
from compile_hud.runner.execution.worker_process import WorkerHost, package_links
from compile_hud.runner.persistence.compile_traces import CompileTraces
from compile_hud.runner.protocol.files import write_json
from compile_hud.runner.protocol.messages import LaunchReport, MeasureSettings, RawMetric, Workload
from tests.support.builders import make_case
from tests.support.fakes import FakeClock

REPORT = LaunchReport(
    outcome=Outcome.OK, metrics={"latency_s": RawMetric(samples=(1.0,) * 8, method="clock")}
)


class FakeHost(WorkerHost):
    """A host whose launches last `launch_s` of a time that nobody waits for."""

    def __init__(self, launch_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self.launch_s = launch_s
        monkeypatch.setattr(
            "compile_hud.runner.execution.case_session.time.monotonic", lambda: self.now_s
        )

    def wait_ready(self) -> None:
        """Be ready."""

    def ask(self, order: dict[str, Any], *, log: Path, timeout_s: float) -> Ending:
        """Write the report of the launch, unless it would take longer than it may."""
        del log
        self.now_s += min(self.launch_s, timeout_s)
        if self.launch_s > timeout_s:
            return Ending(text="timeout")
        write_json(Path(order["request"]["report_path"]), REPORT.to_json())
        return Ending(text="exit 0")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "case"
    path.mkdir()
    yield path
    assert not path.exists()


def session(
    host: WorkerHost, folder: Path, *, traces: CompileTraces | None = None, **settings: Any
) -> LocalSession:
    order = CaseOrder(
        run_id="run",
        case=make_case(),
        workload=Workload(
            build="compile_hud.models_zoo.encoders.bert", config={}, num_samples=1, num_tokens=None
        ),
        settings=replace(MeasureSettings(), **settings),
    )
    return LocalSession(
        order,
        host=host,
        folder=folder,
        now=FakeClock(),
        is_cancelled=lambda: False,
        compile_traces=traces,
    )


def executed(case_session: LocalSession) -> Any:
    while case_session.needs_launch:
        case_session.launch()
    result = case_session.finish()
    case_session.close()
    return result


@pytest.mark.parametrize(("timeout_s", "num_launches"), [(19.0, 1), (29.0, 2)])
def test_launches_that_are_done_survive_a_time_limit(
    timeout_s: float, num_launches: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = executed(session(FakeHost(10.0, monkeypatch), folder, timeout_s=timeout_s))
    assert result.outcome is Outcome.OK
    assert result.details["num_launches"] == num_launches
    (warning,) = (item for item in result.warnings if item.code == "few-launches")
    assert f"{num_launches} of 3 launches" in warning.text


def test_launches_that_fit_are_not_called_few(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = executed(session(FakeHost(10.0, monkeypatch), folder, timeout_s=30.0))
    assert result.details["num_launches"] == 3
    assert [item.code for item in result.warnings] == []


def test_every_look_at_a_session_gives_the_result_the_same_id(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case_session = session(FakeHost(10.0, monkeypatch), folder)
    ids = set()
    for _ in range(2):
        case_session.launch()
        ids.add(case_session.finish().id)
    case_session.close()
    assert len(ids) == 1


def test_a_session_that_is_ended_early_blames_no_time_limit(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case_session = session(FakeHost(10.0, monkeypatch), folder)
    case_session.launch()
    result = case_session.finish()
    case_session.close()
    assert [item.code for item in result.warnings] == []


def test_a_first_launch_that_takes_too_long_is_a_timeout(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = executed(session(FakeHost(10.0, monkeypatch), folder, timeout_s=5.0))
    assert result.outcome is Outcome.TIMEOUT
    assert result.warnings == ()


@pytest.mark.parametrize(("free_bytes", "is_blamed"), [(1000, True), (10**9, False)])
def test_a_launch_that_fails_on_a_full_disk_blames_the_disk(
    free_bytes: int,
    is_blamed: bool,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    words: SnapshotAssertion,
) -> None:
    host = FakeHost(10.0, monkeypatch)
    monkeypatch.setattr(host, "ask", lambda *_args, **_options: Ending(text="exit 1"))
    usage = shutil.disk_usage(folder)._replace(free=free_bytes)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    result = executed(session(host, folder))
    assert result.outcome is Outcome.FAILED
    assert (result.details.get("ended_by") == DISK_FULL) is is_blamed
    assert (str(folder.parent) in result.reason) is is_blamed
    assert result.reason == words


def test_links_of_an_earlier_version_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "packages"
    folder.mkdir()
    for name in ("db", "models_zoo", "runner"):
        (folder / name).symlink_to(tmp_path)
    assert package_links(tmp_path) == folder
    assert [path.name for path in folder.iterdir()] == ["compile_hud"]


class TracingHost(FakeHost):
    """A host whose launches write the log of the compiler that they are asked for."""

    requests: list[dict[str, Any]]

    def ask(self, order: dict[str, Any], *, log: Path, timeout_s: float) -> Ending:
        """Write report and log."""
        self.requests = [*getattr(self, "requests", []), order["request"]]
        if trace := order["request"]["compile_trace_dir"]:
            Path(trace).mkdir(parents=True)
            Path(trace, "trace.log").touch()
        return super().ask(order, log=log, timeout_s=timeout_s)


@pytest.mark.parametrize(("policy", "num_traced"), [("always", 1), ("failed", 0), ("never", 0)])
def test_a_chosen_case_compiles_once_more_after_its_launches(
    policy: str,
    num_traced: int,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = TracingHost(10.0, monkeypatch)
    traces = CompileTraces(tmp_path / "traces", which=lambda _name: None)
    case_session = session(host, folder, traces=traces, compile_trace=policy)
    while case_session.needs_launch:
        case_session.launch()
    first, second = case_session.finish(), case_session.finish()
    case_session.close()
    assert first.details == second.details
    assert first.details["num_launches"] == 3
    traced = [request for request in host.requests if request["compile_trace_dir"]]
    assert len(traced) == len(host.requests) - 3 == num_traced
    assert ("compile_trace" in first.details) is bool(num_traced)
    for request in traced:
        assert request["cache_state"] == "cold"
        assert request["cache_dir"] not in [other["cache_dir"] for other in host.requests[:3]]
        assert first.details["compile_trace"] == {"folder": request["compile_trace_dir"]}


def test_no_time_is_left_for_a_log(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    traces = CompileTraces(tmp_path / "traces", which=lambda _name: None)
    host = FakeHost(10.0, monkeypatch)
    settings = {"compile_trace": "always", "timeout_s": 30.0}
    result = executed(session(host, folder, traces=traces, **settings))
    assert "compile_trace" not in result.details
    (warning,) = result.warnings
    assert (warning.code, "30 s" in warning.text) == ("no-compile-trace", True)


class FailingTraceHost(FakeHost):
    """A host whose traced launch ends without a log, with or without a report."""

    report: LaunchReport | None = None

    def ask(self, order: dict[str, Any], *, log: Path, timeout_s: float) -> Ending:
        """Write no log of the compiler."""
        if not order["request"]["compile_trace_dir"]:
            return super().ask(order, log=log, timeout_s=timeout_s)
        if self.report is None:
            return Ending(text="exit 1")
        write_json(Path(order["request"]["report_path"]), self.report.to_json())
        return Ending(text="exit 0")


@pytest.mark.parametrize(
    ("report", "reason"),
    [
        (None, "failed"),
        (LaunchReport(outcome=Outcome.FAILED, reason="no such operator"), "no such operator"),
        (LaunchReport(outcome=Outcome.OK), "this torch"),
    ],
)
def test_a_traced_launch_without_a_log_is_a_warning(
    report: LaunchReport | None,
    reason: str,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host = FailingTraceHost(10.0, monkeypatch)
    host.report = report
    traces = CompileTraces(tmp_path / "traces", which=lambda _name: None)
    case_session = session(host, folder, traces=traces, compile_trace="always")
    while case_session.needs_launch:
        case_session.launch()
    first, second = case_session.finish(), case_session.finish()
    case_session.close()
    assert first.warnings == second.warnings
    (warning,) = first.warnings
    assert warning.code == "no-compile-trace"
    assert reason in warning.text
    assert first.outcome is Outcome.OK
