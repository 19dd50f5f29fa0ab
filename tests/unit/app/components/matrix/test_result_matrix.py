"""The model x variant matrix."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.components.matrix.order import CHANGE, VALUE, MatrixView
from compile_hud.app.components.matrix.result_matrix import (
    OTHER_STYLE,
    Matrix,
    build_matrix,
    common_dimensions,
    select_rows,
    variants_in_order,
)
from compile_hud.app.ui.html import Cell
from compile_hud.app.ui.urls import MATRIX_FILTERS
from compile_hud.db.records.alerts import MISSING_WORDS, Alert, AlertState
from compile_hud.db.records.results import Outcome, Verdict
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.records.summaries import LatestCell
from compile_hud.db.records.triage import missing_cases
from tests.support.builders import START, make_alert, make_case
from tests.support.records.page_results import latest

EAGER = make_case(mode="eager")
DEFAULT = make_case(mode="default")


def matrix_of(
    *cells: LatestCell, alerts: tuple[Alert, ...] = (), metric: str = "speedup"
) -> Matrix:
    """Return the matrix of some results."""
    return build_matrix(cells, alerts=alerts, metric=metric, now=START)


def only_cell(cell: LatestCell, *alerts: Alert, metric: str = "speedup") -> Cell:
    """Return how one result looks."""
    return matrix_of(cell, alerts=alerts, metric=metric).rows[0][-1]


def test_variants_come_as_pytorch_lists_its_modes_and_the_others_after() -> None:
    names = ("dynamic", "max-autotune", "eager", "aot_eager", "default")
    cases = [make_case(mode="default", variant=name) for name in names]
    assert variants_in_order(cases) == ["eager", "default", "max-autotune", "aot_eager", "dynamic"]


def test_a_dimension_in_which_all_agree_needs_no_column() -> None:
    cells = [latest(make_case("bert", dtype="bf16")), latest(make_case("vit", dtype="fp32"))]
    matrix = matrix_of(*cells)
    assert [column.label for column in matrix.columns] == ["model", "dtype", "default"]
    assert matrix.common == {"phase": "inference", "shape": "tiny", "device": "cpu"}


def differing(*, run_id: str = "run-1") -> list[LatestCell]:
    """Return eager and a variant whose eager takes longer than that of eager's own process."""
    paired = {"speedup": 2.0, "latency_s": 0.0025, "eager_latency_s": 0.005}
    return [
        replace(latest(EAGER, values={"latency_s": 0.004}), run_id=run_id),
        latest(DEFAULT, values=paired),
    ]


def test_another_time_of_eager_alone_is_marked() -> None:
    eager, default = matrix_of(*differing()).rows[0][-2:]
    assert [note.text for note in default.notes] == ["5.00 -> 2.50 ms", "load differed"]
    assert "4.00 ms" in default.title
    assert "load differed" not in [note.text for note in eager.notes]


def test_only_results_of_one_run_differ_by_their_load() -> None:
    for cells, metric in ((differing(run_id="run-0"), "speedup"), (differing(), "latency_s")):
        row = matrix_of(*cells, metric=metric).rows[0]
        assert "load differed" not in [note.text for cell in row for note in cell.notes]


def test_no_cases_agree_in_nothing() -> None:
    assert common_dimensions([]) == {}


def test_eager_shows_its_latency_next_to_speedups() -> None:
    cells = [
        latest(EAGER, values={"latency_s": 0.020}),
        latest(DEFAULT, values={"latency_s": 0.010, "speedup": 2.0}),
    ]
    matrix = matrix_of(*cells)
    assert [column.label for column in matrix.columns] == ["model", "eager latency (ms)", "default"]
    assert [cell.text for cell in matrix.rows[0]] == ["bert", "20.0", "2.00x"]


