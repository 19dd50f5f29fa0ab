"""The diff of the files of a model that two runs stored."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.kernels import KernelSource
from compile_hud.db.shared.model_code import ModelCodeChange
from compile_hud.db.shared.model_sources import (
    MAX_DIFF_LINES,
    MAX_LINE,
    MODEL_LANGUAGE,
    ModelCodeDiff,
    code_diff,
    source_hash,
    to_text,
)
from tests.support.builders import make_run

CHANGE = ModelCodeChange(model="net", baseline="abc", candidate="abc+dirty(5f3a)")


def source(files: dict[str, str], *, is_cut: bool = False) -> KernelSource:
    return KernelSource(hash="h", language=MODEL_LANGUAGE, text=to_text(files, is_cut=is_cut))


def diff_of(before: KernelSource | None, after: KernelSource | None) -> ModelCodeDiff:
    return code_diff(CHANGE, baseline=before, candidate=after)


def test_the_files_of_both_sides_are_a_unified_diff() -> None:
    before = {"net.py": "a\nb\nc\n", "gone.py": "x", "same.py": "s"}
    after = {"net.py": "a\nB\nc\n", "new.py": "y", "same.py": "s"}
    diff = diff_of(source(before), source(after))
    assert diff.note == ""
    assert {"--- baseline/net.py", "+++ candidate/net.py", "-b", "+B", "-x", "+y"} <= {*diff.lines}
    assert not [line for line in diff.lines if "same.py" in line]
    assert diff.to_json()["diff"] == list(diff.lines)


def test_a_missing_source_is_reported_with_the_setting(words: SnapshotAssertion) -> None:
    notes = [
        diff_of(*sides).note
        for sides in (
            (None, None),
            (source({}), None),
            (source({"a": "x"}), source({"a": "x"})),
            (source({"a": "x"}), source({"a": "y"}, is_cut=True)),
        )
    ]
    assert notes == words


@pytest.mark.parametrize("text", ["", "no JSON", "[1]", '{"files": 3}'])
def test_a_damaged_source_is_a_missing_one(text: str) -> None:
    damaged = KernelSource(hash="h", language=MODEL_LANGUAGE, text=text)
    assert diff_of(damaged, damaged) == diff_of(None, None)


def test_a_diff_is_bounded_and_safe_for_a_terminal() -> None:
    long = "\n".join(f"line {number}" for number in range(5 * MAX_DIFF_LINES))
    hostile = "\x1b[31m" + "w" * 5 * MAX_LINE
    diff = diff_of(source({"a\n\x1b.py": hostile}), source({"a\n\x1b.py": long}))
    assert len(diff.lines) == MAX_DIFF_LINES
    assert "more lines" in diff.note
    assert all(len(line) <= MAX_LINE and "\x1b" not in line for line in diff.lines)
    assert not any("\n" in line for line in diff.lines)


@pytest.mark.parametrize("fact", [None, "x", {"other": "y"}, {"net": None}])
def test_a_run_without_the_fact_has_no_source(fact: object) -> None:
    assert source_hash(make_run(environment={"model_sources": fact}), "net") == ""
