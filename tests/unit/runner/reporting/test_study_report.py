from __future__ import annotations

import dataclasses
import re
from datetime import timedelta

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import Outcome
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.runner.analysis.stats.estimates import Estimate
from compile_hud.runner.analysis.studies.study import BY_METRIC, Published, StudyRun, TableSpec
from compile_hud.runner.analysis.studies.tables import StudyCell
from compile_hud.runner.reporting.study_report import cell_text, cohort_text, study_json, study_page
from tests.support.builders import START, make_case, make_run
from tests.support.records.studies import make_seen, make_study, speedup

DEFAULT = "default"

FIGURE = Published(what="BERT", low=2.2, high=2.8, device="a GPU", source="them")
STUDY = dataclasses.replace(
    make_study(TableSpec(title="Speedup", rows="model"), variants=("eager", "default", "openvino")),
    published=(FIGURE, dataclasses.replace(FIGURE, what="search", unlike="nothing is trained")),
)
ENVIRONMENT = {
    "device_name": "Fake CPU",
    "cpu_model": "Fake CPU",
    "torch_version": "2.13.0+cpu",
    "num_threads": 1,
    "packages": {"transformers": "5.23", "numpy": "2"},
    "measure_settings": {"num_launches": 2, "num_rounds": 30, "budget_s": 1.0},
}
RUN = make_run(
    "run-7",
    plan=[make_case("bert", mode="eager"), make_case("bert"), make_case("vit")],
    environment=ENVIRONMENT,
    finished_at=START + timedelta(seconds=90),
    suite="study-mine",
    toolchain="current",
)
SEEN = (
    make_seen(mode="eager", values={}),
    speedup("bert", 1.5),
    make_seen("vit", outcome=Outcome.FAILED, reason="a | b"),
)


BUSY = RunWarning(code="noisy-neighbour", text="it had 80 %")


def page(**changes: object) -> str:
    run = dataclasses.replace(RUN, **changes)
    return study_page(STUDY, [StudyRun(run=run, results=SEEN)])


def row_of(text: str, name: str) -> list[str]:
    """Return the other cells of the row `name` of the only table that has one."""
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in line.strip("| ").split(" | ")][1:]


def warning_rows(text: str) -> list[str]:
    """Return the rows of the table of warnings."""
    return text.partition("### Warnings\n\n")[2].partition("\n\n")[0].splitlines()[2:]


def test_a_page_has_question_device_numbers_and_gaps(words: SnapshotAssertion) -> None:
    lines = page().splitlines()
    assert lines[0] == "# Mine"
    assert lines[2] == words
    assert "## On Fake CPU" in lines
    assert "| `bert` | 1.50x [1.49, 1.52] |" in lines
    assert "| `vit` | 1 failed |" in lines
    assert "| `default` | failed | a \\| b | 1: vit |" in lines
    assert row_of(page(), "`openvino`")[0] == "absent"
    assert page() == words(name="page")


def test_a_page_says_where_when_and_how_it_was_measured() -> None:
    lines = page().splitlines()
    assert "| device | Fake CPU |" in lines
    assert "| torch | 2.13.0+cpu |" in lines
    assert "| packages | transformers 5.23 |" in lines
    assert "| measured | 2026-01-01 02:30 UTC, in 1:30 |" in lines
    assert re.findall(r"\d+", row_of(page(), "sampling")[0]) == ["2", "30", "1"]
    assert "| cases | 2 ok, 1 failed |" in lines
    assert "| shapes | tiny |" in lines
    assert "| dtypes | fp32 |" in lines
    assert "| phases | inference |" in lines


def test_the_command_measures_what_the_run_did_and_no_more() -> None:
    variants = "--mode eager --mode default"
    assert f"`hud study run mine --device cpu {variants}`" in page()
    whole = tuple(make_case("bert", mode=name) for name in ("eager", "default", "openvino"))
    assert "`hud study run mine --device cpu`" in page(plan=whole)


def test_the_command_names_the_toolchain_of_the_run() -> None:
    assert "hud study run mine --device cpu --toolchain nightly --mode" in page(toolchain="nightly")


def test_a_page_says_that_the_machine_was_busy(words: SnapshotAssertion) -> None:
    results = [dataclasses.replace(SEEN[0], warnings=(BUSY,)), *SEEN[1:]]
    text = study_page(STUDY, [StudyRun(run=RUN, results=tuple(results))])
    paragraphs = [
        paragraph
        for paragraph in text.split("\n\n")
        if paragraph not in page() and not paragraph.startswith(("#", "|"))
    ]
    assert re.findall(r"\d+ of \d+", paragraphs[0]) == ["1 of 3"]
    assert paragraphs == words


