from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.terminal import Terminal


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path)


def test_a_stored_run_and_its_result_file_give_the_same_log(terminal: Terminal) -> None:
    assert terminal.hud("run", "--suite", "mine", "--json", "run.json").exit_code == 0
    stored = terminal.hud("export", "latest", "--format", "mlperf")
    assert stored.exit_code == 0, stored.output
    lines = stored.stdout.splitlines()
    assert [line.startswith(":::MLLOG {") for line in lines] == [True] * len(lines)
    assert stored.stdout.count('"run_stop"') == 2
    assert terminal.hud("export", "run.json", "--format", "mlperf", "-o", "run.log").stdout == ""
    assert (terminal.folder / "run.log").read_text() == stored.stdout


def test_another_format_is_refused_with_what_there_is(terminal: Terminal) -> None:
    result = terminal.hud("export", "latest", "--format", "csv")
    assert result.exit_code == 2
    assert "no format 'csv'; there is mlperf" in result.stderr


def test_a_run_that_does_not_exist_is_one_line(terminal: Terminal) -> None:
    result = terminal.hud("export", "nothing", "--format", "mlperf")
    assert result.exit_code == 2
    assert "'nothing' is no result file, no run and no revision" in result.stderr


def test_a_file_that_cannot_be_written_is_one_line(terminal: Terminal) -> None:
    assert terminal.hud("run", "--suite", "mine").exit_code == 0
    result = terminal.hud("export", "latest", "--format", "mlperf", "-o", "no/such/folder.log")
    assert result.exit_code == 2
    assert "No such file or directory: 'no/such/folder.log'" in result.stderr
