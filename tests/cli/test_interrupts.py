"""An interrupted command reports that in one line."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import pytest
import sqlalchemy
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.store import Store
from tests.support.terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_detect_that_is_stopped_reports_what_judges(
    terminal: Terminal,
    monkeypatch: pytest.MonkeyPatch,
    number: signal.Signals,
    words: SnapshotAssertion,
) -> None:
    monkeypatch.setattr(
        "compile_hud.runner.cli.maintenance.detect_alerts",
        lambda *_, **__: os.kill(os.getpid(), number),
    )
    terminal.store().migrate()
    result = terminal.hud("detect")
    assert result.exit_code == 130
    assert result.stderr == (words)


def test_ctrl_c_in_any_command_is_one_line(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "compile_hud.runner.cli.maintenance.fill_demo",
        lambda *_, **__: signal.raise_signal(signal.SIGINT),
    )
    result = terminal.hud("demo")
    assert (result.exit_code, result.stderr) == (130, "hud: stopped\n")
    record = json.loads(terminal.hud("--log-format", "json", "demo").stderr)
    assert record["text"] == "stopped"


def test_ctrl_c_in_the_middle_of_a_query_is_one_line(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))

    def ask(store: Store, **_: object) -> None:
        with store.read() as session:
            timer.start()
            session.execute(sqlalchemy.text("SELECT sum(hash(a)) FROM range(300000000) t(a)"))
            # Where that is faster the signal still comes while the command runs.
            timer.join()

    terminal.store().migrate()
    monkeypatch.setattr("compile_hud.runner.cli.maintenance.fill_demo", ask)
    result = terminal.hud("demo", "--store", terminal.store().url)
    assert (result.exit_code, result.stderr) == (130, "hud: stopped\n")
