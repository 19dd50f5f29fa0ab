"""The answers of a node that cannot measure, and the options of a cluster."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.jobs.live_log import CASE_NAME, LOG_NAME, WORK_FOLDER, LiveLog, work_name
from compile_hud.runner.cluster import node
from compile_hud.runner.cluster.api import Reply, Setup, Status, Task
from compile_hud.runner.cluster.setup import read_environment
from compile_hud.runner.errors import ConfigError, ExecutorError
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.planning.plan import plan_case
from compile_hud.runner.protocol.messages import MeasureSettings
from compile_hud.runner.system.locks import patient_lock, waiting_lock
from tests.support.builders import make_case
from tests.support.fakes import FACTS, FakeExecutor, make_catalog
from tests.support.terminal import Terminal

SETUP = Setup(device="cpu", num_threads=1, release=node.RELEASE)
PLANNED = plan_case(make_case(model="a"), catalog=make_catalog("a"))
ORDER = CaseOrder(
    run_id="run-1", case=PLANNED.case, workload=PLANNED.workload, settings=MeasureSettings()
)
TASK = Task(orders=(ORDER,))


@pytest.fixture
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HUD_LOCK_DIR", str(tmp_path / "locks"))
    monkeypatch.setenv("HUD_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "locks"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with waiting_lock(path, on_wait=lambda _pid: None):
        yield


def test_node_of_another_release_measures_nothing(locks: Path, words: SnapshotAssertion) -> None:
    reply = node.serve(None, setup=replace(SETUP, release="protocol 0"))
    assert reply.status is Status.UNUSABLE
    assert reply.reason == words
    assert not locks.exists()


def test_node_on_which_another_run_measures_is_busy(
    locks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "LOCK_LIMIT_S", 0.0)
    with locked(locks / "device-cpu.lock"):
        assert node.serve(None, setup=SETUP).status is Status.BUSY


def test_node_reports_what_its_case_prints_until_it_has_the_result(
    locks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = locks.parent / "state" / WORK_FOLDER / work_name("run-1", pid=7, unique="x")
    folder.mkdir(parents=True)
    case = make_case()
    (folder / CASE_NAME).write_text(case.key)
    (folder / LOG_NAME).write_text("compiling\n")
    is_over = threading.Event()

    def serve(task: Task | None, *, setup: Setup) -> Reply:
        assert (task, setup) == (TASK, SETUP)
        assert is_over.wait(60)
        return Reply(status=Status.DONE)

    monkeypatch.setattr(node, "serve", serve)
    events = node.serve_with_logs(TASK, setup=SETUP, every_s=0.001)
    logs = next(events)
    assert not isinstance(logs, Reply)
    (log,) = logs
    assert isinstance(log, LiveLog)
    assert (log.case_key, [line.text for line in log.lines]) == (case.key, ["compiling"])
    is_over.set()
    assert list(events)[-1] == Reply(status=Status.DONE)


def test_node_without_the_interpreter_is_unusable(locks: Path, words: SnapshotAssertion) -> None:
    del locks
    reply = node.serve(None, setup=replace(SETUP, pythons=("/nowhere/python",)))
    assert reply.status is Status.UNUSABLE
    assert reply.reason == words


class NodeExecutors:
    """The executors of a node, by their interpreters; one interpreter may be missing."""

    def __init__(self, *, missing: str = "") -> None:
        self.made: dict[str, FakeExecutor] = {}
        self._missing = missing

    def __call__(self, *, python: Path, **_options: object) -> FakeExecutor:
        executor = FakeExecutor(facts={**FACTS, "python": str(python)})
        if str(python) == self._missing:

            def refuse() -> Mapping[str, object]:
                raise ExecutorError(f"no interpreter {python}")

            executor.open = refuse  # type: ignore[method-assign]
        self.made[str(python)] = executor
        return executor


PAIR = replace(SETUP, pythons=("/a/python", "/b/python"))
SIDES = Task(orders=(ORDER, replace(ORDER, run_id="run-2")))


@pytest.mark.usefixtures("locks")
def test_node_measures_a_case_under_each_interpreter_in_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    executors = NodeExecutors()
    monkeypatch.setattr(node, "LocalExecutor", executors)
    facts = node.serve(None, setup=PAIR).facts
    assert [item["python"] for item in facts] == list(PAIR.pythons)
    reply = node.serve(SIDES, setup=PAIR)
    assert reply.status is Status.DONE
    assert [result.run_id for result in reply.results] == ["run-1", "run-2"]
    assert reply.traces == (b"", b"")
    # Each has its own executor, and both were opened once.
    assert all(executor.launched for executor in executors.made.values())
    assert len(executors.made) == 2


@pytest.mark.usefixtures("locks")
def test_node_without_one_of_two_interpreters_closes_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    executors = NodeExecutors(missing="/b/python")
    monkeypatch.setattr(node, "LocalExecutor", executors)
    reply = node.serve(None, setup=replace(PAIR, num_threads=2))
    assert (reply.status, reply.reason) == (Status.UNUSABLE, "no interpreter /b/python")
    assert not executors.made["/a/python"].is_open


def test_patient_lock_is_given_up_after_its_limit_and_had_when_it_is_free(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "device"
    with locked(path), patient_lock(path, limit_s=0.0) as is_acquired:
        assert not is_acquired
    with patient_lock(path, limit_s=0.0) as is_acquired:
        assert is_acquired


def test_the_state_directory_of_a_node_is_the_given_one() -> None:
    assert node.state_dir({"HUD_STATE_DIR": "/var/lib/hud"}) == Path("/var/lib/hud")
    assert node.state_dir({}) == Path.home() / ".cache" / "compile-hud"


def test_runtime_environment_is_read_from_json(tmp_path: Path) -> None:
    path = tmp_path / "environment.json"
    path.write_text('{"pip": ["torch==2.12.0"]}')
    assert read_environment(path) == {"pip": ["torch==2.12.0"]}


@pytest.mark.parametrize(
    "content",
    [
        "[1]",
        "{",
        None,
    ],
)
def test_wrong_runtime_environment_is_reported(
    tmp_path: Path, content: str | None, words: SnapshotAssertion
) -> None:
    path = tmp_path / "environment.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError) as caught:
        read_environment(path)
    assert str(caught.value) == words


@pytest.mark.parametrize(
    "arguments",
    [
        ("--runtime-env", "x.json"),
        ("--executor", "ray"),
        ("--executor", "ray", "--resume"),
        ("--executor", "ray", "--toolchain", "current", "--toolchain", "current"),
        ("--executor", "ray", "--device", "cpu", "--runtime-env", "none.json"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    words: SnapshotAssertion,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = Terminal(tmp_path).hud("run", "--suite", "mine", *arguments)
    assert result.exit_code == 2
    assert result.output == words
    assert not list(tmp_path.glob("**/spool/*.json"))


def test_without_ray_the_package_that_is_missing_is_reported_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    (tmp_path / "net.py").write_text("")
    result = Terminal(tmp_path).hud(
        "run", "--suite", "mine", "--executor", "ray", "--device", "cpu"
    )
    assert result.exit_code == 2
    assert result.output == words
