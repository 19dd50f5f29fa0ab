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

from compile_hud.db.errors import StoreLocked
from compile_hud.db.jobs.health import load_health
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.results import RunDocument, RunState
from compile_hud.db.records.triage import Revision
from compile_hud.db.store import Store
from compile_hud.runner.analysis.alerts.triage import Decision
from compile_hud.runner.cli.serve import make_watches
from compile_hud.runner.config.schedules import ExecutorKind, Watch, WatchKind
from compile_hud.runner.errors import (
    DeviceLost,
    ExecutorError,
    RunInterrupted,
    ToolchainError,
)
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.run_requests import RunRequest
from compile_hud.runner.scheduling.job_worker import JobRunner, JobWorker
from compile_hud.runner.scheduling.scheduler import scheduling
from compile_hud.runner.system.interrupts import Interrupts
from compile_hud.runner.system.machine import Reply
from tests.support.builders import make_alert, make_run
from tests.support.fakes import FakeExecutor, FakeMachine
from tests.support.runs.bisection import git
from tests.support.runs.job_queue import NIGHT, REQUEST, Place
from tests.support.runs.runs import wait_until


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def lose_the_device(place: Place, *, times: int) -> None:
    """As a driver that dies in the second case, and is back after so many attempts."""
    seen: list[CaseOrder] = []

    def on_execute(order: CaseOrder) -> None:
        seen.append(order)
        if 1 < len(seen) <= 1 + times:
            raise DeviceLost("the device cpu is lost")

    place.executor.on_execute = on_execute


def test_a_job_whose_device_is_lost_goes_on_later_in_the_same_run(place: Place) -> None:
    lose_the_device(place, times=2)
    place.requests.write(REQUEST)
    waited_s = []
    for _ in range(3):
        assert place.loop.run_queued() == ""
        open_jobs = load_health(place.store).open_jobs
        if open_jobs:
            assert open_jobs[0].reason == "the device cpu is lost"
            assert open_jobs[0].due_at is not None
            waited_s.append((open_jobs[0].due_at - place.clock()).total_seconds())
            place.clock.advance(waited_s[-1] - 1)
            place.loop.run_queued()
            assert load_health(place.store).open_jobs == open_jobs
            place.clock.advance(1)
    assert waited_s == [300.0, 900.0]
    (summary,) = load_runs(place.store)
    assert summary.run.state is RunState.FINISHED
    assert place.executor.executed == [case.key for case in summary.run.plan]
    assert [document.run.id for document in place.judged] == [summary.run.id]


def test_a_job_is_given_up_after_three_attempts_and_says_why(place: Place) -> None:
    lose_the_device(place, times=99)
    place.requests.write(REQUEST)
    for _ in range(4):
        place.loop.run_queued()
        place.clock.advance(3600)
    (job,) = load_health(place.store).ended_jobs
    assert (job.state, job.num_attempts, job.reason) == ("failed", 3, "the device cpu is lost")
    assert any("failed 3 times: the device cpu is lost" in text for text in place.said())


def test_a_suite_that_does_not_exist_is_not_tried_again(place: Place) -> None:
    place.requests.write(dataclasses.replace(REQUEST, suite="mien"))
    place.loop.run_queued()
    (job,) = load_health(place.store).ended_jobs
    assert (job.num_attempts, job.reason[:16]) == (1, "no suite 'mien'.")


def test_the_loop_tells_what_it_works_on(place: Place) -> None:
    seen: list[str] = []
    place.executor.on_execute = lambda _order: seen.append(place.loop.current_job())
    place.requests.write(REQUEST)
    place.loop.run_queued()
    assert set(seen) == {"job night 2026-01-01T02:30"}
    assert place.loop.current_job() == ""


class FakeEngine:
    """A cluster of two machines, the first plan of which is interrupted."""

    def __init__(self, place: Place) -> None:
        self.orders: list[RunRequest] = []
        self.judged: list[list[RunDocument]] = []
        self._place = place

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


