from __future__ import annotations

import json
from pathlib import Path

import pytest

from db.errors import RecordError
from db.queries import load_runs
from runner import documents
from runner.documents import read_document, read_json
from runner.spool import Spool
from tests.builders import make_case, make_document, make_result, make_run
from tests.integration.terminal import Terminal

# Deeper than any interpreter follows.
NESTED = "[" * 200_000


def test_json_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": [1]}')
    assert read_json(path) == {"a": [1]}


@pytest.mark.parametrize("content", ["{", "\xff"])
def test_what_is_no_json_is_a_record_error(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(RecordError, match=r"a\.json is not whole JSON: "):
        read_json(path)


def test_what_is_nested_too_deeply_is_said_in_our_own_words(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(NESTED)
    with pytest.raises(RecordError, match=r"^a\.json is not whole JSON: it is nested too deeply$"):
        read_json(path)


def test_what_is_larger_than_any_run_is_not_even_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    path.write_text("[1, 2, 3]", encoding="ascii")
    monkeypatch.setattr(documents, "MAX_JSON_BYTES", 9)
    assert read_json(path) == [1, 2, 3]
    monkeypatch.setattr(documents, "MAX_JSON_BYTES", 8)
    with pytest.raises(RecordError, match=r"a\.json is larger than 8 bytes"):
        read_json(path)


def test_a_result_file_that_is_none_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("{}")
    with pytest.raises(RecordError, match=rf"{path} is no result file of `hud run --json`: "):
        read_document(path)


@pytest.mark.parametrize("command", [["compare", "a.json", "a.json"], ["ingest", "a.json"]])
def test_a_nested_file_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.json").write_text(NESTED)
    result = Terminal(tmp_path).hud(*command)
    assert result.exit_code == 2
    assert "a.json is no result file of `hud run --json`: a.json is not whole" in result.stderr
    assert result.stderr.count("\n") == 1


def test_compare_names_a_file_that_may_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(_path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.json").touch()
    terminal = Terminal(tmp_path)
    monkeypatch.setattr(documents, "read_json", forbidden)
    result = terminal.hud("compare", "a.json", "a.json")
    assert result.exit_code == 2
    assert "cannot read a.json: [Errno 13] Permission denied" in result.stderr


def test_a_nested_file_in_the_spool_blocks_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    spool = Spool(tmp_path / ".hud" / "spool")
    spool.directory.mkdir(parents=True)
    (spool.directory / "1.json").write_text(NESTED)
    report = spool.drain(terminal.store())
    assert ["1.json is not whole JSON" in broken.reason for broken in report.broken] == [True]
    assert spool.pending() == ()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "wrong",
            "'wrong' is no result file, no run and no revision in the store .hud/store.duckdb."
            " `hud runs` lists what there is",
        ),
        ("run", "more than one run starts with 'run': run-2, run-1, ... Name one whole"),
    ],
)
def test_a_side_that_is_nowhere_is_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    for number in (1, 2):
        terminal.store().save_run(make_run(f"run-{number}"))
    result = terminal.hud("compare", "run-1", name)
    assert (result.exit_code, result.stderr) == (2, f"hud: {told}\n")


def test_the_latest_run_of_an_empty_store_is_told_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = "hud: no run in the store .hud/store.duckdb yet. `hud run` makes one\n"
    assert Terminal(tmp_path).hud("compare", "latest", "latest").stderr == told


def test_a_run_goes_in_as_one_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    store = terminal.store()
    store.migrate()
    before = store.generation()
    results = [make_result(name, case=make_case(name)) for name in ("bert", "vit", "t5")]
    document = make_document(make_run(), results=results).to_json()
    Path("a.json").write_text(json.dumps(document), encoding="utf-8")
    assert terminal.json("ingest", "a.json", "--json")["ingested"] == 3
    # Each command looks at the schema once, which counts as well.
    assert (store.generation(), len(load_runs(store))) == (before + 2, 1)
    # Of one that is not whole nothing stays.
    document["run"]["id"] = document["results"][0]["run_id"] = "run-2"
    document["results"][0]["id"] = "other"
    Path("a.json").write_text(json.dumps(document), encoding="utf-8")
    assert terminal.hud("ingest", "a.json").exit_code == 2
    assert len(load_runs(store)) == 1
