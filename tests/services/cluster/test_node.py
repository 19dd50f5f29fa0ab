"""The answers of a node that cannot measure, and the options of a cluster."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from compile_hud.db.jobs.live_log import CASE_NAME, LOG_NAME, WORK_FOLDER, LiveLog, work_name
from compile_hud.runner.cluster import node
from compile_hud.runner.cluster.api import Reply, Setup, Status
from compile_hud.runner.cluster.setup import read_environment
from compile_hud.runner.errors import ConfigError
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.planning.plan import plan_case
from compile_hud.runner.protocol.messages import MeasureSettings
from compile_hud.runner.system.locks import patient_lock, waiting_lock
from tests.support.builders import make_case
from tests.support.fakes import make_catalog
from tests.support.terminal import Terminal

SETUP = Setup(device="cpu", num_threads=1, release=node.RELEASE)
PLANNED = plan_case(make_case(model="a"), catalog=make_catalog("a"))
ORDER = CaseOrder(
    run_id="run-1", case=PLANNED.case, workload=PLANNED.workload, settings=MeasureSettings()
)


@pytest.fixture
def locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HUD_LOCK_DIR", str(tmp_path / "locks"))
    monkeypatch.setenv("HUD_STATE_DIR", str(tmp_path / "state"))
    return tmp_path / "locks"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    with waiting_lock(path, on_wait=lambda _pid: None):
        yield


def test_node_of_another_release_measures_nothing(locks: Path) -> None:
    reply = node.serve(None, setup=replace(SETUP, release="protocol 0"))
    assert reply.status is Status.UNUSABLE
    assert reply.reason == (
        f"it speaks {node.RELEASE}, the runner protocol 0: install the same release"
    )
    assert not locks.exists()


def test_node_on_which_another_run_measures_is_busy(
    locks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node, "LOCK_LIMIT_S", 0.0)
    with locked(locks / "device-cpu.lock"):
        assert node.serve(None, setup=SETUP).status is Status.BUSY


def test_node_tells_what_its_case_prints_until_it_has_the_result(
    locks: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = locks.parent / "state" / WORK_FOLDER / work_name("run-1", pid=7, unique="x")
    folder.mkdir(parents=True)
    case = make_case()
    (folder / CASE_NAME).write_text(case.key)
    (folder / LOG_NAME).write_text("compiling\n")
    is_over = threading.Event()

    def serve(order: CaseOrder | None, *, setup: Setup) -> Reply:
        assert (order, setup) == (ORDER, SETUP)
        assert is_over.wait(60)
        return Reply(status=Status.DONE)

    monkeypatch.setattr(node, "serve", serve)
    events = node.serve_with_logs(ORDER, setup=SETUP, every_s=0.001)
    log = next(events)
    assert isinstance(log, LiveLog)
    assert (log.case_key, [line.text for line in log.lines]) == (case.key, ["compiling"])
    is_over.set()
    assert list(events)[-1] == Reply(status=Status.DONE)


def test_node_without_the_interpreter_is_unusable(locks: Path) -> None:
    del locks
    reply = node.serve(None, setup=replace(SETUP, python="/nowhere/python"))
    assert reply.status is Status.UNUSABLE
    assert "/nowhere/python: no such program" in reply.reason


def test_patient_lock_is_given_up_after_its_limit_and_had_when_it_is_free(tmp_path: Path) -> None:
    path = tmp_path / "locks" / "device"
    with locked(path), patient_lock(path, limit_s=0.0) as is_acquired:
        assert not is_acquired
    with patient_lock(path, limit_s=0.0) as is_acquired:
        assert is_acquired


def test_state_directory_of_a_node_is_the_one_that_is_named() -> None:
    assert node.state_dir({"HUD_STATE_DIR": "/var/lib/hud"}) == Path("/var/lib/hud")
    assert node.state_dir({}) == Path.home() / ".cache" / "compile-hud"


def test_runtime_environment_is_read_from_json(tmp_path: Path) -> None:
    path = tmp_path / "environment.json"
    path.write_text('{"pip": ["torch==2.12.0"]}')
    assert read_environment(path) == {"pip": ["torch==2.12.0"]}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[1]", "holds no Ray runtime environment"),
        ("{", "is not whole JSON"),
        (None, "cannot read .*No such file"),
    ],
)
def test_wrong_runtime_environment_is_said(
    tmp_path: Path, content: str | None, message: str
) -> None:
    path = tmp_path / "environment.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=message):
        read_environment(path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--runtime-env", "x.json"), "add --executor ray"),
        (("--executor", "ray"), "--device cuda or cpu"),
        (("--executor", "ray", "--resume"), "no run in the store .hud/store.duckdb yet"),
        (
            ("--executor", "ray", "--toolchain", "current", "--toolchain", "current"),
            "one toolchain at a time",
        ),
        (
            ("--executor", "ray", "--device", "cpu", "--runtime-env", "none.json"),
            "cannot read none.json",
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = Terminal(tmp_path).hud("run", "--suite", "mine", *arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert not list(tmp_path.glob("**/spool/*.json"))


def test_without_ray_the_package_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    (tmp_path / "net.py").write_text("")
    result = Terminal(tmp_path).hud(
        "run", "--suite", "mine", "--executor", "ray", "--device", "cpu"
    )
    assert result.exit_code == 2
    assert "pip install 'compile-hud[ray]'" in result.output
