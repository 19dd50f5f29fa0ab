"""hud compare with two toolchains, measured for the comparison."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.results import Outcome
from compile_hud.runner.events import Event, PairLaunched
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.paired_launches import PairLimits
from compile_hud.runner.reporting.terminal_progress import TerminalProgress
from tests.support.fakes import FACTS, FakeExecutor
from tests.support.terminal import CONFIG, Terminal

BOTH = ("--toolchain", "stable", "--toolchain", "night", "--suite", "mine")
TOOLCHAINS = """
[toolchains]
stable = "/opt/stable/bin/python"
night = "/opt/night/bin/python"
"""


class Pair(Terminal):
    """A terminal with two toolchains, the second one slower by `slowdown`."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.slowdown = 1.0
        self.night_facts: dict[str, Any] = {"torch_version": "2.14.0", "python_minor": "3.13"}

    def make_executor(self, *, python: Path, **values: Any) -> FakeExecutor:
        """Return the fake of the parent, slower under the second toolchain."""
        executor = super().make_executor(python=python, **values)
        if "night" in str(python):
            executor.latency_s *= self.slowdown
            executor.facts = {**FACTS, **self.night_facts}
        return executor


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pair:
    monkeypatch.chdir(tmp_path)
    terminal = Pair(tmp_path)
    (tmp_path / "hud.toml").write_text(CONFIG + TOOLCHAINS)
    return terminal


def test_equal_toolchains_exit_with_0_and_are_stored_as_two_runs(
    terminal: Pair, words: SnapshotAssertion
) -> None:
    result = terminal.hud("compare", *BOTH)
    assert result.exit_code == 0, result.output
    assert "no regressions" in result.stdout
    assert result.stdout == words
    runs = [summary.run for summary in load_runs(terminal.store())]
    assert {run.toolchain for run in runs} == {"stable", "night"}
    # Drift meets both sides alike: no reference case is needed.
    assert [len(run.plan) for run in runs] == [2, 2]


