"""The tables and the chart of the page of modes, from latest results."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.ui.urls import ModesState, parse_modes
from compile_hud.app.views.modes.chart import modes_legend, modes_spec
from compile_hud.app.views.modes.data import GroupSection, ModesPage, modes_page
from compile_hud.app.views.modes.model_table import model_table
from compile_hud.app.views.modes.tables import (
    calls_table,
    chart_rows,
    mode_table,
    overview_table,
    section_title,
)
from compile_hud.db.records.results import Outcome, Phase
from compile_hud.db.records.summaries import LatestCell
from compile_hud.runner.analysis.modes.answers import front_text
from compile_hud.runner.analysis.modes.records import ModeGroup
from tests.support.pages.table_cells import cells_of, links_in
from tests.support.records.mode_results import (
    BOTH,
    eager,
    fallen_back,
    measured,
    same_code,
    without_numbers,
)
from tests.support.texts import html_words

DEFAULT = "default"


def page_of(*cells: LatestCell, **state: str) -> ModesPage:
    page = modes_page(cells, alerts=(), state=ModesState(**state))
    assert page is not None
    return page


def group_of(*cells: LatestCell) -> ModeGroup:
    (section,) = page_of(*cells).sections
    return section.group


def by_key(*cells: LatestCell) -> dict[str, LatestCell]:
    return {cell.summary.case.key: cell for cell in cells}


def rows_of(*cells: LatestCell) -> list[dict[str, str]]:
    return cells_of(model_table(group_of(*cells), by_key(*cells)))


TRAINING = measured("default", 1.01, 5, phase=Phase.TRAINING)


def test_speedups_are_called_by_their_clock_where_it_is_not_the_wall_clock() -> None:
    assert ">speedup</th>" in mode_table(group_of(*BOTH))
    of_cpu = [
        replace(
            cell,
            summary=replace(
                cell.summary,
                measurements={
                    name: replace(item, method="eager over variant thread CPU time, round by round")
                    for name, item in cell.summary.measurements.items()
                },
            ),
        )
        for cell in BOTH
    ]
    assert ">speedup (CPU time)</th>" in mode_table(group_of(*of_cpu))


def test_the_overview_has_a_row_for_each_group(words: SnapshotAssertion) -> None:
    page = page_of(*BOTH, TRAINING)
    assert html_words(overview_table(page.in_order, state=ModesState())) == words


def test_the_overview_names_the_models_for_which_the_mode_fails() -> None:
    failed = without_numbers("max-autotune", Outcome.FAILED, model="unet")
    page = page_of(*BOTH, measured("default", 1.5, 5, model="unet"), failed, TRAINING)
    assert "unet: failed" in overview_table(page.in_order, state=ModesState())


def test_the_overview_tells_a_loss_from_a_small_gain(words: SnapshotAssertion) -> None:
    page = page_of(measured("default", 0.64, 5), TRAINING)
    assert html_words(overview_table(page.in_order, state=ModesState()))[-12:] == words


def test_the_overview_leads_to_the_group_and_keeps_the_price() -> None:
    state = ModesState(cache="warm", calls="5000")
    page = page_of(*BOTH, TRAINING, cache="warm", calls="5000")
    html = overview_table(page.in_order, state=state)
    assert 'href="modes?cache=warm&amp;calls=5000&amp;group=training%2Ftiny%2Ffp32%2Fcpu"' in html
    assert "time of 5,000 calls" in html_words(html)


def test_the_group_of_the_url_is_the_first_section() -> None:
    def order(page: ModesPage) -> list[str]:
        return [section.group.label for section in page.sections]

    assert order(page_of(*BOTH, TRAINING)) == ["inference", "training"]
    assert order(page_of(*BOTH, TRAINING, group="training/tiny/fp32/cpu")) == [
        "training",
        "inference",
    ]
    assert order(page_of(*BOTH, TRAINING, group="no such")) == ["inference", "training"]


def test_a_section_is_titled_by_its_group_and_its_answer() -> None:
    titles = [section_title(section) for section in page_of(*BOTH, TRAINING).sections]
    assert titles[0] == "inference: Ship max-autotune"
    (single,) = page_of(*BOTH).sections
    assert section_title(single) == "Ship max-autotune"


def test_a_page_of_eager_only_has_no_section() -> None:
    assert modes_page([eager()], alerts=(), state=ModesState()) is None


def test_modes_that_are_not_compared_are_rows_with_a_reason(words: SnapshotAssertion) -> None:
    unavailable = without_numbers("max-autotune-no-cudagraphs", Outcome.UNAVAILABLE)
    group = group_of(*BOTH, same_code("reduce-overhead"), unavailable)
    shown = html_words(mode_table(group))
    assert [text for text in shown if "same code" in text or "not available" in text] == words


def test_a_mode_that_never_ran_is_in_no_chart() -> None:
    cells = (eager(), measured("default", 2.0, 5), fallen_back(2.5, 4))
    group = group_of(*cells)
    assert "max-autotune" not in calls_table(group)
    assert [row["mode"] for row in chart_rows(group)] == ["default"]
    assert f"fell back to {DEFAULT}" in html_words(mode_table(group))


def test_shared_code_is_one_grey_cell_and_no_number() -> None:
    cells = (*BOTH, same_code("reduce-overhead"))
    (row,) = rows_of(*cells)
    assert (row["default"], row["reduce-overhead"]) == ("2.00x", "-")
    assert row["notes"].startswith("reduce-overhead: same code as ")


def test_a_model_has_its_own_best_mode_with_the_calls_that_it_takes() -> None:
    cells = (*BOTH, measured("default", 1.01, 5, model="vit"))
    rows = {row["model"]: row for row in rows_of(*cells)}
    assert [row["best"] for row in rows.values()] == ["max-autotune", "do not compile"]
    best = rows["bert"]
    assert best["max-autotune, 95 %"].startswith("[2.48, ")
    assert best["break-even"] == best["max-autotune, break-even"] != "-"
    assert rows["vit"]["break-even"] == "-"
    table = model_table(group_of(*cells), by_key(*cells))
    assert "max-autotune, 95 %" not in table.order
    assert links_in(table, "model")[0].startswith("series?case=bert%2F")


@pytest.mark.parametrize("speedup", [1.005, 0.64])
def test_a_mode_that_is_slower_than_eager_never_pays_and_is_no_winner(
    speedup: float, words: SnapshotAssertion
) -> None:
    cell = measured("default", speedup, 5)
    (row,) = rows_of(cell)
    assert row["best"] == "do not compile"
    assert (row["break-even"], row.get("notes")) == words


def test_a_failing_model_leads_to_its_run() -> None:
    failed = without_numbers("max-autotune", Outcome.OUT_OF_MEMORY, model="unet")
    cells = (*BOTH, measured("default", 1.5, 5, model="unet"), failed)
    table = model_table(group_of(*cells), by_key(*cells))
    row = next(row for row in cells_of(table) if row["model"] == "unet")
    assert row["notes"] == "max-autotune: out of memory"
    assert row["first failure"] == "max-autotune"
    links = [link for link in links_in(table, "first failure") if link]
    assert [link.startswith("run?run=run-1&case=unet%2F") for link in links] == [True]


def test_a_mode_that_the_device_cannot_run_is_no_failure() -> None:
    absent = [
        without_numbers("reduce-overhead", Outcome.UNAVAILABLE, model=model)
        for model in ("bert", "unet")
    ]
    failed = without_numbers("max-autotune", Outcome.TIMEOUT, model="unet")
    alone = cells_of(model_table(group_of(*BOTH, absent[0]), by_key(*BOTH, absent[0])))
    assert not {"notes", "first failure"} & set(alone[0])
    cells = (*BOTH, eager(model="unet"), *absent, failed)
    rows = {row["model"]: row for row in rows_of(*cells)}
    assert [rows[name]["first failure"] for name in ("bert", "unet")] == ["-", "max-autotune"]
    assert "reduce-overhead" not in rows["unet"]["notes"]


@pytest.mark.parametrize(
    "others",
    [
        [],
        [measured("reduce-overhead", 1.5, 20)],
        [measured("reduce-overhead", 2.0, 5)],
        [measured("reduce-overhead", 2.0, 5.1)],
        [measured("reduce-overhead", 1.9, 5), measured("fullgraph", 2.01, 50)],
    ],
)
def test_the_chart_draws_the_front_of_the_table(others: list[LatestCell]) -> None:
    """Equal speedups and compile times are ties, which both show alike."""
    group = group_of(*BOTH, *others)
    rows = chart_rows(group)
    texts = {mode.variant: front_text(mode) for mode in group.choice.modes}
    assert {row["mode"]: row["front"] for row in rows} == texts
    assert all(text in mode_table(group) for text in texts.values())
    assert {row["mode"] for row in rows if row["is_front"]} == {
        mode for mode, text in texts.items() if text.startswith("yes")
    }
    line = [row for row in rows if row["is_on_line"]]
    assert [row["mode"] for row in line] == [row["mode"] for row in rows if row["front"] == "yes"]
    spec = modes_spec(rows, cache="cold")
    (drawn,) = [layer for layer in spec["layer"] if layer["mark"]["type"] == "line"]
    assert drawn["data"]["values"] == line


def test_the_line_joins_what_no_quicker_compilation_outruns() -> None:
    rows = chart_rows(group_of(*BOTH, measured("reduce-overhead", 1.5, 20)))
    assert [(row["mode"], row["is_on_line"], row["is_front"]) for row in rows] == [
        ("default", True, True),
        ("reduce-overhead", False, False),
        ("max-autotune", True, True),
    ]


def test_labels_stand_where_the_chart_has_room() -> None:
    rows = chart_rows(group_of(*BOTH))
    spec = modes_spec(rows, cache="cold")
    labels = spec["layer"][-1]
    assert labels["mark"]["align"]["expr"].endswith("? 'left' : 'right'")
    assert labels["mark"]["dx"]["expr"].endswith("? 9 : -9")
    assert labels["mark"]["limit"]["expr"].startswith("max(1, ")
    assert [item["field"] for item in labels["encoding"]["tooltip"]][0] == "mode"
    low, high = labels["encoding"]["x"]["scale"]["domain"]
    assert high / 50 > 2 * 5 / low


def test_a_mode_that_eager_beats_is_drawn_without_a_front() -> None:
    (row,) = chart_rows(group_of(eager(), measured("default", 0.5, 5)))
    spec = modes_spec([{**row, "is_front": False}], cache="cold")
    assert all(layer["data"].get("values", True) for layer in spec["layer"])
    (hollow,) = [layer for layer in spec["layer"] if layer["mark"]["type"] == "point"]
    assert not hollow["mark"]["filled"]


def test_a_single_mode_has_an_axis_too() -> None:
    rows = chart_rows(group_of(measured("default", 2.0, 5)))
    spec = modes_spec(rows, cache="cold")
    domains = [
        layer["encoding"]["x"]["scale"]["domain"]
        for layer in spec["layer"]
        if "scale" in layer["encoding"].get("x", {})
    ]
    time = rows[0]["compile_s"]
    # Vega warns of a layer without a row.
    assert all(layer["data"].get("values", "rows of another") for layer in spec["layer"])
    assert domains
    assert all(domain == [time / 2, time * 2] for domain in domains)


@pytest.mark.parametrize("calls", ["0", "-3", "many", "1e6", "9" * 13, "\u0663", "5.0", " 5"])
def test_calls_that_are_no_count_are_ignored_and_reported(calls: str) -> None:
    state, problems = parse_modes({"calls": calls})
    assert (state.calls, state.num_calls) == ("", None)
    assert len(problems) == 1
    assert "calls" in problems[0]


def test_calls_are_a_whole_number() -> None:
    state, problems = parse_modes({"calls": "20000"})
    assert (state.num_calls, problems) == (20_000, ())


def test_sections_have_the_answers_of_their_groups(words: SnapshotAssertion) -> None:
    sections: tuple[GroupSection, ...] = page_of(*BOTH, TRAINING, calls="900").sections
    assert [section.answer.title for section in sections] == words


def test_a_mode_of_an_older_model_code_has_a_mark() -> None:
    older = replace(
        BOTH[1], model_revision="4c1f", run_started_at=BOTH[1].run_started_at - timedelta(days=1)
    )
    cells = (older, *(replace(cell, model_revision="9d2e") for cell in (BOTH[0], BOTH[2])))
    assert str(rows_of(*cells)).count("other model code") == 1


def test_the_legend_of_the_chart_has_the_signs_that_are_drawn() -> None:
    front = chart_rows(group_of(*BOTH))
    assert [item.sign for item in modes_legend(front)] == ["point-bar", "line", "level"]
    beaten = chart_rows(group_of(*BOTH, measured("reduce-overhead", 1.5, 20)))
    assert [item.sign for item in modes_legend(beaten)] == ["point-bar", "hollow", "line", "level"]
    (single,) = chart_rows(group_of(measured("default", 2.0, 5)))
    assert [item.sign for item in modes_legend([single])] == ["point-bar", "level"]