def test_a_column_has_one_unit_and_says_it_once() -> None:
    cells = [
        latest(make_case("bert"), values={"latency_s": 0.0101}),
        latest(make_case("vit"), values={"latency_s": 0.0002}),
    ]
    matrix = matrix_of(*cells, metric="latency_s")
    assert matrix.columns[-1].label == "default (ms)"
    assert [row[-1].text for row in matrix.rows] == ["10.1", "0.200"]


def test_a_case_that_is_not_ok_has_its_outcome_and_its_log_instead_of_a_number() -> None:
    cell = only_cell(latest(DEFAULT, outcome=Outcome.OUT_OF_MEMORY, reason="no memory left"))
    assert (cell.text, cell.style) == ("out of memory", "strong")
    assert "no memory left" in cell.title
    assert [(note.text, note.href.partition("?")[0]) for note in cell.notes] == [("log", "run")]


def test_a_case_without_the_metric_says_so(words: SnapshotAssertion) -> None:
    cell = only_cell(latest(DEFAULT, values={"latency_s": 0.01}), metric="peak_bytes")
    assert (cell.text, cell.style) == ("-", "quiet")
    assert cell.title == words


def test_a_value_with_warnings_leads_to_them() -> None:
    warnings = [RunWarning(code="noisy", text="the clock moved"), RunWarning(code="b", text="b")]
    cell = only_cell(latest(DEFAULT, values={"latency_s": 0.01}, warnings=warnings))
    (note,) = cell.notes
    assert note.text == "2 warnings"
    assert note.href.startswith("run?run=run-1&case=")
    assert "the clock moved" in cell.title


def test_what_was_never_measured_is_a_dash() -> None:
    matrix = matrix_of(latest(EAGER), latest(make_case("vit", mode="default")))
    assert [[cell.text for cell in row[1:]] for row in matrix.rows] == [
        ["12.0", "-"],
        ["-", "-"],
    ]


def test_a_fallback_is_never_shown_as_the_real_mode() -> None:
    warning = RunWarning(code="mode-fallback", text="CUDA graphs need a CUDA device")
    case = make_case(mode="reduce-overhead")
    cell = only_cell(
        latest(case, values={"speedup": 1.02}, effective_mode="default", warnings=[warning])
    )
    assert cell.text == "1.02x"
    assert [note.text for note in cell.notes] == [f"fell back to {DEFAULT.mode}"]
    assert "CUDA graphs need a CUDA device" in cell.title


def test_every_cell_leads_to_its_series() -> None:
    href = only_cell(latest(DEFAULT, values={"speedup": 1.5})).href
    assert href == (
        "series?case=bert%2Finference%2Ftiny%2Ffp32%2Fdefault%2Fcpu"
        "&metric=speedup&machine=box&toolchain=stable"
    )


def test_a_cell_carries_the_worst_live_alert_in_words_and_colour() -> None:
    small, large = (make_alert(str(change), change_pct=change) for change in (7.0, 21.0))
    cell = only_cell(latest(DEFAULT, values={"speedup": 1.5}), small, large)
    assert [note.text for note in cell.notes] == ["latency +21.0 %"]
    assert (cell.style, cell.notes[0].style) == ("cell-bad", "note bad")


def test_a_regression_outranks_an_improvement() -> None:
    better = make_alert("better", verdict=Verdict.IMPROVEMENT, change_pct=-50.0)
    cell = only_cell(latest(DEFAULT), better, make_alert("worse", change_pct=6.0))
    assert [note.text for note in cell.notes] == ["latency +6.0 %"]


def test_an_improvement_is_marked_too() -> None:
    better = make_alert(verdict=Verdict.IMPROVEMENT, change_pct=-12.0)
    cell = only_cell(latest(DEFAULT), better)
    assert (cell.style, cell.notes[0].style) == ("quiet cell-good", "note good")


