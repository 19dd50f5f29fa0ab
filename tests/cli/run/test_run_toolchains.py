"""hud run with several toolchains."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.metrics import metric_label
from compile_hud.db.records.results import Outcome
from compile_hud.runner.execution.executor import CaseOrder
from tests.support.builders import make_alert
from tests.support.fakes import FACTS, FakeExecutor
from tests.support.terminal import CONFIG, Terminal

BOTH = ("run", "--suite", "mine", "--no-reference", "--toolchain", "stable", "--toolchain", "night")
TOOLCHAINS = """
[toolchains]
stable = "/opt/stable/bin/python"
night = "/opt/night/bin/python"
"""


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    (tmp_path / "hud.toml").write_text(CONFIG + TOOLCHAINS)

    def give_facts(executor: FakeExecutor, python: Path) -> None:
        if "night" in str(python):
            executor.facts = {**FACTS, "torch_version": "2.14.0.dev1"}

    terminal.on_executor = give_facts
    return terminal


def test_progress_and_table_name_the_toolchain(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    result = terminal.hud(*BOTH)
    assert result.exit_code == 0, result.output
    lines = result.stderr.splitlines()
    first, second = (line.split()[1] for line in lines[2:4])
    assert lines == words
    rows = [line.split()[:3] for line in result.stdout.splitlines()]
    assert rows == [
        ["model", "mode", "toolchain"],
        ["net", "eager", "stable"],
        ["net", "eager", "night"],
        ["net", "default", "stable"],
        ["net", "default", "night"],
    ]


def test_json_is_a_list_with_a_document_for_each_and_can_be_ingested(terminal: Terminal) -> None:
    terminal.hud(*BOTH, "--no-store", "--json", "both.json")
    documents = json.loads((terminal.folder / "both.json").read_text())
    assert [document["run"]["toolchain"] for document in documents] == ["stable", "night"]
    assert [len(document["results"]) for document in documents] == [2, 2]
    assert terminal.json("ingest", "both.json", "--json")["ingested"] == 4
    assert len(load_runs(terminal.store())) == 2


def test_json_on_standard_output_is_alone(terminal: Terminal) -> None:
    result = terminal.hud(*BOTH, "--json", "-")
    assert len(json.loads(result.stdout)) == 2
    assert "toolchain" in result.stderr


def test_a_file_with_several_runs_is_no_side_of_a_comparison(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    terminal.hud(*BOTH, "--json", "both.json")
    result = terminal.hud("compare", "both.json", "latest")
    assert result.exit_code == 2
    assert result.stderr == words


def test_each_toolchain_gets_an_executor_of_its_own_even_twice_the_same(
    terminal: Terminal,
) -> None:
    twice = [word.replace("night", "stable") for word in BOTH]
    result = terminal.hud(*twice)
    assert len(terminal.executors) == 2
    assert "[2/2] stable 2: net default" in result.stderr


def test_a_failure_in_one_toolchain_exits_with_1(terminal: Terminal) -> None:
    def break_night(executor: FakeExecutor, python: Path) -> None:
        if "night" in str(python):
            executor.ENDINGS = {"net": Outcome.FAILED}

    terminal.on_executor = break_night
    assert terminal.hud(*BOTH).exit_code == 1
    assert terminal.hud(*BOTH, "--fail-on", "none").exit_code == 0


def test_a_regression_of_one_toolchain_is_notified_with_its_name(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    new = [make_alert(toolchain=name, machine="box") for name in ("night", "elsewhere")]
    report = SimpleNamespace(new=new, alerts=new, unjudged=())
    monkeypatch.setattr(
        "compile_hud.runner.cli.run.after_run.detect", lambda _store, **_facts: report
    )
    result = terminal.hud(*BOTH)
    assert result.exit_code == 1
    (line,) = [line for line in result.stderr.splitlines() if line.startswith("regression: ")]
    assert f"{metric_label(new[0].metric)} in night: " in line


def test_an_unknown_toolchain_is_reported_before_anything_starts(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    result = terminal.hud("run", "--toolchain", "stable", "--toolchain", "nightlyy")
    assert result.exit_code == 2
    assert result.stderr == (words)
    assert terminal.executors == []


def test_ctrl_c_explains_how_to_go_on_with_each_run(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    orders: list[CaseOrder] = []

    def on_execute(order: CaseOrder) -> None:
        orders.append(order)
        # The second case, under the first of the two.
        if len(orders) == 3:
            os.kill(os.getpid(), signal.SIGINT)

    terminal.on_execute = on_execute
    result = terminal.hud(*BOTH)
    assert result.exit_code == 130
    lines = result.stderr.splitlines()[-2:]
    assert lines == words
    for line in lines:
        done: Any = terminal.hud("run", "--resume", line.split("`")[1].split()[-1])
        assert done.exit_code == 0, done.output
    states = {
        summary.run.toolchain: str(summary.run.state) for summary in load_runs(terminal.store())
    }
    assert states == {"stable": "finished", "night": "finished"}


def test_a_run_is_not_resumed_under_another_toolchain(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    result = terminal.hud("run", "--resume", "--toolchain", "stable")
    assert result.exit_code == 2
    assert result.stderr == words
