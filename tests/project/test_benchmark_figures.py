"""Figures in the documents are those of the committed benchmark results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def words(name: str) -> str:
    return " ".join((ROOT / name).read_text(encoding="ascii").split())


def result(name: str) -> Any:
    path = ROOT / "benchmarks" / "results" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8"))


def test_trials_of_paired_comparisons_are_told_as_they_came_out() -> None:
    summary = result("precision_trials")["summary"]
    same, planted = summary["same_code"], summary["planted_5_percent"]
    text = words("docs/judging.md")
    assert f"{same['num_false_verdicts']} of {same['num_trials']} comparisons of equal code" in text
    assert f"found in {planted['num_found']} of {planted['num_trials']}" in text
    seconds = [round(side["median_seconds"]) for side in (same, planted)]
    assert "in a median of {} and {} seconds".format(*seconds) in text