def test_a_page_counts_the_warnings_on_its_cases_and_says_what_they_say() -> None:
    own = [RunWarning(code="drift", text=f"it rose\nby {number} %") for number in (4, 6)]
    results = [
        dataclasses.replace(item, warnings=(warning,))
        for item, warning in zip(SEEN[:2], own, strict=True)
    ]
    busy = dataclasses.replace(SEEN[2], warnings=(BUSY,))
    text = study_page(STUDY, [StudyRun(run=RUN, results=(*results, busy))])
    assert [line.split(" | ")[:2] for line in warning_rows(text)] == [
        ["| `drift`", "2 of 3"],
        ["| `noisy-neighbour`", "1 of 3"],
    ]
    assert "### Warnings" not in page()


def test_the_device_of_a_cpu_is_named_once() -> None:
    assert page().count("| Fake CPU |") == 1


def test_published_figures_keep_their_device_and_stand_next_to_ours() -> None:
    lines = page().splitlines()
    assert row_of(page(), "what")[-1].endswith("Fake CPU")
    row = next(line for line in lines if line.startswith("| BERT |"))
    assert row.startswith("| BERT | 2.2x to 2.8x | a GPU | them | default: 1.50x")
    assert "1 of 2" in row
    assert row_of(page(), "search")[:3] == ["2.2x to 2.8x", "a GPU", "them"]


def test_synthetic_and_interrupted_runs_are_marked() -> None:
    assert "`hud demo`" in row_of(page(is_synthetic=True), "SYNTHETIC")[0]
    assert "interrupted" in row_of(page(state="interrupted", finished_at=None), "measured")[0]


def test_a_case_without_a_result_is_counted() -> None:
    plan = [*RUN.plan, make_case("dcgan")]
    assert "1 of 4" in row_of(page(plan=tuple(plan)), "cases")[0]
    assert "of 4" not in row_of(page(), "cases")[0]


def test_every_device_has_a_section() -> None:
    gpu = dataclasses.replace(RUN, environment={"device_name": "Fake GPU"})
    runs = [StudyRun(run=run, results=SEEN) for run in (RUN, gpu)]
    headings = [line for line in study_page(STUDY, runs).splitlines() if line.startswith("## ")]
    assert headings == ["## On Fake CPU", "## On Fake GPU"]


def test_sections_of_several_toolchains_say_so(words: SnapshotAssertion) -> None:
    runs = [
        StudyRun(run=dataclasses.replace(RUN, toolchain=name), results=SEEN)
        for name in ("current", "nightly")
    ]
    headings = [line for line in study_page(STUDY, runs).splitlines() if line.startswith("## ")]
    assert headings == words


def test_a_ranked_table_has_places() -> None:
    spec = TableSpec(
        title="Ranked",
        rows="model",
        columns=BY_METRIC,
        metrics=("latency_s", "peak_bytes"),
        split=("variant",),
        is_ranked=True,
    )
    results = tuple(
        make_seen(name, values={"latency_s": (time_s,) * 3, "peak_bytes": (2.0**20,) * 3})
        for name, time_s in (("slow", 0.02), ("fast", 0.01))
    )
    text = study_page(make_study(spec), [StudyRun(run=RUN, results=results)])
    assert "### Ranked: default" in text
    assert "| rank | model | `latency_s` | `peak_bytes` |" in text
    assert row_of(text, "1") == ["`fast`", "10.0 ms", "1.0 MiB"]
    assert row_of(text, "2") == ["`slow`", "20.0 ms", "1.0 MiB"]
    assert text.index("| 1 |") < text.index("| 2 |")


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [
        (1.8, 2.3, "1.8x to 2.3x"),
        (3.0, None, "above 3x"),
        (None, 1.1, "below 1.1x"),
        (1.12, 1.12, "1.12x"),
    ],
)
def test_published_ranges_in_words(low: float | None, high: float | None, text: str) -> None:
    assert dataclasses.replace(FIGURE, low=low, high=high).text == text


def test_a_cell_names_what_ran_and_over_how_many() -> None:
    cell = StudyCell(
        estimate=Estimate(1.5, 1.4, 1.6),
        least=1.2,
        most=1.9,
        num_common=2,
        num_subjects=3,
        ran_as=(("default", 2),),
    )
    assert cell_text(cell, metric="speedup") == f"1.50x [1.40, 1.60] (2 fell back to {DEFAULT})"
    assert cohort_text(cell, "speedup") == "2 of 3, 1.20x to 1.90x"


def test_large_counts_are_written_out() -> None:
    cell = StudyCell(estimate=Estimate(*(110_104_890.0,) * 3), num_common=1, num_subjects=1)
    assert cell_text(cell, metric="num_parameters") == "110,104,890"


def test_json_has_numbers_words_and_the_cases_behind_them() -> None:
    document = study_json(STUDY, StudyRun(run=RUN, results=SEEN))
    (table,) = document["tables"]
    bert, vit = table["rows"]
    assert bert["cells"][0]["value"] == 1.5
    assert bert["cells"][0]["cases"] == ["bert/inference/tiny/fp32/default/cpu"]
    assert (vit["cells"][0]["value"], vit["cells"][0]["why"]) == (None, "1 failed")
    assert [item["unlike"] for item in document["published"]] == ["", "nothing is trained"]
    assert [gap["variant"] for gap in document["not_measured"]] == ["default", "openvino"]
