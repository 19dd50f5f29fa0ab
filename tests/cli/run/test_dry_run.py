"""`hud run --dry-run`: the cases and about how long they take, without measuring."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.errors import StoreLocked
from tests.support.terminal import Terminal

# The fake executor's cases take ten seconds each.
RUN = ("run", "--model", "net", "--mode", "eager")


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path)


def raise_locked(*_args: object, **_options: object) -> NoReturn:
    raise StoreLocked("the store is locked")


def test_it_lists_the_cases_and_measures_nothing(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    result = terminal.hud("run", "--suite", "mine", "--dry-run")
    assert result.exit_code == 0
    assert result.stdout == words
    assert terminal.executors == []
    assert terminal.store().is_missing()


def test_one_case_is_singular(terminal: Terminal, words: SnapshotAssertion) -> None:
    result = terminal.hud(*RUN, "--dry-run")
    assert result.stdout.splitlines()[-1] == words


def test_it_takes_the_last_results_of_the_machine(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    terminal.hud("run", "--suite", "mine")
    result = terminal.hud("run", "--suite", "mine", "--dry-run")
    assert result.stdout.splitlines()[-1] == words


def test_it_says_how_many_cases_have_no_history(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    terminal.hud(*RUN)
    result = terminal.hud("run", "--suite", "mine", "--dry-run")
    assert result.stdout.splitlines()[-1] == words


def test_a_time_budget_limits_the_time(terminal: Terminal, words: SnapshotAssertion) -> None:
    config = terminal.folder / "hud.toml"
    config.write_text(config.read_text() + 'time_budget = "5s"\n')
    assert terminal.hud("run", "--suite", "mine", "--dry-run").stdout.splitlines()[-1] == words


def test_json_has_each_case(terminal: Terminal) -> None:
    document = terminal.json("run", "--suite", "mine", "--dry-run", "--json", "-")
    (run,) = document["runs"]
    assert document["num_cases"] == len(run["cases"]) == 2
    assert {item["source"] for item in run["cases"]} == {"default"}
    assert document["seconds"] == run["seconds"] > sum(item["seconds"] for item in run["cases"])


def test_a_locked_store_is_a_warning(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    terminal.hud(*RUN)
    monkeypatch.setattr("compile_hud.runner.cli.run.dry_run.load_case_seconds", raise_locked)
    result = terminal.hud(*RUN, "--dry-run")
    assert result.exit_code == 0
    assert result.stderr == words
    assert result.stdout == words


@pytest.mark.parametrize(
    "options", [("--resume",), ("--ncu",), ("--executor", "ray"), ("--json", "out.json")]
)
def test_what_measures_or_writes_does_not_go_with_it(
    terminal: Terminal, options: tuple[str, ...]
) -> None:
    result = terminal.hud("run", "--dry-run", *options)
    assert result.exit_code == 2
    assert "--dry-run" in result.stderr