def test_a_slower_candidate_exits_with_1(terminal: Pair) -> None:
    terminal.slowdown = 2.0
    result = terminal.hud("compare", *BOTH, "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["failed"] is True
    assert document["baseline"]["toolchain"] == "stable"
    assert document["candidate"]["toolchain"] == "night"
    rows = [row for row in document["rows"] if row["metric"] == "latency_s"]
    assert [row["verdict"] for row in rows] == ["regression", "regression"]
    assert rows[0]["ratio"] == pytest.approx(2.0)
    assert document["machine"] == []


def test_the_floor_is_the_one_that_was_requested(terminal: Pair) -> None:
    terminal.slowdown = 1.5
    assert terminal.hud("compare", *BOTH).exit_code == 1
    assert terminal.hud("compare", *BOTH, "--fail-above", "90%").exit_code == 0


def test_the_interval_does_not_depend_on_how_many_cases_there_are(terminal: Pair) -> None:
    def width(*selection: str) -> float:
        document = terminal.json("compare", *BOTH, *selection, "--json")
        times = [row for row in document["rows"] if row["metric"] == "latency_s"]
        low, high = times[0]["interval"]
        return float(high / low)

    assert width() == pytest.approx(width("--mode", "eager"))


def test_environments_that_differ_are_reported_and_compared(terminal: Pair) -> None:
    terminal.night_facts = {
        "torch_version": "2.14.0",
        "python_minor": "3.13",
        "flags": {"a": 1, "b": 2},
        "peaks": {"copy": 2.0},
    }
    terminal.facts |= {"flags": {"a": 1, "b": None}, "peaks": {"copy": 1.0}}
    result = terminal.hud("compare", *BOTH)
    assert result.exit_code == 0
    assert [line for line in result.stdout.splitlines() if line.startswith("differs")] == [
        "differs   flags.b: none -> 2",
        "differs   python_minor: 3.11 -> 3.13",
    ]
    document = terminal.json("compare", *BOTH, "--json")
    names = [item["name"] for item in document["environment"]]
    assert names == ["flags", "python_minor", "torch_version"]
    assert document["environment"][1] == {
        "name": "python_minor",
        "baseline": "3.11",
        "candidate": "3.13",
    }


def test_nothing_is_stored_when_nothing_is_to_be(terminal: Pair) -> None:
    assert terminal.hud("compare", *BOTH, "--no-store").exit_code == 0
    assert not (terminal.folder / ".hud").exists()


def test_a_toolchain_is_compared_with_itself_by_two_hosts(terminal: Pair) -> None:
    same = [word.replace("night", "stable") for word in BOTH]
    result = terminal.hud("compare", *same)
    assert result.exit_code == 0
    assert len(terminal.executors) == 2
    assert "[2/2] stable 2: net default" in result.stderr
    assert "differs" not in result.stdout


def test_a_case_that_one_side_cannot_run_is_a_row_that_reports_it(
    terminal: Pair, words: SnapshotAssertion
) -> None:
    def break_night(executor: FakeExecutor, python: Path) -> None:
        if "night" in str(python):
            executor.ENDINGS = {"net": Outcome.FAILED}

    terminal.on_executor = break_night
    result = terminal.hud("compare", *BOTH)
    assert result.exit_code == 1
    assert result.stdout == words


def test_pairs_are_reported_while_they_are_measured(
    terminal: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: list[int] = []

    class Listening(TerminalProgress):
        def __call__(self, event: Event) -> None:
            if isinstance(event, PairLaunched) and event.case.variant == "eager":
                counts.append(event.num_pairs)
            super().__call__(event)

    monkeypatch.setattr("compile_hud.runner.cli.progress.TerminalProgress", Listening)
    terminal.hud("compare", *BOTH, "--max-launches", "2")
    assert counts == [1, 2]


def count_launches(
    terminal: Pair, monkeypatch: pytest.MonkeyPatch, *options: str
) -> tuple[int, int]:
    """Return the limits of launches that are in force with `options`."""
    seen: list[PairLimits] = []

    def measure_pair(*_sides: object, limits: PairLimits, on_pair: object) -> None:
        del on_pair
        seen.append(limits)
        raise KeyboardInterrupt

    monkeypatch.setattr("compile_hud.runner.cli.compare.command.measure_pair", measure_pair)
    terminal.hud("compare", *BOTH, *options)
    return seen[0].min_launches, seen[0].max_launches


@pytest.mark.parametrize(
    ("options", "limits"),
    [
        ((), (PairLimits().min_launches, PairLimits().max_launches)),
        (("--max-launches", "99"), (PairLimits().min_launches, 99)),
        (("--max-launches", "2"), (2, 2)),
    ],
)
def test_launches_are_limited(
    terminal: Pair,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    limits: tuple[int, int],
) -> None:
    assert count_launches(terminal, monkeypatch, *options) == limits


def test_ctrl_c_shows_what_was_compared(terminal: Pair, words: SnapshotAssertion) -> None:
    orders: list[CaseOrder] = []

    def on_execute(order: CaseOrder) -> None:
        if order.case.variant == "default" and not orders:
            orders.append(order)
            os.kill(os.getpid(), signal.SIGINT)

    terminal.on_execute = on_execute
    result = terminal.hud("compare", *BOTH, "--all")
    assert result.exit_code == 130
    assert result.stderr == words
    assert "net/inference/default/fp32/eager/cpu" in result.stdout
    assert "net/inference/default/fp32/default/cpu" not in result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("latest",),
        ("--toolchain", "stable"),
        ("a", *BOTH),
        ("--toolchain", "x", *BOTH),
        ("a", "b", "--model", "net", "--max-launches", "3", "--no-store"),
        ("a", "b", "--suite", "s", "--shape", "tiny", "--phase", "inference"),
    ],
)
def test_a_wrong_mixture_is_a_usage_error(
    terminal: Pair, arguments: tuple[str, ...], words: SnapshotAssertion
) -> None:
    result = terminal.hud("compare", *arguments)
    assert result.exit_code == 2
    assert result.stderr == words
    assert terminal.executors == []


def test_an_unknown_toolchain_is_reported(terminal: Pair, words: SnapshotAssertion) -> None:
    result = terminal.hud("compare", "--toolchain", "stable", "--toolchain", "nightlyy")
    assert result.exit_code == 2
    assert result.stderr == words
