from __future__ import annotations

import json
import os
import re
import signal
import threading
from pathlib import Path
from typing import Any, NoReturn

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.errors import StoreLocked
from compile_hud.db.jobs.health import load_health
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.results import Outcome, RunState
from compile_hud.db.shared.access_rules import ACCESS_VARIABLE
from compile_hud.db.shared.local_sign_in import write_link
from compile_hud.db.store import Store
from compile_hud.runner.detection.detect import DetectReport
from compile_hud.runner.errors import ExecutorError, JudgeProcessKilled
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.persistence.result_writer import ResultWriter
from compile_hud.runner.persistence.spool import DrainReport
from compile_hud.runner.scheduling.job_worker import JobWorker
from compile_hud.runner.scheduling.scheduler import scheduling
from tests.support.builders import make_run
from tests.support.fakes import FakeExecutor
from tests.support.stores.open_instances import PAUSE
from tests.support.terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("compile_hud.runner.cli.serve.dashboard_command", lambda **_: PAUSE)
    return Terminal(tmp_path)


def without_cases(text: str) -> str:
    """Return `text` without the lines of cases: the suite's selection changes now and then."""
    lines = [line for line in text.splitlines() if not re.match(r"\[ *\d+/\d+\]", line)]
    text = re.sub(r"\b\d+ cases", "N cases", "\n".join(lines))
    return re.sub(r"finished after [\d:]+", "finished after N:NN", text)


