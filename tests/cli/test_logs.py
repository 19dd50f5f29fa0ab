"""Logs as JSON: every line of standard error is an object with its run and case."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compile_hud.db.shared.logging import FORMAT_VARIABLE, set_up_logging
from tests.support.terminal import Terminal


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """Leave logging as other tests expect it."""
    root, ours = logging.getLogger(), logging.getLogger("hud")
    before = (root.level, ours.level, list(root.handlers))
    yield
    root.setLevel(before[0])
    ours.setLevel(before[1])
    root.handlers = before[2]


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return a terminal in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path)


def records(text: str) -> list[dict[str, Any]]:
    """Return the lines of `text`, each a JSON object."""
    return [json.loads(line) for line in text.splitlines()]


def test_every_line_of_a_run_is_json_with_its_run_and_case(terminal: Terminal) -> None:
    result = terminal.hud("--log-format", "json", "run", "--suite", "mine")
    log_records = records(result.stderr)
    run_ids = {item["run_id"] for item in log_records if "run_id" in item}
    assert len(run_ids) == 1
    measured = [item for item in log_records if item["text"].startswith("case measured")]
    assert [item["outcome"] for item in measured] == ["ok", "ok"]
    assert all(item["case"].startswith("net/") for item in measured)
    assert {item["level"] for item in log_records} == {"info"}
    # Tables are for people and stay what they are.
    assert result.stdout.startswith("model")


def test_the_variable_of_the_environment_asks_for_it_as_well(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FORMAT_VARIABLE, "json")
    assert records(terminal.hud("run", "--suite", "mine").stderr)


def test_an_expected_error_is_one_record(terminal: Terminal) -> None:
    result = terminal.hud("--log-format", "json", "show", "nothing")
    (record,) = records(result.stderr)
    assert result.exit_code == 2
    assert (record["level"], record["logger"]) == ("error", "hud")
    assert ".hud/store.duckdb" in record["text"]


def test_what_is_logged_in_text_is_as_ever(terminal: Terminal) -> None:
    assert "[1/2] net eager inference" in terminal.hud("run", "--suite", "mine").stderr


def test_a_line_break_or_a_traceback_stays_in_its_line() -> None:
    stream = io.StringIO()
    set_up_logging("json", stream=stream)
    set_up_logging("json", stream=stream)
    try:
        raise ValueError("bad\nthing")
    except ValueError:
        logging.getLogger("x").exception("it failed\n%s", '"quoted"', extra={"job": "nightly"})
    (record,) = records(stream.getvalue())
    assert record["text"] == 'it failed\n"quoted"'
    assert record["job"] == "nightly"
    assert "ValueError: bad" in record["traceback"]
    assert record["at"].endswith("+00:00")
