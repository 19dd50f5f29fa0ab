from __future__ import annotations

import gzip
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.errors import RecordError, StoreFull
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.results import CaseResult, Run, RunDocument
from compile_hud.db.store import Store
from compile_hud.runner.files import json_files as documents
from compile_hud.runner.files.json_files import read_document, read_json
from compile_hud.runner.persistence.spool import Spool
from tests.support.builders import make_case, make_document, make_result, make_run
from tests.support.terminal import Terminal

ROOT = Path(__file__).resolve().parents[3]
# Deeper than any interpreter follows.
NESTED = "[" * 200_000


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return a terminal in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path)


def test_json_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"a": [1]}')
    assert read_json(path) == {"a": [1]}


@pytest.mark.parametrize("content", ["{", "\xff", '{"a": NaN}', "[-Infinity]"])
def test_invalid_json_is_a_record_error(
    tmp_path: Path, content: str, words: SnapshotAssertion
) -> None:
    path = tmp_path / "a.json"
    path.write_text(content, encoding="latin-1")
    with pytest.raises(RecordError) as caught:
        read_json(path)
    assert str(caught.value) == words


def test_json_nested_too_deeply_is_a_record_error(tmp_path: Path, words: SnapshotAssertion) -> None:
    path = tmp_path / "a.json"
    path.write_text(NESTED)
    with pytest.raises(RecordError) as caught:
        read_json(path)
    assert caught.value.parameters == {"path": "a.json", "problem": "too-deep", "most": 100}
    assert str(caught.value) == words


def test_a_file_larger_than_any_run_is_not_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    path = tmp_path / "a.json"
    path.write_text("[1, 2, 3]", encoding="ascii")
    monkeypatch.setattr(documents, "MAX_JSON_BYTES", 9)
    assert read_json(path) == [1, 2, 3]
    monkeypatch.setattr(documents, "MAX_JSON_BYTES", 8)
    with pytest.raises(RecordError) as caught:
        read_json(path)
    assert caught.value.parameters == {"path": "a.json"}
    assert str(caught.value) == words


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_pipe_is_read(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    # As `hud ingest <(...)` gives one, which cannot be read twice.
    path = tmp_path / "pipe"
    os.mkfifo(path)
    writer = threading.Thread(target=path.write_bytes, args=(pack(b"[1, 2, 3]"),))
    writer.start()
    assert read_json(path) == [1, 2, 3]
    writer.join()


def test_gzip_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    # By what it is, not by its name.
    path = tmp_path / "a.json"
    path.write_bytes(gzip.compress(b"[1, 2, 3]"))
    monkeypatch.setattr(documents, "MAX_JSON_BYTES", 9)
    assert read_json(path) == [1, 2, 3]
    # What counts is what it is unpacked: a few bytes may become any number.
    path.write_bytes(gzip.compress(b"[" + b" " * 100_000 + b"]"))
    with pytest.raises(RecordError) as caught:
        read_json(path)
    assert caught.value.parameters == {"path": "a.json"}
    assert str(caught.value) == words


def test_gzip_that_is_damaged_or_cut_off_is_a_record_error(
    tmp_path: Path, words: SnapshotAssertion
) -> None:
    path = tmp_path / "a.json.gz"
    whole = gzip.compress(b'{"a": "%s"}' % bytes(range(65, 91)))
    for content in (whole[:-9], whole[:12] + b"\xff\xff\xff" + whole[15:], whole[:2]):
        path.write_bytes(content)
        with pytest.raises(RecordError) as caught:
            read_json(path)
        assert caught.value.parameters["path"] == "a.json.gz"
        assert str(caught.value) == words


def test_an_invalid_result_file_is_refused_by_name(
    tmp_path: Path, words: SnapshotAssertion
) -> None:
    path = tmp_path / "a.json"
    path.write_text("{}")
    with pytest.raises(RecordError) as caught:
        read_document(path)
    assert str(caught.value) == words


@pytest.mark.parametrize("command", [["compare", "a.json", "a.json"], ["ingest", "a.json"]])
def test_a_nested_file_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str], words: SnapshotAssertion
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.json").write_text(NESTED)
    result = Terminal(tmp_path).hud(*command)
    assert result.exit_code == 2
    assert result.stderr == words
    assert result.stderr.count("\n") == 1


