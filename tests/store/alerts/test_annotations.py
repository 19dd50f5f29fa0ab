"""Annotations: stored once, removed on record, written by `hud annotate` too."""

from __future__ import annotations

import dataclasses
import getpass
import json
from datetime import timedelta
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.alerts.annotations import (
    Annotation,
    concerning,
    load_annotations,
    new_annotation,
    put_annotations,
    remove_annotation,
)
from compile_hud.db.errors import NotFoundError, RecordError
from compile_hud.db.store import Store
from tests.support.builders import START, make_case
from tests.support.terminal import Terminal

CASE = make_case("bert").key


def make_annotation(
    text: str = "new driver", *, pattern: str = "*", **values: object
) -> Annotation:
    """Return an annotation of the start of time."""
    annotation = new_annotation(text, at=START, pattern=pattern, by="ada", made_at=START)
    return dataclasses.replace(annotation, **values)  # type: ignore[arg-type]


def test_what_is_written_twice_is_stored_once_with_its_first_author(store: Store) -> None:
    first, again = make_annotation(), make_annotation(made_at=START + timedelta(days=1))
    assert put_annotations(store, [first, again]) == 1
    assert put_annotations(store, [again]) == 0
    assert load_annotations(store) == (first,)


def test_annotations_come_by_their_date(store: Store) -> None:
    late, early = make_annotation("late", at=START + timedelta(days=2)), make_annotation("early")
    put_annotations(store, [late, early])
    assert [item.text for item in load_annotations(store)] == ["early", "late"]


def test_what_is_removed_stays_on_record_and_is_removed_once(store: Store) -> None:
    put_annotations(store, [make_annotation()])
    before = store.store_version()
    assert remove_annotation(store, make_annotation().id, by="tom", at=START)
    assert store.store_version() > before
    assert not remove_annotation(
        store, make_annotation().id, by="eve", at=START + timedelta(days=1)
    )
    assert load_annotations(store) == ()
    (annotation,) = load_annotations(store, with_removed=True)
    assert (annotation.by, annotation.removed_by, annotation.removed_at) == ("ada", "tom", START)
    # Said again, it stays removed.
    assert put_annotations(store, [make_annotation()]) == 0
    with pytest.raises(NotFoundError) as caught:
        remove_annotation(store, "x", by="tom", at=START)
    assert caught.value.parameters == {"annotation": "x", "store": store.name}


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [("*", True), ("bert/*", True), (f"{CASE}#latency_s", True), ("gpt2/*", False), ("ber", False)],
)
def test_an_annotation_concerns_a_series_a_model_or_all(pattern: str, fits: bool) -> None:
    annotations = concerning([make_annotation(pattern=pattern)], case_key=CASE, metric="latency_s")
    assert bool(annotations) is fits


def test_text_that_no_database_takes_is_stored_as_far_as_it_goes(store: Store) -> None:
    put_annotations(store, [make_annotation("a\0b \ud800 <script>")])
    assert load_annotations(store)[0].text == "a\N{REPLACEMENT CHARACTER}b ? <script>"


@pytest.mark.parametrize(
    "change",
    [{"text": " "}, {"text": "x" * 1001}, {"pattern": ""}],
    ids=["no-text", "long-text", "no-pattern"],
)
def test_an_annotation_without_text_or_pattern_is_refused(
    change: dict[str, str], words: SnapshotAssertion
) -> None:
    assert Annotation.from_json(make_annotation().to_json()) == make_annotation()
    with pytest.raises(RecordError) as caught:
        Annotation.from_json({**make_annotation().to_json(), **change})
    assert str(caught.value) == words


@pytest.fixture
def terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return a terminal in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return Terminal(tmp_path)


def test_the_command_line_writes_lists_and_removes(
    terminal: Terminal, words: SnapshotAssertion
) -> None:
    added = terminal.hud("annotate", "add", "2026-01-05", "new driver", "--series", "bert/*")
    id = added.stdout.split()[1]
    assert added.stdout == f"annotation {id} at 2026-01-05 00:00 UTC\n"
    again = terminal.hud("annotate", "add", "2026-01-05", "new driver", "--series", "bert/*")
    assert again.stdout.replace(id, "<id>") == words(name="added again")
    listed = terminal.hud("annotate", "list").stdout
    me = getpass.getuser()
    assert listed == f"{id}  2026-01-05 00:00  bert/*  {me}: new driver\n"
    assert terminal.hud("annotate", "remove", id, "--by", "tom").stdout == "removed\n"
    assert terminal.hud("annotate", "remove", id).stdout == words
    assert "nothing is annotated" in terminal.hud("annotate", "list").stderr
    assert "(removed by tom)" in terminal.hud("annotate", "list", "--all").stdout


def test_control_characters_of_a_page_are_listed_as_question_marks(terminal: Terminal) -> None:
    made = new_annotation("new \x1b[31mdriver", at=START, pattern="*", by="eve", made_at=START)
    put_annotations(terminal.store(), [made])
    assert terminal.hud("annotate", "list").stdout.endswith(" eve: new ?[31mdriver\n")


def test_what_is_exported_is_replayed_elsewhere_once(terminal: Terminal) -> None:
    terminal.hud("annotate", "add", "2026-01-05", "new driver")
    id = terminal.hud("annotate", "add", "2026-01-06", "moved").stdout.split()[1]
    terminal.hud("annotate", "remove", id)
    out = terminal.hud("annotate", "list", "--all", "--json").stdout
    Path("said.json").write_text(out, encoding="utf-8")
    other = "--store=duckdb:///other.duckdb"
    assert terminal.hud("annotate", "replay", "said.json", other).stdout.startswith("2 ")
    assert terminal.hud("annotate", "replay", "said.json", other).stdout.startswith("no ")
    assert terminal.hud("annotate", "list", "--all", "--json", other).stdout == out


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ({}, "hud: bad.json is no list of annotations. `hud annotate list --all --json` writes"),
        ([{"id": "x"}], "hud: bad.json, 1: field 'at' is missing"),
    ],
)
def test_an_invalid_file_is_refused(terminal: Terminal, content: object, problem: str) -> None:
    Path("bad.json").write_text(json.dumps(content), encoding="utf-8")
    result = terminal.hud("annotate", "replay", "bad.json")
    assert result.exit_code == 2
    assert result.stderr.startswith(problem)


def test_an_empty_text_is_refused(terminal: Terminal, words: SnapshotAssertion) -> None:
    result = terminal.hud("annotate", "add", "2026-01-05", " ")
    assert result.exit_code == 2
    assert result.stderr == words