@pytest.mark.parametrize("kind", ["vanished", "late"])
def test_a_cell_without_new_results_keeps_its_open_alerts(kind: str) -> None:
    missing = make_alert("gone", kind=kind, metric="outcome", unit="")
    cell = only_cell(latest(DEFAULT, values={"speedup": 1.5}), missing, make_alert("slower"))
    assert [note.text for note in cell.notes] == ["latency +20.0 %", MISSING_WORDS[kind]]
    assert [note.text for note in only_cell(latest(DEFAULT), missing).notes] == [
        MISSING_WORDS[kind]
    ]


def test_a_case_with_one_missing_metric_has_new_results() -> None:
    missing = make_alert(kind="vanished", metric="speedup")
    assert missing_cases([missing]) == {}
    assert [note.text for note in only_cell(latest(DEFAULT), missing).notes] == ["speedup missing"]


def test_an_acknowledged_alert_stays_visible_and_says_so() -> None:
    cell = only_cell(latest(DEFAULT), make_alert(state=AlertState.ACKNOWLEDGED))
    assert [note.text for note in cell.notes] == ["latency +20.0 % (acknowledged)"]


def test_an_alert_called_noise_is_not_marked() -> None:
    assert only_cell(latest(DEFAULT), make_alert(state=AlertState.NOISE)).notes == ()


def test_a_result_that_missed_nights_says_how_old_it_is() -> None:
    old = latest(make_case("vit"), at=START - timedelta(days=7))
    rows = matrix_of(latest(make_case("bert")), old).rows
    notes = {row[0].text: [note.text for note in row[-1].notes] for row in rows}
    assert notes == {"bert": [], "vit": ["7 d older"]}


def test_rows_are_regressed_first_then_failing_then_by_name() -> None:
    cells = [
        latest(make_case("a")),
        latest(make_case("b"), outcome=Outcome.FAILED),
        latest(make_case("c")),
        latest(make_case("d")),
    ]
    alerts = (
        make_alert("1", case=make_case("c"), change_pct=6.0),
        make_alert("2", case=make_case("d"), change_pct=9.0),
    )
    assert [row[0].text for row in matrix_of(*cells, alerts=alerts).rows] == ["d", "c", "b", "a"]


def test_an_improvement_does_not_move_a_row_up() -> None:
    better = make_alert(case=make_case("z"), verdict=Verdict.IMPROVEMENT, change_pct=-40.0)
    rows = matrix_of(latest(make_case("a")), latest(make_case("z")), alerts=(better,)).rows
    assert [row[0].text for row in rows] == ["a", "z"]


def test_the_tooltip_has_interval_samples_revision_and_time(words: SnapshotAssertion) -> None:
    title = only_cell(latest(DEFAULT, values={"speedup": 2.0})).title
    assert title == (words)


def test_what_the_machine_did_marks_no_cell() -> None:
    alert = make_alert(cause_kind="machine")
    matrix = build_matrix([latest()], alerts=[alert], metric="latency_s", now=START)
    assert all("cell-bad" not in cell.style and cell.notes == () for cell in matrix.rows[0])


def test_a_cell_has_the_trend_of_the_metric_that_it_shows() -> None:
    cells = [
        latest(EAGER, values={"latency_s": 0.020}),
        latest(DEFAULT, values={"latency_s": 0.010, "speedup": 2.0}),
    ]
    trends = {(EAGER.key, "latency_s"): (0.02, 0.03), (DEFAULT.key, "speedup"): (2.0, 1.9)}
    matrix = build_matrix(cells, alerts=(), metric="speedup", now=START, trends=trends)
    assert [cell.trend for cell in matrix.rows[0]] == [(), (0.02, 0.03), (2.0, 1.9)]


def test_only_the_first_rows_of_a_long_table_have_trends() -> None:
    cells = [latest(make_case(f"model-{number:03d}")) for number in range(61)]
    trends = {(cell.summary.case.key, "latency_s"): (1.0, 2.0) for cell in cells}
    matrix = build_matrix(cells, alerts=(), metric="latency_s", now=START, trends=trends)
    assert [bool(row[-1].trend) for row in matrix.rows] == [True] * 60 + [False]