def test_compare_names_a_file_that_may_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    def forbidden(_path: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.json").touch()
    terminal = Terminal(tmp_path)
    monkeypatch.setattr(documents, "read_json", forbidden)
    result = terminal.hud("compare", "a.json", "a.json")
    assert result.exit_code == 2
    assert result.stderr == words


def test_a_nested_file_in_the_spool_blocks_no_other(terminal: Terminal) -> None:
    spool = Spool(terminal.folder / ".hud" / "spool")
    spool.directory.mkdir(parents=True)
    (spool.directory / "1.json").write_text(NESTED)
    report = spool.drain(terminal.store())
    assert ["1.json" in broken.reason for broken in report.broken] == [True]
    assert spool.pending() == ()


@pytest.mark.parametrize(
    "name",
    [
        "wrong",
        "run",
    ],
)
def test_a_side_that_is_nowhere_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, words: SnapshotAssertion
) -> None:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    for number in (1, 2):
        terminal.store().save_run(make_run(f"run-{number}"))
    result = terminal.hud("compare", "run-1", name)
    assert result.exit_code == 2
    assert result.stderr == words


def test_the_latest_run_of_an_empty_store_is_reported_as_such(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    message = "hud: no run in the store .hud/store.duckdb yet. `hud run` makes one\n"
    terminal = Terminal(tmp_path)
    terminal.store().migrate()
    assert terminal.hud("compare", "latest", "latest").stderr == message


def test_two_sides_that_are_nowhere_are_named_in_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    terminal.store().save_run(make_run("nightly-1"))
    for names in (("wrong", "{}.json"), ("nightl-1", "wrong"), ("wrong", "wrong")):
        result = terminal.hud("compare", *names)
        assert result.exit_code == 2
        assert all(name in result.stderr for name in names)
        assert result.stderr == words


@pytest.mark.parametrize("content", ["{}", "[1]", "[]", "1"])
@pytest.mark.parametrize("command", [["compare", "a.json", "a.json"], ["ingest", "a.json"]])
def test_a_json_file_that_is_no_result_is_an_error_with_a_next_step(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
    content: str,
    words: SnapshotAssertion,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.json").write_text(content)
    result = Terminal(tmp_path).hud(*command)
    assert result.exit_code == 2
    assert "`hud run --json PATH` writes one" in result.stderr
    assert result.stderr.count("a.json") == 1
    assert result.stderr == words


def test_a_run_goes_in_as_one_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    store = terminal.store()
    store.migrate()
    before = store.store_version()
    results = [make_result(name, case=make_case(name)) for name in ("bert", "vit", "t5")]
    document = make_document(make_run(), results=results).to_json()
    Path("a.json").write_text(json.dumps(document), encoding="utf-8")
    assert terminal.json("ingest", "a.json", "--json")["ingested"] == 3
    # Each command looks at the schema once, which counts as well.
    assert (store.store_version(), len(load_runs(store))) == (before + 2, 1)
    # Of one that is not whole nothing stays.
    document["run"]["id"] = document["results"][0]["run_id"] = "run-2"
    document["results"][0]["id"] = "other"
    Path("a.json").write_text(json.dumps(document), encoding="utf-8")
    assert terminal.hud("ingest", "a.json").exit_code == 2
    assert len(load_runs(store)) == 1


def write_run(path: str, *, run_id: str, of_run: str = "") -> None:
    document = make_document(make_run(run_id), results=[make_result(f"{run_id}-1")]).to_json()
    document["results"][0]["run_id"] = of_run or run_id
    Path(path).write_text(json.dumps(document), encoding="utf-8")


def test_a_file_with_a_mistake_is_reported_by_name_and_the_others_are_stored(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    write_run("a.json", run_id="a")
    Path("broken.json").write_text("{")
    write_run("mixed.json", run_id="m", of_run="other")
    write_run("b.json", run_id="b")
    files = ["a.json", "broken.json", "mixed.json", "b.json"]
    done = terminal.hud("ingest", *files)
    assert done.exit_code == 2
    first, second = done.stderr.splitlines()
    assert first == words
    assert second == words
    assert done.stdout == (words)
    assert {summary.run.id for summary in load_runs(terminal.store())} == {"a", "b"}
    again = json.loads(terminal.hud("ingest", *files, "--json").stdout)
    assert (again["ingested"], again["duplicates"]) == (0, 2)
    assert [item["file"] for item in again["errors"]] == ["broken.json", "mixed.json"]


def test_missing_and_empty_files_are_reported_and_the_others_stored(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    write_run("a.json", run_id="a")
    write_run("b.json", run_id="b")
    Path("folder").mkdir()
    Path("empty.json").write_text("[]")
    done = terminal.hud("ingest", "missing.json", "a.json", "folder", "empty.json", "b.json")
    assert done.exit_code == 2
    assert done.stderr.splitlines() == words
    assert done.stdout == words
    assert {summary.run.id for summary in load_runs(terminal.store())} == {"a", "b"}


def test_an_error_about_a_file_has_a_bounded_length(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    write_run("phase.json", run_id="a")
    document = json.loads(Path("phase.json").read_text())
    document["results"][0]["case"]["phase"] = "p" * 5000
    Path("phase.json").write_text(json.dumps(document))
    write_run("mixed.json", run_id="m", of_run="o" * 5000)
    done = terminal.hud("ingest", "phase.json", "mixed.json")
    first, second = done.stderr.splitlines()
    assert first == words
    assert second == words


def test_a_full_store_is_reported_with_what_it_took(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    names = ["a", "b", "c"]
    for name in names:
        write_run(f"{name}.json", run_id=name)
    ingest_all = Store.ingest_all

    def until_full(store: Store, run: Run, results: Iterable[tuple[str, CaseResult]]) -> int:
        if run.id != "a":
            raise StoreFull("no room left")
        return ingest_all(store, run, results)

    monkeypatch.setattr(Store, "ingest_all", until_full)
    done = terminal.hud("ingest", *(f"{name}.json" for name in names))
    assert done.exit_code == 2
    assert done.stderr.splitlines() == words


def test_a_run_of_the_future_is_refused(terminal: Terminal, words: SnapshotAssertion) -> None:
    starts = {"far": "9999-12-31T23:59:00+00:00", "soon": "2026-01-02T02:30:00+00:00"}
    for name, started_at in starts.items():
        write_run(f"{name}.json", run_id=name)
        document = json.loads(Path(f"{name}.json").read_text())
        document["run"]["started_at"] = started_at
        Path(f"{name}.json").write_text(json.dumps(document))
    done = terminal.hud("ingest", "far.json", "soon.json")
    assert done.exit_code == 2
    assert done.stderr == words
    assert [summary.run.id for summary in load_runs(terminal.store())] == ["soon"]


LATER = "2199-01-01T00:00:00+00:00"
TOO_LATE = (
    " at 2199-01-01 00:00 UTC, more than a day after now (2026-01-01 02:30 UTC). Look at the clock"
    " of the machine that measured it"
)


@pytest.mark.parametrize(
    ("part", "key", "at"),
    [
        ("run", "finished_at", LATER),
        (
            "run",
            "started_at",
            "0001-01-01T00:00:00+00:00",
        ),
        (
            "run",
            "finished_at",
            "2026-01-01T02:28:59+00:00",
        ),
        ("result", "started_at", LATER),
        ("result", "finished_at", LATER),
        (
            "result",
            "finished_at",
            "2025-01-01T00:00:00+00:00",
        ),
    ],
)
def test_impossible_times_are_refused(
    terminal: Terminal, part: str, key: str, at: str, words: SnapshotAssertion
) -> None:
    write_run("r.json", run_id="r")
    document = json.loads(Path("r.json").read_text())
    section = document["run"] if part == "run" else document["results"][0]
    section[key] = at
    Path("r.json").write_text(json.dumps(document))
    done = terminal.hud("ingest", "r.json")
    assert done.exit_code == 2
    assert done.stderr == words
    assert load_runs(terminal.store()) == []


def test_a_clock_that_was_set_back_while_it_was_measured_by_costs_nothing(
    terminal: Terminal,
) -> None:
    write_run("r.json", run_id="r")
    document = json.loads(Path("r.json").read_text())
    document["run"]["finished_at"] = "2026-01-01T02:29:59.5+00:00"
    document["results"][0]["finished_at"] = "2026-01-01T02:29:00+00:00"
    Path("r.json").write_text(json.dumps(document))
    assert terminal.hud("ingest", "r.json").exit_code == 0


def test_what_is_measured_while_a_pipe_is_waited_for_is_not_of_the_future(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run("r.json", run_id="r")
    document = json.loads(Path("r.json").read_text())
    document["run"]["finished_at"] = "2026-01-02T03:00:00+00:00"
    Path("r.json").write_text(json.dumps(document))

    def read_late(path: Path) -> list[RunDocument]:
        terminal.clock.advance(25 * 3600)
        return documents.read_documents(path)

    monkeypatch.setattr("compile_hud.runner.cli.maintenance.read_documents", read_late)
    assert terminal.hud("ingest", "r.json").exit_code == 0


def test_a_run_without_results_has_none(terminal: Terminal, words: SnapshotAssertion) -> None:
    write_run("r.json", run_id="r")
    document = json.loads(Path("r.json").read_text())
    Path("r.json").write_text(json.dumps(document | {"results": []}))
    done = terminal.hud("ingest", "r.json")
    assert done.exit_code == 0
    assert done.stderr == words
    assert [summary.run.id for summary in load_runs(terminal.store())] == ["r"]


def hud_with_input(stdin: int | None, *words: str) -> tuple[int, str, str]:
    """Return what a process says that gets `stdin`, None for none at all."""
    done = subprocess.run(
        [sys.executable, "-m", "compile_hud.runner", *words],
        stdin=stdin,
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT}/src"},
        capture_output=True,
        check=False,
        text=True,
        preexec_fn=None if stdin is not None else lambda: os.close(0),
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.nightly
@pytest.mark.parametrize("is_packed", [False, True])
def test_a_pipe_or_a_socket_is_read_as_a_file_is(
    terminal: Terminal, words: SnapshotAssertion, *, is_packed: bool
) -> None:
    del terminal
    write_run("r.json", run_id="r")
    content = Path("r.json").read_bytes()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(gzip.compress(content) if is_packed else content)
        ours.shutdown(socket.SHUT_WR)
        # However often it is named.
        code, output, error = hud_with_input(theirs.fileno(), "ingest", "-", "-")
    assert code == 0
    assert output == words


def test_an_input_that_is_no_run_is_reported_by_name(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    del terminal
    Path("broken").write_text("{")
    with Path("broken").open() as broken:
        code, output, error = hud_with_input(broken.fileno(), "ingest", "-")
    assert code == 2
    assert output == words
    assert error == words
    code, _, error = hud_with_input(subprocess.DEVNULL, "ingest", "-")
    assert code == 2
    assert error == words
    code, _, error = hud_with_input(None, "ingest", "-")
    assert code == 2
    assert error == words


def test_a_file_may_be_called_like_standard_input(terminal: Terminal) -> None:
    write_run("-", run_id="r")
    assert terminal.json("ingest", "./-", "--json")["ingested"] == 1


def test_an_unreadable_file_of_the_spool_is_reported_once(
    terminal: Terminal, caplog: pytest.LogCaptureFixture
) -> None:
    path = Path(".hud/spool/half.json")
    path.parent.mkdir(parents=True)
    path.write_text("{")
    done = terminal.hud("ingest")
    assert done.exit_code == 1
    assert done.stderr.count("half.json is not whole JSON") == 1
    assert caplog.records == []
