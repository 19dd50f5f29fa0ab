"""Jobs that people request: a suite, or a single case."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.jobs.health import load_health
from compile_hud.db.jobs.queue import Job, JobState, case_of_suite, suite_of_case
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.results import RunDocument, RunState
from compile_hud.models_zoo.catalog.errors import UnknownNameError
from compile_hud.runner.config.schedules import ExecutorKind
from compile_hud.runner.planning.suites import BUILTIN_SUITES
from compile_hud.runner.run_requests import RunRequest
from compile_hud.runner.scheduling.job_orders import request_for_job
from compile_hud.runner.scheduling.job_worker import JobRunner, JobWorker
from tests.support.builders import make_case, make_result, make_run
from tests.support.runs.job_queue import NIGHT, JobSandbox


@pytest.fixture
def sandbox(tmp_path: Path) -> JobSandbox:
    return JobSandbox(tmp_path)


def job(suite: str) -> Job:
    """Return a job that is leased."""
    return Job(
        id="job-1",
        dedupe_key="asked",
        suite=suite,
        toolchain="current",
        trigger="tom",
        num_attempts=1,
    )


def test_a_suite_is_that_of_the_settings() -> None:
    request = request_for_job(job("quick"), suites=BUILTIN_SUITES, trigger="job 1")
    assert (request.suite.name, request.device, request.trigger) == ("quick", "auto", "job 1")
    assert case_of_suite("quick") == ""


def test_one_case_is_measured_as_its_command_does() -> None:
    suite = suite_of_case("org/my[1]/training/tiny/fp32/default/cpu")
    request = request_for_job(job(suite), suites={}, trigger="job 1")
    selection = request.suite.selection
    assert selection.models == ("org/my[[]1]",)
    assert (selection.phases, selection.shapes, selection.dtypes, selection.modes) == (
        ("training",),
        ("tiny",),
        ("fp32",),
        ("default",),
    )
    assert request.device == "cpu"


def test_an_invalid_case_is_refused(words: SnapshotAssertion) -> None:
    with pytest.raises(UnknownNameError) as caught:
        request_for_job(job("case bert/cpu"), suites={}, trigger="job 1")
    assert str(caught.value) == words


def test_a_requested_case_is_run_alone(tmp_path: Path) -> None:
    sandbox = JobSandbox(tmp_path)
    key = "bert/inference/tiny/fp32/default/cpu"
    sandbox.store.enqueue_job(
        dedupe_key="asked", suite=suite_of_case(key), toolchain="current", trigger="tom: again"
    )
    assert sandbox.loop.run_queued() == ""
    (ended,) = load_health(sandbox.store).ended_jobs
    assert (ended.state, ended.reason) == (JobState.DONE, "")
    (run,) = load_runs(sandbox.store)
    assert [case.key for case in run.run.plan] == [key]


class Cluster:
    """Remembers what is asked of the machines of a cluster."""

    def __init__(self) -> None:
        self.requests: list[RunRequest] = []

    def measure(self, request: RunRequest) -> list[RunDocument]:
        """Return the run of one of its machines."""
        self.requests.append(request)
        return [
            RunDocument(run=make_run("shared", machine="node", state=RunState.FINISHED), results=())
        ]

    def judge(self, *_documents: RunDocument) -> None:
        """Find nothing."""


@pytest.fixture
def shared(sandbox: JobSandbox) -> tuple[JobWorker, Cluster]:
    """Return a loop whose suite `mine` is measured by a cluster every night."""
    cluster = Cluster()
    night = dataclasses.replace(NIGHT, executor=ExecutorKind.RAY, device="cuda")
    engine = JobRunner(measure=cluster.measure, judge=cluster.judge)
    return sandbox.with_night(night, cluster=engine), cluster


def ask(
    sandbox: JobSandbox, suite: str, *, machine: str | None, toolchain: str = "current"
) -> None:
    """Queue a job as somebody at the dashboard does."""
    sandbox.store.enqueue_job(
        dedupe_key=f"asked {suite}",
        suite=suite,
        toolchain=toolchain,
        trigger="tom",
        machine=machine,
    )


def test_a_requested_suite_runs_on_the_machines_of_its_schedule(
    sandbox: JobSandbox, shared: tuple[JobWorker, Cluster]
) -> None:
    loop, cluster = shared
    ask(sandbox, "mine", machine=None)
    assert loop.run_queued() == ""
    (request,) = cluster.requests
    assert (request.suite.name, request.device, request.machine) == ("mine", "cuda", None)
    assert sandbox.executor.executed == []


def test_a_suite_of_no_schedule_is_measured_here(
    sandbox: JobSandbox, shared: tuple[JobWorker, Cluster]
) -> None:
    loop, cluster = shared
    config = loop.workspace.config
    other = dataclasses.replace(config.suites["mine"], name="other")
    config = dataclasses.replace(config, suites={**config.suites, "other": other})
    workspace = dataclasses.replace(loop.workspace, config=config)
    ask(sandbox, "other", machine=None)
    dataclasses.replace(loop, workspace=workspace).run_queued()
    assert cluster.requests == []
    assert len(sandbox.executor.executed) == 2


@pytest.mark.parametrize(
    ("measured_by", "machine", "is_shared"),
    [("mine", "node", True), ("mine", "box", False), ("another", "node", False)],
)
def test_a_case_is_measured_again_on_the_node_that_measured_it(
    sandbox: JobSandbox,
    shared: tuple[JobWorker, Cluster],
    *,
    measured_by: str,
    machine: str,
    is_shared: bool,
) -> None:
    loop, cluster = shared
    case = make_case()
    run = make_run(suite=measured_by, toolchain="current", machine=machine)
    sandbox.store.ingest(run, make_result("r", run_id=run.id, case=case), spool_id="r")
    ask(sandbox, suite_of_case(case.key), machine=machine)
    loop.run_queued()
    assert [request.machine for request in cluster.requests] == (["node"] if is_shared else [])
    assert bool(sandbox.executor.executed) is not is_shared


def test_an_unknown_case_fails_with_its_reason(tmp_path: Path) -> None:
    sandbox = JobSandbox(tmp_path)
    sandbox.store.enqueue_job(
        dedupe_key="asked",
        suite=suite_of_case("gone/inference/tiny/fp32/default/cpu"),
        toolchain="current",
        trigger="tom",
    )
    sandbox.loop.run_queued()
    (ended,) = load_health(sandbox.store).ended_jobs
    assert ended.state is JobState.FAILED
    assert "gone" in ended.reason
