"""`hud runs` and `hud show` after the process of a run was killed."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.results import RunState
from compile_hud.db.shared.processes import this_process
from tests.support.terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path)


def ended_process() -> str:
    code = "from compile_hud.db.shared.processes import this_process; print(this_process())"
    return subprocess.check_output([sys.executable, "-c", code], text=True).strip()


def make_unfinished(terminal: Terminal, *, process: str) -> Path:
    """Leave a run as a process leaves it that executes it, and return the file of the process."""
    assert terminal.hud("run", "--suite", "mine").exit_code == 0
    store = terminal.store()
    (summary,) = load_runs(store)
    terminal.clock.advance(60)
    unfinished = replace(
        summary.run,
        id="unfinished",
        started_at=terminal.clock(),
        state=RunState.RUNNING,
        finished_at=None,
    )
    store.save_run(unfinished)
    path = terminal.folder / ".hud" / "spool" / "processes" / "unfinished"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(process)
    return path


@pytest.mark.parametrize("command", ["runs", "show"])
def test_the_run_of_a_killed_process_is_interrupted_at_once(
    terminal: Terminal, command: str
) -> None:
    path = make_unfinished(terminal, process=ended_process())
    options = ["unfinished"] if command == "show" else []
    assert "interrupted" in terminal.hud(command, *options).output
    run, _ = terminal.json("runs", "--json")
    assert run["state"] == "interrupted"
    assert not path.exists()


@pytest.mark.parametrize(
    "process",
    [this_process(), "elsewhere/1/2", "", "half/"],
    ids=["this process", "another machine", "none", "half"],
)
def test_a_run_whose_process_is_not_known_to_be_gone_is_running(
    terminal: Terminal, process: str
) -> None:
    path = make_unfinished(terminal, process=process)
    run, _ = terminal.json("runs", "--json")
    assert run["state"] == "running"
    assert path.exists()


def test_a_run_that_ends_leaves_no_process(terminal: Terminal) -> None:
    assert terminal.hud("run", "--suite", "mine").exit_code == 0
    folder = terminal.folder / ".hud" / "spool" / "processes"
    assert list(folder.iterdir()) == []