def ctrl_c(_loop: JobWorker) -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_a_new_store_starts_with_the_dashboard_and_the_quick_suite(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    result = terminal.hud("up", "--port", "0", "--exit-after-run")
    assert result.exit_code == 0
    lines = result.stderr.splitlines()
    assert lines[0].startswith("dashboard: http://127.0.0.1:")
    assert lines[1] == words
    assert lines[3] == words
    (summary,) = load_runs(terminal.store())
    assert (summary.run.suite, summary.run.trigger) == ("quick", "first run")


@pytest.mark.nightly
def test_the_scheduler_is_heard_of_while_the_first_run_goes(terminal: Terminal) -> None:
    events: list[str] = []

    def look(_order: CaseOrder) -> None:
        events.extend(item.current_job for item in load_health(terminal.store()).schedulers)

    terminal.on_execute = look
    terminal.hud("up", "--port", "0", "--exit-after-run")
    assert set(events) == {"the first run"}


@pytest.mark.nightly
def test_the_second_start_measures_nothing(terminal: Terminal) -> None:
    terminal.hud("up", "--port", "0", "--exit-after-run")
    result = terminal.hud("up", "--port", "0", "--exit-after-run")
    assert result.exit_code == 0
    assert len(result.stderr.splitlines()) == 1
    assert len(terminal.executors) == 1


def test_ctrl_c_in_the_first_run_is_continued_by_the_next_start(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    terminal.on_execute = lambda _order: os.kill(os.getpid(), signal.SIGINT)
    result = terminal.hud("up", "--port", "0")
    assert result.exit_code == 0
    assert result.stderr.splitlines()[-1] == words
    (summary,) = load_runs(terminal.store())
    assert summary.run.state is RunState.INTERRUPTED
    terminal.on_execute = lambda _order: None
    terminal.hud("up", "--port", "0", "--exit-after-run")
    (summary,) = load_runs(terminal.store())
    assert summary.run.state is RunState.FINISHED


@pytest.mark.nightly
def test_an_interrupted_first_run_of_another_torch_starts_anew(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    terminal.on_execute = lambda _order: os.kill(os.getpid(), signal.SIGINT)
    terminal.hud("up", "--port", "0")
    terminal.on_execute = lambda _order: None
    terminal.facts["torch_version"] = "2.14.0"
    terminal.clock.advance(60)
    result = terminal.hud("up", "--port", "0", "--exit-after-run")
    assert without_cases(result.stderr) == words
    assert [summary.run.state for summary in load_runs(terminal.store())] == [
        RunState.FINISHED,
        RunState.INTERRUPTED,
    ]


@pytest.mark.nightly
def test_up_stays_until_ctrl_c(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.setattr(JobWorker, "run_forever", ctrl_c)
    result = terminal.hud("up", "--port", "0")
    assert result.exit_code == 0
    assert result.stderr.splitlines()[-2:] == words


def test_up_serves_a_store_of_synthetic_runs_and_reports_that_it_takes_no_others(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    Store("duckdb:///made-up").save_run(make_run("demo", is_synthetic=True))
    result = terminal.hud("up", "--port", "0", "--exit-after-run", "--store", "made-up")
    assert result.exit_code == 0
    warnings = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    assert warnings == words


def test_nothing_is_scheduled_for_a_store_of_synthetic_runs(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    Store("duckdb:///made-up").save_run(make_run("demo", is_synthetic=True))
    result = terminal.hud("schedule", "--store", "made-up")
    assert result.exit_code == 2
    assert without_cases(result.stderr) == words


def test_the_dashboard_stays_when_the_first_run_cannot_start(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    def refuse(_executor: FakeExecutor) -> None:
        raise ExecutorError("no torch there")

    monkeypatch.setattr(FakeExecutor, "open", refuse)
    result = terminal.hud("up", "--port", "0", "--exit-after-run")
    assert result.exit_code == 0
    assert without_cases(result.stderr) == words


@pytest.mark.nightly
def test_a_second_up_leaves_the_scheduling_to_the_first(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    state_dir = terminal.folder / ".hud"
    with scheduling({}, state_dir=state_dir, wake=threading.Event()):
        result = terminal.hud("up", "--port", "0", "--exit-after-run")
    assert result.exit_code == 0
    assert without_cases(result.stderr) == words


def test_a_second_scheduler_ends_with_a_clear_line(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    with scheduling({}, state_dir=terminal.folder / ".hud", wake=threading.Event()):
        result = terminal.hud("schedule")
    assert result.exit_code == 2
    assert without_cases(result.stderr) == words


def test_schedule_reports_when_it_will_run(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.setattr(JobWorker, "run_forever", ctrl_c)
    result = terminal.hud("schedule")
    assert result.stderr.splitlines() == words
    with (terminal.folder / "hud.toml").open("a") as stream:
        stream.write('[schedules.night]\ncron = "30 2 1 1 *"\nsuite = "mine"\n')
    result = terminal.hud("schedule")
    assert result.exit_code == 0
    assert without_cases(result.stderr) == words
    assert "-01-01 02:30 UTC" in result.stderr


def test_a_taken_port_is_a_clear_line(terminal: Terminal, words: SnapshotAssertion) -> None:
    result = terminal.hud("up", "--host", "192.0.2.1", "--port", "1", "--without-sign-in")
    assert result.exit_code == 2
    assert without_cases(result.stderr) == words


@pytest.mark.parametrize("command", ["up", "serve"])
def test_listening_wider_without_sign_in_is_refused(
    command: str, terminal: Terminal, words: SnapshotAssertion
) -> None:
    result = terminal.hud(command, "--host", "0.0.0.0")
    assert result.exit_code == 2
    assert without_cases(result.stderr) == words
    assert result.stderr.count("\n") == 1


def damage_the_schedules(terminal: Terminal) -> None:
    (terminal.folder / ".hud").mkdir()
    (terminal.folder / ".hud" / "schedule.sqlite").write_bytes(b"no database" * 1000)


def test_damaged_schedules_end_schedule_with_a_clear_line(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    damage_the_schedules(terminal)
    result = terminal.hud("schedule")
    assert result.exit_code == 2
    assert without_cases(result.stderr) == words
    assert result.stderr.count("\n") == 1


@pytest.mark.nightly
def test_damaged_schedules_leave_the_dashboard(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    damage_the_schedules(terminal)
    result = terminal.hud("up", "--port", "0", "--exit-after-run")
    assert result.exit_code == 0
    assert without_cases(result.stderr) == words
    assert len(load_runs(terminal.store())) == 1


def test_ctrl_c_ends_schedule_in_good_order_at_any_time(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    def drain(_writer: ResultWriter) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(ResultWriter, "drain", drain)
    result = terminal.hud("schedule")
    assert result.exit_code == 0
    assert result.stderr.splitlines()[-1] == words


def busy(_store: Store, **_facts: object) -> DetectReport:
    raise StoreLocked("held by PID 7")


def run_unjudged(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave a regression behind that nobody has looked at."""
    terminal.hud("run", "--suite", "mine")
    terminal.clock.advance(86400)
    monkeypatch.setattr("compile_hud.runner.cli.run.after_run.detect", busy)
    monkeypatch.setattr(FakeExecutor, "ENDINGS", {"net": Outcome.FAILED})
    assert "not judged: held by PID 7" in terminal.hud("run", "--suite", "mine").stderr


@pytest.mark.nightly
@pytest.mark.parametrize("command", [["up", "--port", "0"], ["schedule"]])
def test_a_run_whose_process_died_before_judging_is_judged_by_the_next_start(
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
    words: SnapshotAssertion,
) -> None:
    run_unjudged(terminal, monkeypatch)
    monkeypatch.setattr(JobWorker, "run_forever", ctrl_c)
    assert terminal.hud(*command).stderr == words
    assert "regression: " not in terminal.hud(*command).stderr


@pytest.mark.parametrize("module", ["serve", "run.after_run"])
@pytest.mark.nightly
def test_a_judgement_whose_processes_are_ended_is_reported(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, module: str, words: SnapshotAssertion
) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise JudgeProcessKilled("ended from outside")

    monkeypatch.setattr(f"compile_hud.runner.cli.{module}.detect", fail)
    result = terminal.hud("up", "--port", "0", "--exit-after-run")
    assert result.exit_code == 0
    assert without_cases(result.stderr) == words


@pytest.mark.nightly
def test_a_store_that_cannot_be_judged_at_the_start_is_reported(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.setattr("compile_hud.runner.cli.serve.detect", busy)
    result = terminal.hud("up", "--port", "0", "--exit-after-run")
    assert result.exit_code == 0
    assert without_cases(result.stderr) == words


@pytest.mark.nightly
def test_a_store_that_takes_nothing_is_not_queried_again_to_be_judged(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("compile_hud.runner.cli.serve.detect", busy)
    monkeypatch.setattr(ResultWriter, "drain", lambda _keeper: DrainReport(error="held by PID 7"))
    result = terminal.hud("up", "--port", "0", "--exit-after-run")
    assert "not judged" not in result.stderr


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return the access settings that `hud serve` has given to its dashboards."""
    given: list[dict[str, Any]] = []

    def execve(_path: str, _command: list[str], environment: dict[str, str]) -> None:
        given.append(json.loads(environment[ACCESS_VARIABLE]))

    monkeypatch.setattr(os, "execve", execve)
    return given


@pytest.mark.parametrize(
    ("options", "is_owned"),
    [
        ([], True),
        (["--no-token"], False),
        (["--host", "0.0.0.0", "--without-sign-in"], False),
        (["--host", "::1"], True),
    ],
)
def test_the_local_user_owns_a_dashboard_on_loopback(
    options: list[str], is_owned: bool, terminal: Terminal, served: list[dict[str, Any]]
) -> None:
    assert terminal.hud("serve", "--port", "0", *options).exit_code == 0
    (settings,) = served
    assert settings.get("is_owned", False) is is_owned
    assert settings.get("shows_link", False) is is_owned


def test_a_log_gets_no_link(
    terminal: Terminal, served: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal.hud("--log-format", "json", "serve", "--port", "0")
    status = os.fstat(1)
    monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")
    terminal.hud("serve", "--port", "0")
    assert [(item["is_owned"], item["shows_link"]) for item in served] == [(True, False)] * 2


def test_sign_in_prints_the_links_of_running_dashboards(terminal: Terminal) -> None:
    error = terminal.error("sign-in")
    assert error.code == "dashboard-unavailable"
    state_dir = terminal.folder / ".hud"
    urls = [f"http://127.0.0.1:{port}/sign-in?token=t{port}" for port in (9000, 10000)]
    for port, url in zip((9000, 10000), urls, strict=True):
        write_link(state_dir, url, port=port)
    assert terminal.hud("sign-in").stdout.splitlines() == urls
    assert terminal.json("sign-in", "--json") == [{"url": url} for url in urls]