def test_a_schedule_may_ask_for_the_cluster_and_goes_on_there(place: Place) -> None:
    engine = FakeEngine(place)
    night = dataclasses.replace(NIGHT, executor=ExecutorKind.RAY, device="cpu")
    cluster = JobRunner(measure=engine.measure, judge=engine.judge)
    loop = place.with_night(night, cluster=cluster)
    place.requests.write(REQUEST)
    with pytest.raises(RunInterrupted):
        loop.run_queued()
    place.store.put_job_back(
        load_health(place.store).open_jobs[0].id, due_at=place.clock(), reason="stopped"
    )
    loop.run_queued()
    assert [(order.device, order.resume_id) for order in engine.orders] == [
        ("cpu", None),
        ("cpu", "alpha"),
    ]
    ((first, second),) = engine.judged
    assert (first.run.machine, second.run.machine) == ("alpha", "beta")
    assert [job.state for job in load_health(place.store).ended_jobs] == ["done"]
    assert place.executor.executed == []


def test_a_toolchain_that_is_built_first_is_built_once_a_job(place: Place) -> None:
    built: list[str] = []
    night = dataclasses.replace(NIGHT, build=True)
    config = dataclasses.replace(place.workspace.config, schedules={"night": night})
    workspace = dataclasses.replace(place.workspace, config=config)
    loop = place.with_services(workspace=workspace, build_toolchain=built.append)
    lose_the_device(place, times=1)
    place.requests.write(REQUEST)
    loop.run_queued()
    place.clock.advance(300)
    loop.run_queued()
    assert [item.state for item in load_health(place.store).ended_jobs] == ["done"]
    assert built == ["current"]
    by_hand = dataclasses.replace(REQUEST, dedupe_key="by hand", trigger="manual")
    place.requests.write(by_hand)
    loop.run_queued()
    assert built == ["current"]


def test_a_toolchain_that_cannot_be_built_is_tried_again(place: Place) -> None:
    def fail(name: str) -> None:
        raise ToolchainError(f"cannot build {name}")

    night = dataclasses.replace(NIGHT, build=True)
    config = dataclasses.replace(place.workspace.config, schedules={"night": night})
    workspace = dataclasses.replace(place.workspace, config=config)
    place.requests.write(REQUEST)
    place.with_services(workspace=workspace, build_toolchain=fail).run_queued()
    (job,) = load_health(place.store).open_jobs
    assert job.reason == "cannot build current"
    assert place.executor.executed == []


