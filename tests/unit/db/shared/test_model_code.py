"""The revisions of models' code, and their changes."""

from __future__ import annotations

from typing import Any

import pytest

from compile_hud.db.records.results import Run
from compile_hud.db.shared.model_code import (
    code_change_text,
    code_changes,
    own_revisions,
    revision_of,
    revisions_text,
)
from tests.support.builders import make_run


def run_of(commits: Any) -> Run:
    return make_run(environment={"model_commits": commits})


@pytest.mark.parametrize(
    ("commits", "text"),
    [
        ({"models_zoo": "aaaa"}, ""),
        ({"models_zoo": "aaaa", "net": "abc+dirty(5f3a)"}, "abc+dirty(5f3a)"),
        ({"a": "abc", "b": "abc"}, "abc (2 models)"),
        ({"a": "abc", "b": "def"}, "a abc, b def"),
        # Facts come from files of other programs, too.
        (None, ""),
        (["abc"], ""),
        ({"net": None}, ""),
    ],
)
def test_the_revisions_of_own_models_have_a_text(commits: Any, text: str) -> None:
    assert revisions_text(run_of(commits)) == text
    assert ("models_zoo" in own_revisions(run_of(commits))) is False


def test_only_known_and_different_code_has_changed() -> None:
    before = run_of({"models_zoo": "a", "net": "b", "same": "c", "gone": "d", "other": "e"})
    after = run_of({"models_zoo": "z", "net": "y", "same": "c", "new": "x", "other": "w"})
    models = ["same", "net", "gone", "new", "bert"]
    (change,) = code_changes(before, candidate=after, models=models)
    assert change.to_json() == {"model": "net", "baseline": "b", "candidate": "y"}
    assert change.text == code_change_text("b", "y")
    assert code_changes(make_run(), candidate=after, models=models) == ()


def test_a_model_of_the_catalog_has_the_revision_of_the_catalog() -> None:
    commits = {"models_zoo": "a", "net": "b"}
    assert [revision_of(commits, name) for name in ("net", "bert")] == ["b", "a"]
    assert revision_of({}, "bert") == ""