def test_of_a_long_table_the_worst_rows_are_made_and_all_are_counted() -> None:
    cells = [latest(make_case(f"model-{number:03d}")) for number in range(9)]
    cells += [latest(make_case("model-009"), outcome=Outcome.FAILED)]
    whole = matrix_of(*cells)
    matrix = build_matrix(cells, alerts=(), metric="speedup", now=START, num_shown=3)
    assert matrix.rows == whole.rows[:3]
    assert [row[0].text for row in matrix.rows] == ["model-009", "model-000", "model-001"]
    assert len(select_rows(cells, alerts=())) == len(whole.rows) == 10


def test_a_case_with_the_code_of_another_is_one_quiet_cell() -> None:
    reason = "same code as default"
    cell = only_cell(latest(DEFAULT, outcome=Outcome.SAME_CODE, reason=reason))
    assert (cell.text, cell.style, cell.notes) == (reason, "quiet", ())


def test_a_mode_that_the_device_does_not_have_is_a_quiet_cell_with_its_reason() -> None:
    cell = only_cell(latest(DEFAULT, outcome=Outcome.UNAVAILABLE, reason="CUDA graphs"))
    assert (cell.text, cell.style, cell.notes) == ("unavailable", "quiet", ())
    assert "CUDA graphs" in cell.title


NEW = {"revision": "2.14.0", "model_revision": "abc+dirty(5f3a)"}


@pytest.mark.parametrize(
    ("older", "marks"),
    [
        ({}, []),
        ({"revision": "2.13.0"}, ["other torch"]),
        ({"model_revision": "abc"}, ["other model code"]),
        ({"revision": "2.13.0", "model_revision": "abc"}, ["other torch", "other model code"]),
        # A run of an earlier release did not record the code.
        ({"model_revision": ""}, []),
    ],
)
def test_a_cell_at_an_older_revision_than_its_row_has_a_mark(
    older: dict[str, str], marks: list[str]
) -> None:
    values = {"latency_s": 0.010, "speedup": 2.0}
    cells = [
        latest(EAGER, at=START - timedelta(hours=1), values=values, **{**NEW, **older}),
        latest(DEFAULT, values=values, **NEW),
        # Another row has its own newest result.
        latest(make_case("vit", mode="default"), values=values, revision="2.12.0"),
    ]
    matrix = matrix_of(*cells)
    notes = {
        cell.title.splitlines()[0]: [note.text for note in cell.notes if note.style == OTHER_STYLE]
        for row in matrix.rows
        for cell in row[1:]
    }
    assert notes.pop(EAGER.key) == marks
    assert not any(notes.values())
    assert bool(matrix.legend) is bool(marks)
    (title,) = (cell.title for row in matrix.rows for cell in row if EAGER.key in cell.title)
    assert all(text in title for text in older.values() if marks)
    assert len(title.splitlines()) == 3 + len(marks)


def grid(*, phases: tuple[str, ...] = ("inference", "training")) -> list[LatestCell]:
    """Return three models in two modes of each phase; their speedups differ by 0.1."""
    cells = []
    for phase in phases:
        for number, model in enumerate(("t5", "bert", "vit"), start=11):
            for offset, mode in enumerate(("default", "max-autotune")):
                case = make_case(model, mode=mode, phase=phase)
                cells.append(latest(case, values={"speedup": number / 10 + 5 * offset}))
    return cells


def shown(cells: list[LatestCell], view: MatrixView, **values: object) -> Matrix:
    """Return the matrix of speedups in a view."""
    return build_matrix(cells, alerts=(), metric="speedup", now=START, view=view, **values)  # type: ignore[arg-type]


