"""Rows of planted causes, from repeats with given findings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.findings.launches import findings_in, launch, result_of, without_caches
from benchmarks.findings.planted import MODELS, Plant, combined, has_location, plants
from benchmarks.findings.planted import summary as summary_of
from compile_hud.db.records.findings import Finding, Location

BREAK = next(item for item in plants() if item.code == "graph-break")
SORT = next(item for item in plants() if item.code == "extern-fallback")


def repeat(cost_s: float | None, *, saved_s: float, **fields: Any) -> dict[str, Any]:
    flags = {"is_named": True, "has_location": True, "is_in_twin": False, "findings_s": 0.01}
    return {**flags, "cost_s": cost_s, "saved_s": saved_s, **fields}


def row(plant: Plant, *repeats: dict[str, Any]) -> dict[str, Any]:
    return combined(plant, repeats)


def test_the_median_of_the_ratios_decides() -> None:
    costs = [repeat(cost_s, saved_s=1.0) for cost_s in (0.9, 1.1, 5.0)]
    assert row(SORT, *costs)["cost_over_saving"] == pytest.approx(1.1)
    assert row(SORT, *costs)["is_within_tolerance"]
    assert not row(SORT, repeat(1.3, saved_s=1.0))["is_within_tolerance"]


def test_a_cause_without_a_cost_has_no_ratio() -> None:
    assert row(BREAK, repeat(None, saved_s=1.0))["cost_over_saving"] is None


def test_a_cause_that_is_not_named_counts_against_the_share() -> None:
    missed = repeat(None, saved_s=1.0, is_named=False, has_location=False, is_in_twin=True)
    rows = [row(SORT, repeat(1.0, saved_s=1.0), missed), row(BREAK, repeat(None, saved_s=1.0))]
    figures = summary_of(rows, [{"findings": [{}], "findings_s": 0.2}])
    assert figures["named_share"] == pytest.approx(2 / 3)
    assert (figures["num_in_twins"], figures["num_findings_of_models"]) == (1, 1)
    assert figures["max_findings_s"] == 0.2


def test_a_location_is_the_planted_line_or_operator() -> None:
    lines = MODELS.read_text(encoding="ascii").splitlines()
    number = next(index for index, text in enumerate(lines, 1) if BREAK.line in text)

    def at(line: str, operators: tuple[str, ...] = ()) -> Finding:
        where = Location(line=line, operators=operators)
        return Finding(code="", text="", cost_s=None, where=where, remedy="", evidence=())

    assert has_location(BREAK, at(f"{MODELS.name}:{number}"))
    assert not has_location(BREAK, at(f"{MODELS.name}:1"))
    assert has_location(SORT, at("", ("sort",)))
    assert not has_location(SORT, at("", ("cumsum",)))


@pytest.mark.nightly
@pytest.mark.parametrize("code", ["graph-break", "not-compiled"])
def test_a_launch_in_this_process_has_the_findings_of_its_compilation(
    code: str, tmp_path: Path
) -> None:
    plant = next(item for item in plants() if item.code == code)
    with without_caches():
        findings = findings_in(result_of(launch(plant.planted, tmp_path)))
    named = [item for item in findings if item.code == code]
    assert [has_location(plant, item) for item in named] == [True]
