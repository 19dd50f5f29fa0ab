"""Characters that no database stores, in text that other people wrote or typed."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.errors import RecordError
from compile_hud.db.queries.results import load_document
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.kernels import KernelSource, Origin
from compile_hud.db.records.results import RunDocument
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.store import Store
from tests.support.builders import make_document, make_kernel, make_result, make_run
from tests.support.terminal import Terminal

BAD = "a\ud800b"
# Texts that are only shown, in which it is replaced; the others name something.
SHOWN = {"method", "reason", "log_tail", "details", "environment", "warnings", "kernels", "sources"}
# Names of one of our own lists, and times.
CLOSED = {"state", "phase", "dtype", "outcome", "started_at", "finished_at"}

JsonPath = tuple[str | int, ...]


def whole_document(run_id: str = "run-1") -> Any:
    """Return a document with a text in every field that takes one."""
    run = make_run(run_id)
    origin = Origin(node="add", target="t", module="m", file="f", line=1, code="c")
    kernel = make_kernel(source_hash="h", shapes="[1]").to_json()
    result = make_result(
        f"{run_id}-1",
        run=run,
        reason="r",
        log_tail="l",
        details={"a": ["b", {"c": "d"}]},
        warnings=[RunWarning(code="c", text="t", hint="h")],
        sources=[KernelSource(hash="h", language="triton", text="t")],
    )
    document = make_document(run, results=[result]).to_json()
    launch = {"grid": "1"}
    kernel |= {"module": "m", "config": {"k": "v"}, "launch": launch, "origins": [origin.to_json()]}
    document["results"][0]["kernels"] = [kernel]
    return document


def texts(value: Any, sandbox: JsonPath = ()) -> Iterator[JsonPath]:
    """Yield where the texts in `value` are."""
    if isinstance(value, str):
        yield sandbox
    elif isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from texts(item, (*sandbox, key))


def spoil(document: Any, sandbox: JsonPath, *, text: str) -> None:
    """Put `text` in `place`."""
    *way, last = sandbox
    for key in way:
        document = document[key]
    document[last] = text


def is_shown(sandbox: JsonPath) -> bool:
    return any(key in SHOWN for key in sandbox)


def test_a_name_with_a_bad_character_is_refused_whatever_it_names() -> None:
    document = whole_document()
    places = [path for path in texts(document) if not is_shown(path)]
    assert len(places) > 30
    for text in (BAD, "a\0b"):
        for path in places:
            spoiled = copy.deepcopy(document)
            spoil(spoiled, path, text=text)
            message = "allowed: |ISO 8601" if path[-1] in CLOSED else "no name has a NUL character"
            with pytest.raises(RecordError, match=rf"(^|: )field '{path[-1]}' .*({message})"):
                RunDocument.from_json(spoiled)


@pytest.mark.parametrize("text", [BAD, "a\0b"])
def test_bad_characters_in_what_is_only_shown_are_replaced(store: Store, text: str) -> None:
    document = whole_document()
    places = [path for path in texts(document) if is_shown(path)]
    assert len(places) > 20
    for path in places:
        spoil(document, path, text=text)
    read = RunDocument.from_json(document)
    assert store.ingest_all(read.run, [("a", result) for result in read.results]) == 1
    stored = load_document(store, "run-1").to_json()
    assert stored["results"][0]["log_tail"] in ("a?b", "a\ufffdb")


@pytest.mark.parametrize("text", [BAD, "a\0b"])
def test_a_file_with_a_bad_name_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: SnapshotAssertion
) -> None:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    bad, good = whole_document("bad"), whole_document("good")
    bad["run"]["suite"] = text
    Path("bad.json").write_text(json.dumps(bad))
    Path("good.json").write_text(json.dumps(good))
    done = terminal.hud("ingest", "bad.json", "good.json")
    assert done.exit_code == 2
    assert done.stderr.startswith("hud: bad.json ")
    assert f"field 'suite' is {text!r}" in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.stdout == words(name="stdout")
    assert [summary.run.id for summary in load_runs(terminal.store())] == ["good"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["show", BAD],
        ["show", "a", BAD],
        ["alerts", "show", BAD],
        ["alerts", "ack", "a", BAD],
        ["compare", "latest", BAD],
        ["kernels", "diff", BAD, "a"],
        ["annotate", "add", "2026-01-01", BAD],
        ["annotate", "add", "2026-01-01", "a", "--by", BAD],
        ["export", "--format", "v3", BAD],
        ["runs", "--store", BAD],
    ],
)
def test_what_is_typed_in_no_utf_8_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    done = Terminal(tmp_path).hud(*arguments)
    assert done.exit_code == 2
    assert f"{BAD!r} is no text" in done.stderr
    assert not (tmp_path / ".hud").exists()


def test_a_list_with_a_bad_name_is_not_replayed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    terminal = Terminal(tmp_path)
    terminal.hud("annotate", "add", "2026-01-01", "a new driver")
    (annotation,) = terminal.json("annotate", "list", "--json")
    Path("a.json").write_text(json.dumps([annotation | {"id": BAD}]))
    done = terminal.hud("annotate", "replay", "a.json")
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert "a.json, 1: field 'id' is " in done.stderr
