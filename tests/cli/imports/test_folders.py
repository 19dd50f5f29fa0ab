"""`hud import` of folders."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from tests.support.records.tool_files import (
    asv_result,
    pytest_benchmark,
    pytest_session,
    write_asv,
    write_json,
)
from tests.support.records.v3_records import make_record, write_lines
from tests.support.stores.imports import runs
from tests.support.terminal import Terminal


def test_a_folder_stands_for_the_files_in_it(terminal: Terminal) -> None:
    folder = terminal.folder / "nights"
    write_json(folder / "b" / "session.json", pytest_session(pytest_benchmark()))
    write_lines(folder / "a.jsonl", [make_record()])
    write_lines(folder / "c.json.gz", [make_record(night=1)])
    (folder / "notes.txt").write_text("no results")
    write_json(folder / ".cache" / "hidden.json", {"broken": 1})
    done = terminal.hud("import", "nights")
    assert done.exit_code == 0, done.output
    assert len(runs(terminal)) == 3


@pytest.mark.parametrize("line", ['"results_dir": "out/asv",', '// "results_dir": "other",', ""])
def test_a_project_of_asv_stands_for_its_results(terminal: Terminal, line: str) -> None:
    project = terminal.folder / "project"
    results = "out/asv" if line.startswith('"') else "results"
    write_asv(project / results, asv_result({"a.time_x": {"result": [0.5]}}))
    (project / "asv.conf.json").write_text(f'{{\n  {line}\n  "version": 1\n}}\n')
    write_json(project / "html" / "index.json", {"graphs": []})
    assert terminal.hud("import", "project").exit_code == 0
    assert len(runs(terminal)) == 1


def test_files_of_asv_without_results_are_left_out_by_name_and_content(terminal: Terminal) -> None:
    folder = write_asv(terminal.folder / "results", asv_result({"a.time_x": {"result": [0.5]}}))
    names = [str(path) for path in sorted(folder.rglob("*.json"))]
    assert len(names) == 3
    assert terminal.hud("import", *names).exit_code == 0
    write_lines(terminal.folder / "machine.json", [make_record()])
    assert terminal.hud("import", "machine.json").exit_code == 0
    assert len(runs(terminal)) == 2


def test_a_folder_without_files_is_an_error_and_the_others_are_imported(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    (terminal.folder / "empty").mkdir()
    write_lines(terminal.folder / "records.json", [make_record()])
    done = terminal.hud("import", "empty", "records.json")
    assert (done.exit_code, done.stderr) == (2, words)
    assert len(runs(terminal)) == 1
