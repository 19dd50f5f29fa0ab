"""The commands that `hud` prints after its answer: each works with what was just done."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from compile_hud.db.store import Store
from tests.support.builders import make_alert
from tests.support.stores.stored_results import save_alerts
from tests.support.terminal import Terminal

NEXT = "next: hud "
NET = ("--model", "net", "--mode", "eager")


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path)


def next_commands(text: str) -> list[list[str]]:
    return [shlex.split(line.removeprefix(NEXT)) for line in text.splitlines() if line[:10] == NEXT]


def test_the_commands_of_a_list_have_the_store_that_was_named(terminal: Terminal) -> None:
    store = "my stores/other.duckdb"
    Path("my stores").mkdir()
    save_alerts(Store(f"duckdb:///{store}"), [make_alert("aaa1")])
    show, _ = next_commands(terminal.hud("alerts", "list", "--store", store).stderr)
    assert show[-2:] == ["--store", store]
    assert terminal.hud(*show).exit_code == 0


def test_a_failed_case_is_shown(terminal: Terminal) -> None:
    result = terminal.hud("run", "--model", "fails", "--mode", "eager")
    (command,) = next_commands(result.stderr)
    assert command[0] == "show"
    assert "failed on purpose" in terminal.hud(*command).stdout


def test_a_run_without_problems_has_no_next_command(terminal: Terminal) -> None:
    assert next_commands(terminal.hud("run", *NET).stderr) == []


def test_nothing_follows_what_was_not_stored_or_is_json(terminal: Terminal) -> None:
    fails = ("run", "--model", "fails", "--mode", "eager")
    assert next_commands(terminal.hud(*fails, "--no-store").stderr) == []
    assert next_commands(terminal.hud(*fails, "--json", "-").stderr) == []


def test_the_commands_have_the_store_that_was_named(terminal: Terminal) -> None:
    store = "my stores/other.duckdb"
    Path("my stores").mkdir()
    fails = ("run", "--model", "fails", "--mode", "eager", "--store", store)
    (command,) = next_commands(terminal.hud(*fails).stderr)
    assert command[-2:] == ["--store", store]
    assert terminal.hud(*command).exit_code == 0


@pytest.mark.parametrize("listing", [("alerts", "list"), ("regressions",)])
def test_the_first_open_alert_is_shown_and_acknowledged(
    terminal: Terminal, listing: tuple[str, ...]
) -> None:
    save_alerts(terminal.store(), [make_alert("aaa1")])
    show, acknowledge = next_commands(terminal.hud(*listing).stderr)
    assert terminal.hud(*show).stdout.startswith("alert      aaa1")
    assert terminal.hud(*acknowledge).exit_code == 0
    assert next_commands(terminal.hud("alerts", "list").stderr) == []
    assert next_commands(terminal.hud(*listing, "--json").stderr) == []


def test_a_regression_is_shown(terminal: Terminal) -> None:
    terminal.hud("run", *NET)
    terminal.latency_s *= 2
    terminal.hud("run", *NET)
    commands = next_commands(terminal.hud("compare", "previous", "latest").stderr)
    assert commands
    assert commands[0][0] in ("show", "kernels")
    assert all(terminal.hud(*command).exit_code == 0 for command in commands)
