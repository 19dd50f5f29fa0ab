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


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path)


def next_commands(text: str) -> list[list[str]]:
    return [shlex.split(line.removeprefix(NEXT)) for line in text.splitlines() if line[:10] == NEXT]


def test_the_commands_have_the_store_that_was_named(terminal: Terminal) -> None:
    store = "my stores/other.duckdb"
    Path("my stores").mkdir()
    save_alerts(Store(f"duckdb:///{store}"), [make_alert("aaa1")])
    show, _ = next_commands(terminal.hud("alerts", "list", "--store", store).stderr)
    assert show[-2:] == ["--store", store]
    assert terminal.hud(*show).exit_code == 0


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
