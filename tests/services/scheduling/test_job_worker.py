"""Jobs that meet trouble, and what is known of them meanwhile."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import threading
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.errors import StoreLocked
from compile_hud.db.jobs.health import load_health
from compile_hud.db.jobs.queue import JobState
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.results import RunDocument, RunState
from compile_hud.db.records.triage import Revision
from compile_hud.db.store import Store
from compile_hud.runner.analysis.alerts.triage import TriageDecision
from compile_hud.runner.cli.serve import make_watches
from compile_hud.runner.config.schedules import ExecutorKind, Watch, WatchKind
from compile_hud.runner.errors import (
    DeviceUnavailable,
    ExecutorError,
    RunInterrupted,
    ToolchainError,
)
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.run_requests import RunRequest
from compile_hud.runner.scheduling.job_worker import JobRunner, JobWorker
from compile_hud.runner.scheduling.scheduler import scheduling
from compile_hud.runner.system.interrupts import Interrupts
from compile_hud.runner.system.machine import ProgramOutput
from tests.support.builders import make_alert, make_run
from tests.support.fakes import FakeExecutor, FakeMachine, make_catalog
from tests.support.runs.bisection import git
from tests.support.runs.job_queue import NIGHT, REQUEST, JobSandbox
from tests.support.runs.runs import wait_until


@pytest.fixture
def sandbox(tmp_path: Path) -> JobSandbox:
    return JobSandbox(tmp_path)


def lose_the_device(sandbox: JobSandbox, *, times: int) -> None:
    """As a driver that dies in the second case, and is back after so many attempts."""
    orders: list[CaseOrder] = []

    def on_execute(order: CaseOrder) -> None:
        orders.append(order)
        if 1 < len(orders) <= 1 + times:
            raise DeviceUnavailable("the device cpu is lost")

    sandbox.executor.on_execute = on_execute


def test_a_job_whose_device_is_lost_goes_on_later_in_the_same_run(
    sandbox: JobSandbox, words: SnapshotAssertion
) -> None:
    lose_the_device(sandbox, times=2)
    sandbox.requests.write(REQUEST)
    waited_s = []
    for _ in range(3):
        assert sandbox.loop.run_queued() == ""
        open_jobs = load_health(sandbox.store).open_jobs
        if open_jobs:
            assert open_jobs[0].reason == words
            assert open_jobs[0].due_at is not None
            waited_s.append((open_jobs[0].due_at - sandbox.clock()).total_seconds())
            sandbox.clock.advance(waited_s[-1] - 1)
            sandbox.loop.run_queued()
            assert load_health(sandbox.store).open_jobs == open_jobs
            sandbox.clock.advance(1)
    assert waited_s == [300.0, 900.0]
    (summary,) = load_runs(sandbox.store)
    assert summary.run.state is RunState.FINISHED
    assert sandbox.executor.executed == [case.key for case in summary.run.plan]
    assert [document.run.id for document in sandbox.judged] == [summary.run.id]


def test_a_job_is_given_up_after_three_attempts_and_has_a_reason(
    sandbox: JobSandbox,
    words: SnapshotAssertion,
) -> None:
    lose_the_device(sandbox, times=99)
    sandbox.requests.write(REQUEST)
    for _ in range(4):
        sandbox.loop.run_queued()
        sandbox.clock.advance(3600)
    (job,) = load_health(sandbox.store).ended_jobs
    assert (job.state, job.num_attempts) == (JobState.FAILED, 3)
    assert job.reason == words
    assert sandbox.messages()[-1] == words


def test_a_suite_that_does_not_exist_is_not_tried_again(sandbox: JobSandbox) -> None:
    sandbox.requests.write(dataclasses.replace(REQUEST, suite="mien"))
    sandbox.loop.run_queued()
    (job,) = load_health(sandbox.store).ended_jobs
    assert (job.num_attempts, job.reason[:16]) == (1, "no suite 'mien'.")


def test_a_suite_with_an_unknown_model_names_its_setting(sandbox: JobSandbox) -> None:
    config = dataclasses.replace(sandbox.workspace.config, catalog=make_catalog("vit"))
    workspace = dataclasses.replace(sandbox.workspace, config=config)
    sandbox.requests.write(REQUEST)
    sandbox.with_services(workspace=workspace).run_queued()
    (job,) = load_health(sandbox.store).ended_jobs
    assert job.reason.startswith("hud.toml: [suites.mine] models: ")
    assert not sandbox.executor.executed


def test_the_loop_reports_what_it_works_on(sandbox: JobSandbox) -> None:
    seen: list[str] = []
    sandbox.executor.on_execute = lambda _order: seen.append(sandbox.loop.current_job())
    sandbox.requests.write(REQUEST)
    sandbox.loop.run_queued()
    assert set(seen) == {"job night 2026-01-01T02:30"}
    assert sandbox.loop.current_job() == ""


class FakeEngine:
    """A cluster of two machines, the first plan of which is interrupted."""

    def __init__(self, sandbox: JobSandbox) -> None:
        self.orders: list[RunRequest] = []
        self.judged: list[list[RunDocument]] = []
        self._place = sandbox

    def measure(self, order: RunRequest) -> list[RunDocument]:
        """Store a run of each machine; both began at one moment."""
        self.orders.append(order)
        state = RunState.FINISHED if order.resume_id else RunState.INTERRUPTED
        documents = []
        for machine in ("alpha", "beta"):
            run = make_run(machine, machine=machine, trigger=order.trigger, state=state)
            self._place.store.save_run(run)
            documents.append(RunDocument(run=run, results=()))
        return documents

    def judge(self, *documents: RunDocument) -> None:
        """Remember what was judged together."""
        self.judged.append(list(documents))


def test_a_schedule_may_ask_for_the_cluster_and_goes_on_there(sandbox: JobSandbox) -> None:
    engine = FakeEngine(sandbox)
    night = dataclasses.replace(NIGHT, executor=ExecutorKind.RAY, device="cpu")
    cluster = JobRunner(measure=engine.measure, judge=engine.judge)
    loop = sandbox.with_night(night, cluster=cluster)
    sandbox.requests.write(REQUEST)
    with pytest.raises(RunInterrupted):
        loop.run_queued()
    sandbox.store.put_job_back(
        load_health(sandbox.store).open_jobs[0].id, due_at=sandbox.clock(), reason="stopped"
    )
    loop.run_queued()
    assert [(order.device, order.resume_id) for order in engine.orders] == [
        ("cpu", None),
        ("cpu", "alpha"),
    ]
    ((first, second),) = engine.judged
    assert (first.run.machine, second.run.machine) == ("alpha", "beta")
    assert [job.state for job in load_health(sandbox.store).ended_jobs] == ["done"]
    assert sandbox.executor.executed == []


def test_a_toolchain_that_is_built_first_is_built_once_a_job(sandbox: JobSandbox) -> None:
    built: list[str] = []
    night = dataclasses.replace(NIGHT, build=True)
    config = dataclasses.replace(sandbox.workspace.config, schedules={"night": night})
    workspace = dataclasses.replace(sandbox.workspace, config=config)
    loop = sandbox.with_services(workspace=workspace, build_toolchain=built.append)
    lose_the_device(sandbox, times=1)
    sandbox.requests.write(REQUEST)
    loop.run_queued()
    sandbox.clock.advance(300)
    loop.run_queued()
    assert [item.state for item in load_health(sandbox.store).ended_jobs] == ["done"]
    assert built == ["current"]
    by_hand = dataclasses.replace(REQUEST, dedupe_key="by hand", trigger="manual")
    sandbox.requests.write(by_hand)
    loop.run_queued()
    assert built == ["current"]


def test_a_toolchain_that_cannot_be_built_is_tried_again(sandbox: JobSandbox) -> None:
    def fail(name: str) -> None:
        raise ToolchainError(f"cannot build {name}")

    night = dataclasses.replace(NIGHT, build=True)
    config = dataclasses.replace(sandbox.workspace.config, schedules={"night": night})
    workspace = dataclasses.replace(sandbox.workspace, config=config)
    sandbox.requests.write(REQUEST)
    sandbox.with_services(workspace=workspace, build_toolchain=fail).run_queued()
    (job,) = load_health(sandbox.store).open_jobs
    assert job.reason == "cannot build current"
    assert sandbox.executor.executed == []


@pytest.mark.parametrize(("is_coalesced", "num_jobs"), [(False, 3), (True, 1)])
def test_times_that_were_missed_are_made_up_for_as_the_schedule_reports(
    tmp_path: Path, *, is_coalesced: bool, num_jobs: int
) -> None:
    wake = threading.Event()
    hourly = dataclasses.replace(
        NIGHT, cron="0 * * * *", coalesce=is_coalesced, catch_up_s=3 * 3600
    )
    hour = datetime.now(timezone.utc).replace(minute=0, second=0, microsecond=0)
    with scheduling({"night": hourly}, state_dir=tmp_path, wake=wake) as scheduler:
        scheduler.pause()
        scheduler.modify_job("night", next_run_time=hour - timedelta(hours=5))
    with scheduling({"night": hourly}, state_dir=tmp_path, wake=wake):
        assert wake.wait(60)
        wait_until(lambda: len(list((tmp_path / "jobs").glob("*.json"))) >= num_jobs)
    # It has ended, and with it whatever would still have fired.
    assert len(list((tmp_path / "jobs").glob("*.json"))) == num_jobs


def test_a_commit_is_measured_once_and_so_is_the_next_one(
    sandbox: JobSandbox, tmp_path: Path
) -> None:
    repository = tmp_path / "ours"
    repository.mkdir()
    git(repository, "init", "--quiet")
    git(repository, "commit", "--allow-empty", "--message", "one")
    watch = Watch(kind=WatchKind.GIT, url=str(repository))
    night = dataclasses.replace(NIGHT, cron="", watch=watch, every_s=60.0)
    config = dataclasses.replace(sandbox.workspace.config, schedules={"night": night})
    workspace = dataclasses.replace(sandbox.workspace, config=config)
    num_runs: list[int] = []

    def turn() -> None:
        num_runs.append(len(load_runs(sandbox.store)))
        if len(num_runs) == 2:
            git(repository, "commit", "--allow-empty", "--message", "two")
        if len(num_runs) == 4:
            raise RunInterrupted("enough")
        sandbox.clock.advance(60)
        sandbox.loop.wake.set()

    wake = sandbox.loop.wake
    with scheduling({}, state_dir=config.state_dir, wake=wake) as scheduler:
        loop = dataclasses.replace(
            sandbox.with_services(workspace=workspace, check_interrupt=turn),
            scheduler=scheduler,
            watches=make_watches(workspace, scheduler, notify=sandbox.events.append),
        )
        with pytest.raises(RunInterrupted):
            loop.run_forever()
    assert num_runs == [1, 1, 2, 2]


def decide(opened: Revision, _alerts: tuple[Alert, ...]) -> TriageDecision:
    return TriageDecision(alerts=(opened.alert,), revisions=(opened,))


def test_a_budget_is_spent_on_the_most_informative_cases(sandbox: JobSandbox) -> None:
    config = sandbox.workspace.config
    suite = dataclasses.replace(config.suites["mine"], time_budget_s=5.0)
    config = dataclasses.replace(config, suites={"mine": suite})
    workspace = dataclasses.replace(sandbox.workspace, config=config)
    loop = dataclasses.replace(sandbox.loop, workspace=workspace)
    for night in range(3):
        if night == 1:
            # Measured an hour ago, while the other one was never measured; and yet its turn.
            case = next(iter(load_runs(sandbox.store))).run.plan[0]
            opened = Revision(alert=make_alert(case=case))
            sandbox.store.revise_alerts(partial(decide, opened), by="judge")
        sandbox.requests.write(dataclasses.replace(REQUEST, dedupe_key=f"night {night}"))
        loop.run_queued()
        sandbox.clock.advance(3600)
    keys = [key.split("/")[4] for key in sandbox.executor.executed]
    assert keys == ["eager", "eager", "eager"]


def no_room(*_args: object) -> None:
    raise OSError(28, "No space left on device")


def lock_the_store(
    sandbox: JobSandbox, monkeypatch: pytest.MonkeyPatch, *, is_disk_full: bool = False
) -> None:
    """As another program that opens the store while a case is measured, and keeps it."""

    def locked(*_args: object, **_options: object) -> None:
        raise StoreLocked("held by PID 7")

    def on_execute(_order: CaseOrder) -> None:
        sandbox.executor.on_execute = lambda _order: None
        for name in ("ingest", "save_run", "finish_job", "put_job_back"):
            monkeypatch.setattr(Store, name, locked)
        if is_disk_full:
            monkeypatch.setattr("compile_hud.runner.persistence.spool.write_json", no_room)

    sandbox.executor.on_execute = on_execute


def test_a_job_that_ends_while_the_store_is_locked_is_over_when_it_is_free(
    sandbox: JobSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.requests.write(REQUEST)
    with monkeypatch.context() as patched:
        lock_the_store(sandbox, patched)
        sandbox.loop.run_queued()
        assert sandbox.loop.run_queued() == "held by PID 7"
        (job,) = load_health(sandbox.store).open_jobs
        assert job.state == "leased"
    sandbox.judged.clear()
    assert sandbox.loop.run_queued() == ""
    (job,) = load_health(sandbox.store).ended_jobs
    (summary,) = load_runs(sandbox.store)
    assert (job.state, job.run_id, summary.run.state) == ("done", summary.run.id, "finished")
    # All that it measured has been judged.
    assert [len(document.results) for document in sandbox.judged] == [2]


def test_a_job_that_is_put_back_while_the_store_is_full_goes_on_when_it_is_not(
    sandbox: JobSandbox, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    sandbox.requests.write(REQUEST)
    with monkeypatch.context() as patched:
        lock_the_store(sandbox, patched, is_disk_full=True)
        sandbox.loop.run_queued()
    assert sandbox.loop.run_queued() == ""
    (job,) = load_health(sandbox.store).open_jobs
    assert job.state is JobState.QUEUED
    assert job.reason == words
    sandbox.clock.advance(300)
    sandbox.loop.run_queued()
    (job,) = load_health(sandbox.store).ended_jobs
    assert (job.state, job.num_attempts) == ("done", 2)


def test_a_run_that_waits_in_the_spool_is_not_measured_again_by_the_next_start(
    sandbox: JobSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox.requests.write(REQUEST)
    with monkeypatch.context() as patched:
        lock_the_store(sandbox, patched)
        sandbox.loop.run_queued()
    sandbox.executor.executed.clear()
    sandbox.loop.pending_updates.clear()
    monkeypatch.setattr("compile_hud.db.jobs.queue.is_gone", lambda _holder: True)
    assert sandbox.loop.run_queued() == ""
    assert sandbox.executor.executed == []
    assert [summary.run.state for summary in load_runs(sandbox.store)] == [RunState.FINISHED]


def test_an_unreadable_file_of_the_spool_is_reported_once(sandbox: JobSandbox) -> None:
    path = sandbox.workspace.spool().directory / "half.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{")
    sandbox.requests.write(REQUEST)
    assert sandbox.loop.run_queued() == ""
    message = f"set aside {path.parent / 'broken' / path.name}: half.json is not whole JSON"
    assert [text.startswith(message) for text in sandbox.messages() if "half.json" in text] == [
        True
    ]


def with_gpu(sandbox: JobSandbox, missing: set[str]) -> JobWorker:
    """Return the loop of `sandbox` on a machine with a GPU; what is in `lost` does not answer."""

    class Losable(FakeExecutor):
        device = ""

        def open(self) -> Mapping[str, Any]:
            if self.device in missing:
                raise ExecutorError(f"cannot measure on {self.device}: GPU is lost")
            return super().open()

    def make_executor(*, device: str, **_: object) -> FakeExecutor:
        executor = Losable(clock=sandbox.clock)
        executor.device = device
        return executor

    dependencies = dataclasses.replace(
        sandbox.workspace.dependencies, has_gpu=lambda: True, make_executor=make_executor
    )
    return dataclasses.replace(
        sandbox.loop, workspace=dataclasses.replace(sandbox.workspace, dependencies=dependencies)
    )


def run_night(loop: JobWorker, sandbox: JobSandbox, key: str) -> None:
    sandbox.requests.write(dataclasses.replace(REQUEST, dedupe_key=key))
    loop.run_queued()


def test_a_suite_that_was_on_the_gpu_does_not_go_to_the_cpu_when_the_gpu_is_lost(
    sandbox: JobSandbox, words: SnapshotAssertion
) -> None:
    missing: set[str] = set()
    loop = with_gpu(sandbox, missing)
    run_night(loop, sandbox, "a")
    missing.add("cuda")
    run_night(loop, sandbox, "b")
    (job,) = load_health(sandbox.store).open_jobs
    assert job.reason == words
    missing.clear()
    sandbox.clock.advance(300)
    loop.run_queued()
    devices = [summary.run.plan[0].device for summary in load_runs(sandbox.store)]
    assert devices == ["cuda", "cuda"]


def test_a_run_waits_for_a_busy_gpu_and_each_result_names_its_user(
    sandbox: JobSandbox,
    words: SnapshotAssertion,
) -> None:
    loop, waited_s = with_gpu(sandbox, set()), []
    gpu, user = "0, GPU-a, Fake GPU, 570, Enabled, Disabled, 700, 700, 1980", "GPU-a, 7, python3"
    machine = FakeMachine(
        replies={
            "--query-gpu": ProgramOutput(text=gpu),
            "--query-compute-apps": ProgramOutput(text=user),
        }
    )

    def sleep(seconds: float) -> None:
        waited_s.append(seconds)
        sandbox.clock.advance(seconds)

    dependencies = dataclasses.replace(loop.workspace.dependencies, machine=machine, sleep=sleep)
    workspace = dataclasses.replace(loop.workspace, dependencies=dependencies)
    run_night(dataclasses.replace(loop, workspace=workspace), sandbox, "a")
    assert sum(waited_s) == workspace.config.wait_idle_s
    (document,) = sandbox.judged
    texts = [warning.text for result in document.results for warning in result.warnings]
    assert texts == words


def test_a_suite_that_was_never_on_the_gpu_is_measured_where_it_can_be(sandbox: JobSandbox) -> None:
    loop = with_gpu(sandbox, {"cuda"})
    for key in ("a", "b"):
        run_night(loop, sandbox, key)
    devices = [summary.run.plan[0].device for summary in load_runs(sandbox.store)]
    assert devices == ["cpu", "cpu"]


def test_nothing_is_sent_while_the_store_does_not_answer(
    sandbox: JobSandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    troubles = iter(["held by PID 7", "", "held by PID 7"])

    def run_queued(loop: JobWorker) -> str:
        loop.wake.set()
        error = next(troubles, None)
        if error is None:
            raise RunInterrupted("stopped")
        done.append(error)
        return error

    monkeypatch.setattr(JobWorker, "run_queued", run_queued)
    loop = sandbox.with_services(send_notifications=lambda: done.append("sent"))
    with pytest.raises(RunInterrupted, match="stopped"):
        loop.run_forever()
    assert done == ["held by PID 7", "", "sent", "held by PID 7"]


def test_a_signal_that_a_library_swallowed_ends_the_loop_all_the_same(
    sandbox: JobSandbox, words: SnapshotAssertion
) -> None:
    def swallow() -> None:
        with contextlib.suppress(Exception):
            signal.raise_signal(signal.SIGTERM)

    with Interrupts() as interrupts:
        loop = sandbox.with_services(send_notifications=swallow, check_interrupt=interrupts.check)
        with pytest.raises(RunInterrupted) as caught:
            loop.run_forever()
        assert str(caught.value) == words
