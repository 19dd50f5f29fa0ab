"""The recorded attention calls cover the zoo, and each difference has a reason."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from compile_hud.models_zoo.catalog.catalog import CATALOG

RESULT = Path(__file__).parents[3] / "benchmarks" / "results" / "attention_fidelity.json"


def rows() -> list[dict[str, Any]]:
    recorded: list[dict[str, Any]] = json.loads(RESULT.read_text(encoding="utf-8"))["rows"]
    return recorded


def test_every_model_that_has_attention_on_a_cpu_is_recorded() -> None:
    expected = {
        name
        for name, spec in CATALOG.items()
        if spec.family != "kernel" and name != "flex_attention"
    }
    assert {row["model"] for row in rows()} == expected


def test_eager_and_compiled_call_attention_equally_often() -> None:
    totals = [[sum(row[side].values()) for side in ("eager", "compiled")] for row in rows()]
    assert all(eager == compiled for eager, compiled in totals)
    assert sum(eager > 0 for eager, _ in totals) > 20


def test_each_difference_has_a_note_and_each_note_a_difference() -> None:
    differing = {row["model"] for row in rows() if row["eager"] != row["compiled"]}
    noted = {name for name, spec in CATALOG.items() if spec.attention_note}
    assert noted - {"flex_attention"} == differing


@pytest.mark.parametrize("note", sorted({spec.attention_note for spec in CATALOG.values()} - {""}))
def test_a_note_names_the_upstream_issue(note: str) -> None:
    assert re.search(r"\([a-z-]+/[a-z-]+#\d+\)\.$", note)
