from __future__ import annotations

import dataclasses

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.ui.format import Scale
from compile_hud.app.views.studies.charts import intervals_spec, scatter_spec
from compile_hud.app.views.studies.data import (
    interval_points,
    outcomes_text,
    published_part,
    scatter_points,
    shade,
    study_cell,
    table_part,
)
from compile_hud.db.records.results import Outcome
from compile_hud.runner.analysis.stats.estimates import Estimate
from compile_hud.runner.analysis.studies.catalog import STUDIES
from compile_hud.runner.analysis.studies.study import Published, StudyRun, TableSpec
from compile_hud.runner.analysis.studies.tables import PublishedComparison, StudyCell, study_tables
from tests.support.builders import make_case, make_run
from tests.support.records.studies import make_seen, make_study, speedup

DEFAULT = "default"

RATIO = Scale(1.0, "x")
CELL = StudyCell(
    estimate=Estimate(1.5, 1.4, 1.6),
    least=1.2,
    most=1.9,
    num_common=2,
    num_subjects=3,
    ran_as=(("default", 1),),
    cases=(make_case("bert"), make_case("vit")),
)


def test_a_number_has_its_interval_its_cohort_and_what_ran() -> None:
    cell = study_cell(CELL, scale=RATIO, run_id="r")
    assert cell.text == "1.50x"
    assert [note.text for note in cell.notes] == [
        "[1.40, 1.60]",
        "2 of 3",
        "1.20x to 1.90x",
        f"1 fell back to {DEFAULT}",
    ]
    assert cell.href == ""


def test_a_number_of_one_case_leads_to_it() -> None:
    cell = study_cell(dataclasses.replace(CELL, cases=CELL.cases[:1]), scale=RATIO, run_id="run-1")
    assert cell.href.startswith("run?run=run-1&case=bert%2F")


def test_all_columns_of_one_metric_have_one_unit() -> None:
    spec = TableSpec(title="Latency", rows="model", metrics=("latency_s",))
    results = [
        make_seen(mode="eager", values={"latency_s": (0.02, 0.02, 0.02)}),
        make_seen(values={"latency_s": (0.004, 0.004, 0.004)}),
        make_seen(mode="max-autotune", values={"latency_s": (0.0004, 0.0004, 0.0004)}),
        make_seen(mode="reduce-overhead", outcome=Outcome.FAILED),
    ]
    (table,) = study_tables(make_study(spec), results)
    part = table_part(table, run_id="r")
    assert [column.label for column in part.columns] == [
        "model",
        "eager (ms)",
        "default (ms)",
        "max-autotune (ms)",
        "reduce-overhead (ms)",
    ]
    assert [cell.text for cell in part.rows[0]] == ["bert", "20.0", "4.00", "0.400", "1 failed"]


def test_words_are_quiet_and_have_no_number() -> None:
    cell = study_cell(StudyCell(why="2 skipped"), scale=RATIO, run_id="r")
    assert (cell.text, cell.style, cell.notes) == ("2 skipped", "quiet", ())


@pytest.mark.parametrize(
    ("value", "style"), [(0.99, ""), (1.0, "heat1"), (1.3, "heat2"), (2.9, "heat4"), (9.0, "heat5")]
)
def test_a_shade_has_fixed_steps(value: float, style: str) -> None:
    assert shade(value) == style


def test_an_article_is_a_link_and_a_book_is_not() -> None:
    sources = {
        cell.text: cell.href
        for study in STUDIES.values()
        for row in published_part(
            [PublishedComparison(published=item, ours={}) for item in study.published],
            device_name="x",
        ).rows
        for cell in [row[3]]
    }
    links = {text: href for text, href in sources.items() if href}
    assert len(links) == 1
    assert all(href.startswith("https://") for href in links.values())


def test_what_nothing_is_like_says_why(words: SnapshotAssertion) -> None:
    figure = Published(what="w", low=1, high=2, device="d", source="s", unlike="they trained it")
    (row,) = published_part([PublishedComparison(published=figure, ours={})], device_name="x").rows
    assert row[4].text == words


def test_points_are_the_numbers_of_the_first_table() -> None:
    spec = TableSpec(title="Speedup", rows="model")
    results = [speedup("bert", 2.0), make_seen("vit", outcome=Outcome.FAILED)]
    points = interval_points(study_tables(make_study(spec), results))
    assert [(point["row"], point["variant"], point["value"]) for point in points] == [
        ("bert", "default", 2.0)
    ]
    layers = intervals_spec(points)["layer"]
    assert [layer["mark"]["type"] for layer in layers] == ["rule", "rule", "point"]


def test_points_of_several_tables_say_of_which() -> None:
    spec = TableSpec(title="Speedup", rows="model", split=("dtype",))
    results = [speedup("bert", 2.0), speedup("bert", 3.0, dtype="bf16")]
    points = interval_points(study_tables(make_study(spec), results))
    assert [point["row"] for point in points] == ["bert, fp32", "bert, bf16"]


def test_latencies_are_no_speedups_and_have_no_points() -> None:
    spec = TableSpec(title="Latency", rows="model", metrics=("latency_s",))
    results = [make_seen(values={"latency_s": (1.0, 1.0, 1.0)})]
    assert interval_points(study_tables(make_study(spec), results)) == ()


def test_a_candidate_without_parameters_has_no_rank() -> None:
    numbers = {"latency_s": (0.01, 0.009, 0.011), "num_parameters": (2e6, 2e6, 2e6)}
    results = [
        make_seen("a", values=numbers),
        make_seen("b", values={"latency_s": (1.0, 1.0, 1.0)}),
    ]
    (point,) = scatter_points(results, metric="latency_s")
    assert (point["model"], point["parameters"], point["value"]) == ("a", 2.0, 10.0)
    spec = scatter_spec([point], title="latency (ms)")
    assert spec["layer"][1]["encoding"]["shape"]["field"] == "variant"
    assert spec["layer"][1]["encoding"]["y"]["title"] == "latency (ms)"
    assert not spec["config"]["legend"].get("disable")


def test_outcomes_are_counted_against_the_plan() -> None:
    run = make_run(plan=[make_case("a"), make_case("b"), make_case("c", family="reference")])
    results = (make_seen("a"), make_seen("b", outcome=Outcome.SKIPPED))
    assert outcomes_text(StudyRun(run=run, results=results)) == "2 of 2: 1 ok, 1 skipped"
    assert outcomes_text(StudyRun(run=run, results=())) == "0 of 2: none yet"
