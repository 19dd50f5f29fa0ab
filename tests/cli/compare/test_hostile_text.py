"""Names and facts that a terminal would execute, or that have no bytes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from compile_hud.runner.cli.tables import MAX_CELL
from tests.support.builders import make_document, make_result, make_run
from tests.support.terminal import Terminal

HALF = "\ud800"
CLEAR = "\x1b[2J"
LONG = "s" * 10_000


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path)


def write_result(path: Path, *, fact: str) -> None:
    run = make_run(path.stem)
    run = replace(run, environment={**run.environment, "governor": fact})
    document = make_document(run, results=[make_result(run_id=run.id)])
    path.write_text(json.dumps(document.to_json()))


@pytest.mark.parametrize("fact", [f"half {HALF}", f"clear {CLEAR}", f"two\nlines {CLEAR}", LONG])
def test_a_fact_is_one_printable_line(terminal: Terminal, fact: str) -> None:
    write_result(terminal.folder / "before.json", fact="usual")
    write_result(terminal.folder / "after.json", fact=fact)
    result = terminal.hud("compare", "before.json", "after.json")
    assert result.exception is None or isinstance(result.exception, SystemExit)
    (line,) = [line for line in result.stdout.splitlines() if "governor" in line]
    shown = line.partition("usual -> ")[2]
    assert shown.isprintable()
    assert 0 < len(shown) <= MAX_CELL
    assert all(line.isprintable() for line in result.stdout.splitlines())


def test_json_has_the_whole_fact(terminal: Terminal) -> None:
    write_result(terminal.folder / "before.json", fact="usual")
    write_result(terminal.folder / "after.json", fact=LONG)
    document = terminal.json("compare", "before.json", "after.json", "--json")
    (fact,) = [item for item in document["environment"] if item["name"] == "governor"]
    assert fact["candidate"] == LONG


def test_a_long_suite_fills_no_screen(terminal: Terminal) -> None:
    terminal.store().save_run(replace(make_run(), suite=LONG))
    assert max(map(len, terminal.hud("runs").stdout.splitlines())) < 2 * MAX_CELL
    assert len(terminal.hud("show", "latest").stdout) < 2_000
    assert terminal.json("runs", "--json")[0]["suite"] == LONG
