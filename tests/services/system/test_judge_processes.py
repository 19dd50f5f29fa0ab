"""Judging in several processes that is ended from outside leaves none of them behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.nightly import daily_first
from tests.support.runs.run_process import ROOT

pytestmark = pytest.mark.slow
# Eight batches, each of which takes that long to judge.
SCRIPT = """
import sys, time
from compile_hud.runner.detection.incremental import share

if __name__ == "__main__":
    print("begun", flush=True)
    list(share(time.sleep, [float(sys.argv[1])] * 8, num_processes=2))
"""
# The two that judge, and the one that multiprocessing has for what they share.
NUM_CHILDREN = 3
PATIENCE_S = 30.0


@pytest.fixture
def judging(tmp_path: Path) -> Iterator[Callable[[float], subprocess.Popen[str]]]:
    """Yield what starts to judge in two processes, in a session of its own."""
    script = tmp_path / "judging.py"
    script.write_text(SCRIPT, encoding="utf-8")
    started: list[subprocess.Popen[str]] = []

    def start(seconds: float) -> subprocess.Popen[str]:
        started.append(
            subprocess.Popen(
                [sys.executable, script, str(seconds)],
                env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        )
        return started[-1]

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def session_of(process: subprocess.Popen[str]) -> list[int]:
    """Return who is alive of the session that `process` began, itself left out."""
    pids = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _parent, _group, session = path.read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        pid = int(path.parent.name)
        if int(session) == process.pid and pid != process.pid and state != "Z":
            pids.append(pid)
    return pids


def wait_for(process: subprocess.Popen[str], *, num_others: int) -> None:
    """Wait until so many others are alive."""
    end_s = time.monotonic() + PATIENCE_S
    while len(session_of(process)) != num_others:
        assert time.monotonic() < end_s, session_of(process)
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("is_early", daily_first([False, True], num_daily=1))
def test_judge_processes_die_with_their_parent(
    judging: Callable[[float], subprocess.Popen[str]], *, number: signal.Signals, is_early: bool
) -> None:
    process = judging(600.0)
    wait_for(process, num_others=NUM_CHILDREN)
    if not is_early:
        # They have loaded what they need, and judge.
        time.sleep(2)
    process.send_signal(number)
    assert process.wait(timeout=PATIENCE_S) == -number
    wait_for(process, num_others=0)


@pytest.mark.nightly
def test_ctrl_c_is_reported_by_the_main_process_alone(
    judging: Callable[[float], subprocess.Popen[str]],
) -> None:
    process = judging(1.0)
    wait_for(process, num_others=NUM_CHILDREN)
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert output == "begun\n"
    assert errors.count("Traceback") == 1
    assert errors.endswith("KeyboardInterrupt\n")
    wait_for(process, num_others=0)


def test_modules_of_the_working_directory_stand_in_for_none_of_python(tmp_path: Path) -> None:
    script = tmp_path / "judging.py"
    script.write_text(SCRIPT, encoding="utf-8")
    folder = tmp_path / "own"
    folder.mkdir()
    for name in ("pickle", "socket", "json"):
        (folder / f"{name}.py").write_text("raise SystemExit('the own module was imported')")
    finished = subprocess.run(
        [sys.executable, "-P", script, "0.0"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (finished.returncode, finished.stderr) == (0, "")
