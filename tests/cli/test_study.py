from __future__ import annotations

from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.runner.analysis.studies.catalog import STUDIES
from compile_hud.runner.analysis.studies.study import Study, StudyCases, TableSpec
from tests.support.terminal import Terminal

STUDY = Study(
    name="mine",
    title="Mine",
    question="How long does it take?",
    cases={
        device: StudyCases(
            models=("net", "fails"), variants=("eager", "default", "no-such"), shapes=(shape,)
        )
        for device, shape in (("cpu", "small"), ("cuda", "full"))
    },
    tables=(TableSpec(title="Latency", rows="model", metrics=("latency_s",)),),
)


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(STUDIES, "mine", STUDY)
    return Terminal(tmp_path)


def test_list_shows_what_each_study_asks(terminal: Terminal, words: SnapshotAssertion) -> None:
    assert terminal.hud("study", "list").stdout == words
    names = [item["name"] for item in terminal.json("study", "list", "--json")]
    assert names == list(STUDIES)


def test_a_study_is_measured_stored_and_printed(terminal: Terminal) -> None:
    result = terminal.hud("study", "run", "mine")
    assert result.exit_code == 0, result.output
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[3][:7] == ["net", "10.0", "ms", "[9.90", "ms,", "10.1", "ms]"]
    assert lines[4] == ["fails", "1", "failed", "1", "failed"]
    assert ["no-such", "absent:", "not", "in", "the", "plan", "of", "this", "run"] in lines
    (run,) = terminal.json("runs", "--json")
    assert run["suite"] == "study-mine"


def test_json_names_the_run_and_has_the_tables(terminal: Terminal) -> None:
    document = terminal.json("study", "run", "mine", "--json")
    (run,) = terminal.json("runs", "--json")
    assert document["run"] == run["id"]
    assert [row["name"] for row in document["tables"][0]["rows"]] == ["net", "fails"]


def test_a_study_is_narrowed_and_reports_what_it_leaves_out(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    result = terminal.hud("study", "run", "mine", "--model", "net", "--mode", "eager")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == words
    (run,) = terminal.json("runs", "--json")
    assert run["num_planned"] == 1


def test_a_study_runs_on_the_gpu_where_there_is_one(terminal: Terminal) -> None:
    terminal.has_gpu = True
    assert terminal.hud("study", "run", "mine").exit_code == 0
    assert terminal.devices == ["cuda"]


def test_the_page_is_of_the_newest_run(terminal: Terminal) -> None:
    terminal.hud("study", "run", "mine")
    terminal.latency_s = 0.020
    terminal.hud("study", "run", "mine")
    text = terminal.hud("study", "page", "mine").stdout
    assert text.startswith(f"# {STUDY.title}\n\n{STUDY.question}\n")
    assert "| `net` | 20.0 ms [19.8 ms, 20.2 ms] |" in text
    assert text.count("## On ") == 1


def test_the_page_of_a_named_run_is_written_to_a_file(terminal: Terminal) -> None:
    first = terminal.json("study", "run", "mine", "--json")["run"]
    terminal.latency_s = 0.020
    terminal.hud("study", "run", "mine")
    result = terminal.hud("study", "page", "mine", "--run", first, "--out", "mine.md")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert "| `net` | 10.0 ms" in (terminal.folder / "mine.md").read_text()


def test_a_page_without_a_run_explains_how_to_get_one(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    terminal.hud("run", "--suite", "mine")
    result = terminal.hud("study", "page", "mine")
    assert result.exit_code == 2
    assert result.stderr == words


def test_a_run_of_another_suite_is_refused(terminal: Terminal, words: SnapshotAssertion) -> None:
    terminal.hud("run", "--suite", "mine")
    result = terminal.hud("study", "page", "mine", "--run", "latest")
    assert result.exit_code == 2
    assert result.stderr == words


def test_a_page_that_cannot_be_written_is_one_line(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    terminal.hud("study", "run", "mine")
    result = terminal.hud("study", "page", "mine", "--out", "no/such/page.md")
    assert result.exit_code == 2
    assert result.stderr == words


def test_an_unknown_study_is_one_line(terminal: Terminal, words: SnapshotAssertion) -> None:
    result = terminal.hud("study", "run", "min")
    assert result.exit_code == 2
    assert result.stderr == words