def test_groups_of_rows_have_titles_instead_of_columns_and_keep_their_order() -> None:
    matrix = shown(grid(), MatrixView())
    assert matrix.sections == (("inference", 3), ("training", 3))
    assert [column.label for column in matrix.columns] == ["model", "default", "max-autotune"]
    cut = shown(grid(), MatrixView(), num_shown=4)
    assert cut.sections == (("inference", 3), ("training", 1))
    assert shown(grid(phases=("inference",)), MatrixView()).sections == ()


@pytest.mark.parametrize(
    ("sort", "models"),
    [
        ("model", ["bert", "t5", "vit"]),
        ("-model", ["vit", "t5", "bert"]),
        ("default", ["t5", "bert", "vit"]),
        ("-max-autotune", ["vit", "bert", "t5"]),
    ],
)
def test_rows_are_sorted_within_their_section(sort: str, models: list[str]) -> None:
    matrix = shown(grid(), MatrixView(sort=sort))
    assert [row[0].text for row in matrix.rows] == models * 2
    orders = {column.label: column.order for column in matrix.columns if column.order}
    name = sort.removeprefix("-")
    assert orders == {name: "descending" if sort.startswith("-") else "ascending"}


def test_rows_without_a_number_come_last_whatever_the_order() -> None:
    cells = [*grid(phases=("inference",)), latest(make_case("moe"), outcome=Outcome.FAILED)]
    for sort in ("default", "-default"):
        assert shown(cells, MatrixView(sort=sort)).rows[-1][0].text == "moe"


def test_the_heading_of_a_column_leads_to_its_order() -> None:
    view = MatrixView(sort="-default")
    matrix = shown(grid(), view, sort_url=lambda name: f"to {view.next_sort(name)}")
    assert [column.href for column in matrix.columns] == [
        "to model",
        "to default",
        "to -max-autotune",
    ]


def test_values_are_shaded_by_size_within_their_phase() -> None:
    styles = [
        [cell.style for cell in row[1:]] for row in shown(grid(), MatrixView(heat=VALUE)).rows
    ]
    assert styles[:3] == styles[3:]
    assert styles[0] == ["", "heat5"]
    assert shown(grid(), MatrixView(heat=VALUE)).bounds == ("1.10x", "6.30x")
    assert shown(grid(), MatrixView()).bounds is None


def test_changes_replace_the_numbers_and_are_shaded_by_size() -> None:
    case = make_case(mode="default")
    cells = [latest(case, values={"speedup": 1.5})]
    trends = {(case.key, "speedup"): (1.25, 1.0, 1.2, 1.5)}
    cell = shown(cells, MatrixView(heat=CHANGE), trends=trends).rows[0][-1]
    assert (cell.text, cell.style, cell.notes[0].text) == ("+25.0 %", "heat5", "1.50x")
    unknown = shown(cells, MatrixView(heat=CHANGE)).rows[0][-1]
    assert (unknown.text, unknown.style) == ("-", "")


def test_a_stale_cell_is_hatched() -> None:
    cells = [
        latest(make_case("bert"), at=START, values={"speedup": 1.5}),
        latest(make_case("vit"), at=START + timedelta(days=4), values={"speedup": 1.5}),
    ]
    matrix = shown(cells, MatrixView())
    assert [row[-1].style for row in matrix.rows] == ["stale", ""]
    assert matrix.has_stale
    assert not shown(cells[:1], MatrixView()).has_stale


def test_filters_select_rows_with_alerts_failures_or_stale_results() -> None:
    cells = [
        latest(make_case("bert"), at=START + timedelta(days=5)),
        latest(make_case("vit"), at=START + timedelta(days=5), outcome=Outcome.TIMEOUT),
        latest(make_case("moe"), at=START),
    ]
    alerts = [make_alert(case=make_case("bert"))]

    def models(only: str) -> list[str]:
        rows = select_rows(cells, alerts=alerts, only=only)
        return [cell.summary.case.model for row in rows for cell in row.values()]

    assert [models(name) for name in MATRIX_FILTERS] == [["bert"], ["vit"], ["moe"]]
    assert len(models("")) == 3
