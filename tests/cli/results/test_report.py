"""The output of `hud report`."""

from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.errors import DocumentNotWritten, NoSuchResult
from tests.support.stores.trend_stores import NUM_NIGHTS, fill_trends, night
from tests.support.terminal import Terminal


@pytest.fixture
def filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    terminal.clock.advance((night(NUM_NIGHTS) - terminal.clock()).total_seconds())
    fill_trends(terminal.store())
    return terminal


def test_markdown_is_the_default(filled: Terminal, words: SnapshotAssertion) -> None:
    result = filled.hud("report")
    assert result.exit_code == 0
    assert result.stdout == words


def test_page_is_written_to_a_file(filled: Terminal) -> None:
    result = filled.hud("report", "--format", "html", "--output", "trends.html")
    assert (result.exit_code, result.stdout) == (0, "")
    page = (filled.folder / "trends.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert page.count("<svg") == 12


def test_options_of_the_trends_select(filled: Terminal) -> None:
    options = ("--metric", "speedup", "--by", "model", "--mode", "default", "--since", "2d")
    lines = filled.hud("report", *options).stdout.splitlines()
    rows = [line.split(" | ")[0] for line in lines if line.startswith("| ")]
    assert rows[2:] == ["| bert", "| t5", "| vit"]


def test_file_that_cannot_be_written_is_named(filled: Terminal) -> None:
    error = filled.error("report", "--output", "missing/trends.md")
    assert isinstance(error, DocumentNotWritten)
    assert error.parameters["path"] == Path("missing/trends.md")


def test_empty_store_has_no_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert isinstance(Terminal(tmp_path).error("report"), NoSuchResult)
