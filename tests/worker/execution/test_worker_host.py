"""A real worker host: what is left when it, its worker or its runner is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import CaseResult, Outcome
from compile_hud.runner.errors import ExecutorError
from compile_hud.runner.execution.local_executor import LocalExecutor
from compile_hud.runner.protocol.messages import PROTOCOL_VERSION
from tests.support.runs.host_imports import STARTS_CUDA, launch_after_import
from tests.support.runs.launches import is_alive, order, wait_for


@pytest.mark.nightly
def test_a_hanging_model_times_out_and_leaves_no_process(
    executor: LocalExecutor, tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    result = executor.execute(order("hanging", config={"pid_path": str(pids)}, timeout_s=20.0))
    assert result.outcome is Outcome.TIMEOUT
    assert "not done after 20 s" in result.reason
    assert result.details["ended_in"] == "eager oracle"
    worker, stray = map(int, pids.read_text(encoding="ascii").split())
    assert not is_alive(worker)
    assert not is_alive(stray)


def test_a_launch_collects_no_garbage_of_its_host(executor: LocalExecutor) -> None:
    result = executor.execute(order("inheriting"))
    assert result.outcome is Outcome.OK, result.reason


@pytest.mark.nightly
def test_a_launch_can_use_cuda_after_an_import_that_started_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # tests/nightly has other imports and compiled variants.
    result = launch_after_import(STARTS_CUDA, folder=tmp_path, monkeypatch=monkeypatch)
    assert result.outcome is Outcome.OK, (result.reason, result.log_tail)


def test_the_host_asks_nvml_whether_there_is_a_gpu(executor: LocalExecutor) -> None:
    host = executor._host._host
    assert host is not None
    environ = Path(f"/proc/{host.pid}/environ").read_bytes().split(b"\0")
    assert b"PYTORCH_NVML_BASED_CUDA_CHECK=1" in environ


def test_no_time_left_is_a_timeout_at_once(executor: LocalExecutor) -> None:
    result = executor.execute(order("hanging", config={"pid_path": "unused"}, timeout_s=0.0))
    assert result.outcome is Outcome.TIMEOUT


def test_cancel_ends_the_running_case_and_every_later_one(state_dir: Path, tmp_path: Path) -> None:
    local = LocalExecutor(python=Path(sys.executable), state_dir=state_dir)
    pids = tmp_path / "pids"

    def cancel() -> None:
        wait_for(pids)
        local.cancel()

    thread = threading.Thread(target=cancel)
    thread.start()
    result = local.execute(order("hanging", config={"pid_path": str(pids)}))
    thread.join()
    assert result.reason == "cancelled"
    assert local.execute(order("plain")).reason == "cancelled"
    local.close()
    assert not is_alive(int(pids.read_text(encoding="ascii").split()[0]))


@pytest.mark.nightly
def test_cancel_between_two_cases_ends_the_host(state_dir: Path) -> None:
    local = LocalExecutor(python=Path(sys.executable), state_dir=state_dir)
    local.open()
    host = local._host._host
    assert host is not None
    local.cancel()
    host.wait(timeout=60)
    assert local.execute(order("plain")).reason == "cancelled"
    local.close()


@pytest.mark.nightly
def test_a_cancel_that_arrives_with_its_launch_is_not_lost(state_dir: Path, tmp_path: Path) -> None:
    local = LocalExecutor(python=Path(sys.executable), state_dir=state_dir)
    local.open()
    host = local._host._host
    assert host is not None
    assert host.stdin is not None
    launch = {
        "protocol_version": PROTOCOL_VERSION,
        "action": "facts",
        "device": "cpu",
        "report_path": str(tmp_path / "facts.json"),
        "log_path": str(tmp_path / "log.txt"),
        "timeout_s": 60.0,
    }
    # One write of both: the host reads them at once.
    os.write(host.stdin.fileno(), json.dumps(launch).encode() + b'\n{"action": "cancel"}\n')
    answer = local._host._read_answer()
    assert answer is not None
    assert answer["ending"] == "cancelled"
    host.wait(timeout=60)
    local.close()


def killed_in_mid_case(state_dir: Path, pids: Path, *, is_host: bool) -> tuple[CaseResult, int]:
    """Return what a hanging case is when its worker (or host) is killed, and its stray child."""
    local = LocalExecutor(python=Path(sys.executable), state_dir=state_dir)
    local.open()

    def kill() -> None:
        worker = int(wait_for(pids).split()[0])
        assert local._host._host is not None
        os.kill(local._host._host.pid if is_host else worker, signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    result = local.execute(order("hanging", config={"pid_path": str(pids)}))
    thread.join()
    assert local.execute(order("plain")).outcome is Outcome.OK
    local.close()
    return result, int(pids.read_text(encoding="ascii").split()[1])


def test_a_killed_worker_fails_its_case_alone(
    state_dir: Path, tmp_path: Path, words: SnapshotAssertion
) -> None:
    result, stray = killed_in_mid_case(state_dir, tmp_path / "pids", is_host=False)
    assert result.outcome is Outcome.FAILED
    assert result.reason == words
    assert not is_alive(stray)


@pytest.mark.nightly
def test_a_host_killed_in_mid_case_leaves_no_process(
    state_dir: Path, tmp_path: Path, words: SnapshotAssertion
) -> None:
    result, stray = killed_in_mid_case(state_dir, tmp_path / "pids", is_host=True)
    assert result.outcome is Outcome.FAILED
    assert result.reason == words
    assert not is_alive(stray)


@pytest.mark.nightly
def test_folders_of_dead_runners_are_removed(tmp_path: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    dead, own = tmp_path / "work" / f"{ended.pid}-x", tmp_path / "work" / f"{os.getpid()}-x"
    for folder in (dead, own):
        folder.mkdir(parents=True)
    local = LocalExecutor(python=Path(sys.executable), state_dir=tmp_path)
    local.open()
    local.close()
    assert not dead.exists()
    assert own.exists()


@pytest.mark.nightly
def test_a_killed_host_costs_one_case_and_is_started_again(state_dir: Path) -> None:
    local = LocalExecutor(python=Path(sys.executable), state_dir=state_dir)
    local.open()
    host = local._host._host
    assert host is not None
    os.kill(host.pid, signal.SIGKILL)
    host.wait()
    assert local.execute(order("plain")).outcome is Outcome.FAILED
    assert local.execute(order("plain")).outcome is Outcome.OK
    local.close()


RUNNER = """
import sys
from pathlib import Path
from tests.support.runs.launches import order
from compile_hud.runner.execution.local_executor import LocalExecutor
executor = LocalExecutor(python=Path(sys.executable), state_dir=Path(sys.argv[1]))
executor.execute(order("hanging", config={"pid_path": sys.argv[2]}))
"""


def test_a_killed_runner_takes_host_and_worker_along(state_dir: Path, tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    root = Path(__file__).parents[3]
    runner = subprocess.Popen([sys.executable, "-c", RUNNER, str(state_dir), str(pids)], cwd=root)
    worker, stray = map(int, wait_for(pids, watch=runner).split())
    runner.kill()
    runner.wait()
    pause = threading.Event()
    for _ in range(400):
        if not is_alive(worker) and not is_alive(stray):
            break
        pause.wait(0.05)
    assert not is_alive(worker)
    assert not is_alive(stray)


def test_an_interpreter_that_is_not_there_is_reported_by_name(
    tmp_path: Path, words: SnapshotAssertion
) -> None:
    local = LocalExecutor(python=Path("/no/such/python"), state_dir=tmp_path)
    with pytest.raises(ExecutorError) as caught:
        local.open()
    assert str(caught.value) == words


def test_an_interpreter_without_torch_is_reported_by_name(
    tmp_path: Path, words: SnapshotAssertion
) -> None:
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -S -E "$@"\n', encoding="ascii")
    bare.chmod(0o755)
    local = LocalExecutor(python=bare, state_dir=tmp_path)
    with pytest.raises(ExecutorError) as caught:
        local.open()
    assert str(caught.value) == words


def test_the_host_has_fixed_addresses_where_that_is_allowed(executor: LocalExecutor) -> None:
    allowed = subprocess.run(["setarch", "-R", "true"], capture_output=True, check=False)
    assert executor.open()["flags"]["has_fixed_addresses"] is (allowed.returncode == 0)


def test_a_state_directory_that_cannot_be_made_is_reported_by_name(
    tmp_path: Path, words: SnapshotAssertion
) -> None:
    (tmp_path / "file").touch()
    local = LocalExecutor(python=Path(sys.executable), state_dir=tmp_path / "file")
    with pytest.raises(ExecutorError) as caught:
        local.open()
    assert str(caught.value) == words


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_device_that_is_not_there_is_one_clear_line(
    tmp_path: Path, words: SnapshotAssertion
) -> None:
    local = LocalExecutor(python=Path(sys.executable), state_dir=tmp_path, device="cuda")
    with pytest.raises(ExecutorError) as caught:
        local.open()
    assert caught.value.parameters["device"] == "cuda"
    assert str(caught.value) == words
    local.close()
    assert "\n" not in str(caught.value)


@pytest.mark.nightly
def test_temporary_files_of_a_killed_case_go_with_it(state_dir: Path, tmp_path: Path) -> None:
    local = LocalExecutor(python=Path(sys.executable), state_dir=state_dir)
    folder = tmp_path / "place"
    result = local.execute(order("littering", config={"place": str(folder)}))
    local.close()
    assert result.outcome is Outcome.FAILED
    assert not Path(folder.read_text(encoding="utf-8")).exists()