@pytest.mark.parametrize(("is_coalesced", "num_jobs"), [(False, 3), (True, 1)])
def test_times_that_were_missed_are_made_up_for_as_the_schedule_says(
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


def test_a_commit_is_measured_once_and_so_is_the_next_one(place: Place, tmp_path: Path) -> None:
    repository = tmp_path / "ours"
    repository.mkdir()
    git(repository, "init", "--quiet")
    git(repository, "commit", "--allow-empty", "--message", "one")
    watch = Watch(kind=WatchKind.GIT, url=str(repository))
    night = dataclasses.replace(NIGHT, cron="", watch=watch, every_s=60.0)
    config = dataclasses.replace(place.workspace.config, schedules={"night": night})
    workspace = dataclasses.replace(place.workspace, config=config)
    num_runs: list[int] = []

    def turn() -> None:
        num_runs.append(len(load_runs(place.store)))
        if len(num_runs) == 2:
            git(repository, "commit", "--allow-empty", "--message", "two")
        if len(num_runs) == 4:
            raise RunInterrupted("enough")
        place.clock.advance(60)
        place.loop.wake.set()

    wake = place.loop.wake
    with scheduling({}, state_dir=config.state_dir, wake=wake) as scheduler:
        loop = dataclasses.replace(
            place.with_services(workspace=workspace, check_interrupt=turn),
            scheduler=scheduler,
            watches=make_watches(workspace, scheduler, notify=place.events.append),
        )
        with pytest.raises(RunInterrupted):
            loop.run_forever()
    assert num_runs == [1, 1, 2, 2]


def decide(opened: Revision, _alerts: tuple[Alert, ...]) -> Decision:
    return Decision(alerts=(opened.alert,), revisions=(opened,))


def test_a_budget_is_spent_on_what_the_store_says_is_worth_most(place: Place) -> None:
    config = place.workspace.config
    suite = dataclasses.replace(config.suites["mine"], time_budget_s=5.0)
    config = dataclasses.replace(config, suites={"mine": suite})
    workspace = dataclasses.replace(place.workspace, config=config)
    loop = dataclasses.replace(place.loop, workspace=workspace)
    for night in range(3):
        if night == 1:
            # Measured an hour ago, while the other one was never measured; and yet its turn.
            case = next(iter(load_runs(place.store))).run.plan[0]
            opened = Revision(alert=make_alert(case=case))
            place.store.revise_alerts(partial(decide, opened), by="judge")
        place.requests.write(dataclasses.replace(REQUEST, dedupe_key=f"night {night}"))
        loop.run_queued()
        place.clock.advance(3600)
    keys = [key.split("/")[4] for key in place.executor.executed]
    assert keys == ["eager", "eager", "eager"]


def no_room(*_args: object) -> None:
    raise OSError(28, "No space left on device")


def lock_the_store(
    place: Place, monkeypatch: pytest.MonkeyPatch, *, is_disk_full: bool = False
) -> None:
    """As another program that opens the store while a case is measured, and keeps it."""

    def locked(*_args: object, **_options: object) -> None:
        raise StoreLocked("held by PID 7")

    def on_execute(_order: CaseOrder) -> None:
        place.executor.on_execute = lambda _order: None
        for name in ("ingest", "save_run", "finish_job", "put_job_back"):
            monkeypatch.setattr(Store, name, locked)
        if is_disk_full:
            monkeypatch.setattr("compile_hud.runner.persistence.spool.write_json", no_room)

    place.executor.on_execute = on_execute


def test_a_job_that_ends_while_the_store_is_locked_is_over_when_it_is_free(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.requests.write(REQUEST)
    with monkeypatch.context() as patched:
        lock_the_store(place, patched)
        place.loop.run_queued()
        assert place.loop.run_queued() == "held by PID 7"
        (job,) = load_health(place.store).open_jobs
        assert job.state == "leased"
    place.judged.clear()
    assert place.loop.run_queued() == ""
    (job,) = load_health(place.store).ended_jobs
    (summary,) = load_runs(place.store)
    assert (job.state, job.run_id, summary.run.state) == ("done", summary.run.id, "finished")
    # All that it measured has been judged.
    assert [len(document.results) for document in place.judged] == [2]


def test_a_job_that_is_put_back_while_the_store_is_full_goes_on_when_it_is_not(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.requests.write(REQUEST)
    with monkeypatch.context() as patched:
        lock_the_store(place, patched, is_disk_full=True)
        place.loop.run_queued()
    assert place.loop.run_queued() == ""
    (job,) = load_health(place.store).open_jobs
    assert (job.state, job.reason[:32]) == ("queued", "cannot keep the result of case b")
    place.clock.advance(300)
    place.loop.run_queued()
    (job,) = load_health(place.store).ended_jobs
    assert (job.state, job.num_attempts) == ("done", 2)


def test_a_run_that_waits_in_the_spool_is_not_measured_again_by_the_next_start(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.requests.write(REQUEST)
    with monkeypatch.context() as patched:
        lock_the_store(place, patched)
        place.loop.run_queued()
    place.executor.executed.clear()
    place.loop.pending_updates.clear()
    monkeypatch.setattr("compile_hud.db.jobs.queue.is_gone", lambda _holder: True)
    assert place.loop.run_queued() == ""
    assert place.executor.executed == []
    assert [summary.run.state for summary in load_runs(place.store)] == [RunState.FINISHED]


def test_a_file_of_the_spool_that_nobody_can_read_is_said_once(place: Place) -> None:
    path = place.workspace.spool().directory / "half.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{")
    place.requests.write(REQUEST)
    assert place.loop.run_queued() == ""
    told = f"set aside {path.parent / 'broken' / path.name}: half.json is not whole JSON"
    assert [text.startswith(told) for text in place.said() if "half.json" in text] == [True]


def with_gpu(place: Place, lost: set[str]) -> JobWorker:
    """Return the loop of `place` on a machine with a GPU; what is in `lost` does not answer."""

    class Losable(FakeExecutor):
        device = ""

        def open(self) -> Mapping[str, Any]:
            if self.device in lost:
                raise ExecutorError(f"cannot measure on {self.device}: GPU is lost")
            return super().open()

    def make_executor(*, device: str, **_: object) -> FakeExecutor:
        executor = Losable(clock=place.clock)
        executor.device = device
        return executor

    dependencies = dataclasses.replace(
        place.workspace.dependencies, has_gpu=lambda: True, make_executor=make_executor
    )
    return dataclasses.replace(
        place.loop, workspace=dataclasses.replace(place.workspace, dependencies=dependencies)
    )


def run_night(loop: JobWorker, place: Place, key: str) -> None:
    place.requests.write(dataclasses.replace(REQUEST, dedupe_key=key))
    loop.run_queued()


def test_a_suite_that_was_on_the_gpu_does_not_go_to_the_cpu_when_the_gpu_is_lost(
    place: Place,
) -> None:
    lost: set[str] = set()
    loop = with_gpu(place, lost)
    run_night(loop, place, "a")
    lost.add("cuda")
    run_night(loop, place, "b")
    (job,) = load_health(place.store).open_jobs
    assert job.reason == "cannot measure on cuda: GPU is lost"
    lost.clear()
    place.clock.advance(300)
    loop.run_queued()
    devices = [summary.run.plan[0].device for summary in load_runs(place.store)]
    assert devices == ["cuda", "cuda"]


def test_a_gpu_that_somebody_uses_is_waited_for_and_each_result_says_beside_whom(
    place: Place,
) -> None:
    loop, waited_s = with_gpu(place, set()), []
    gpu, user = "0, GPU-a, Fake GPU, 570, Enabled, Disabled, 700, 700, 1980", "GPU-a, 7, python3"
    machine = FakeMachine(
        replies={"--query-gpu": Reply(text=gpu), "--query-compute-apps": Reply(text=user)}
    )

    def sleep(seconds: float) -> None:
        waited_s.append(seconds)
        place.clock.advance(seconds)

    dependencies = dataclasses.replace(loop.workspace.dependencies, machine=machine, sleep=sleep)
    workspace = dataclasses.replace(loop.workspace, dependencies=dependencies)
    run_night(dataclasses.replace(loop, workspace=workspace), place, "a")
    assert sum(waited_s) == workspace.config.wait_idle_s
    (document,) = place.judged
    told = [warning.text for result in document.results for warning in result.warnings]
    assert told == ["when the run began, this GPU was used by python3 (PID 7)"] * 2


def test_a_suite_that_was_never_on_the_gpu_is_measured_where_it_can_be(place: Place) -> None:
    loop = with_gpu(place, {"cuda"})
    for key in ("a", "b"):
        run_night(loop, place, key)
    devices = [summary.run.plan[0].device for summary in load_runs(place.store)]
    assert devices == ["cpu", "cpu"]


def test_nothing_is_sent_while_the_store_does_not_answer(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    troubles = iter(["held by PID 7", "", "held by PID 7"])

    def run_queued(loop: JobWorker) -> str:
        loop.wake.set()
        trouble = next(troubles, None)
        if trouble is None:
            raise RunInterrupted("stopped")
        done.append(trouble)
        return trouble

    monkeypatch.setattr(JobWorker, "run_queued", run_queued)
    loop = place.with_services(send_notifications=lambda: done.append("sent"))
    with pytest.raises(RunInterrupted, match="stopped"):
        loop.run_forever()
    assert done == ["held by PID 7", "", "sent", "held by PID 7"]


def test_a_signal_that_a_library_swallowed_ends_the_loop_all_the_same(place: Place) -> None:
    def swallow() -> None:
        with contextlib.suppress(Exception):
            signal.raise_signal(signal.SIGTERM)

    with Interrupts() as interrupts:
        loop = place.with_services(send_notifications=swallow, check_interrupt=interrupts.check)
        with pytest.raises(RunInterrupted, match="stopped between two jobs"):
            loop.run_forever()
