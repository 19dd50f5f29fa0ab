"""The answer and the tables of the page of modes, from latest results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.views.modes.chart import modes_spec
from compile_hud.app.views.modes.data import grouped, modes_page
from compile_hud.app.views.modes.records import ModesPage
from compile_hud.app.views.modes.tables import (
    about,
    answer,
    calls_table,
    chart_rows,
    mode_table,
    model_table,
)
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.results import Outcome, Phase
from compile_hud.db.records.summaries import LatestCell
from tests.support.builders import make_alert, make_case
from tests.support.records.page_results import latest
from tests.support.texts import html_words

EAGER_S = 0.010


def measured(mode: str, speedup: float, compile_s: float, *, model: str = "bert") -> LatestCell:
    values: Mapping[str, float] = {
        "latency_s": EAGER_S / speedup,
        "speedup": speedup,
        "compile_cold_s": compile_s,
        "compile_warm_s": compile_s / 10,
        "peak_bytes": 1e9,
    }
    return latest(make_case(model, mode=mode), values=values)


def eager(model: str = "bert") -> LatestCell:
    case = make_case(model, mode="eager")
    return latest(case, values={"latency_s": EAGER_S, "peak_bytes": 2e9})


def fallen_back(speedup: float, compile_s: float) -> LatestCell:
    """Return a result of max-autotune that the device ran as default."""
    cell = measured("max-autotune", speedup, compile_s)
    return replace(cell, summary=replace(cell.summary, effective_mode="default"))


def page_of(*cells: LatestCell, alerts: tuple[Alert, ...] = (), cache: str = "cold") -> ModesPage:
    return modes_page(cells, alerts=alerts, cache=cache)


BOTH = (eager(), measured("default", 2.0, 5), measured("max-autotune", 2.5, 50))


def test_speedups_are_called_by_their_clock_where_it_is_not_the_wall_clock() -> None:
    assert ">speedup</th>" in mode_table(page_of(*BOTH))
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
    assert ">speedup (CPU time)</th>" in mode_table(page_of(*of_cpu))


def test_the_fastest_on_the_front_is_recommended_with_its_price_and_its_limit(
    words: SnapshotAssertion,
) -> None:
    title, sentences = answer(page_of(*BOTH), cache="cold")
    assert title == "Ship max-autotune"
    assert sentences == words


@pytest.mark.parametrize("speedup", [1.02, 0.9])
def test_a_small_gain_is_not_worth_a_compilation(speedup: float) -> None:
    # Next to no compile time pays back at once.
    page = page_of(eager(), measured("default", speedup, 1e-6))
    title, _ = answer(page, cache="cold")
    assert not title.startswith("Ship")
    assert ("best gain +2.0 % [" in title) is (speedup > 1)


def test_a_model_that_fails_is_in_the_title() -> None:
    failed = latest(make_case("unet", mode="max-autotune"), outcome=Outcome.FAILED)
    title, (first, *_) = answer(page_of(*BOTH, eager("unet"), failed), cache="cold")
    assert title.endswith("not for unet")
    assert "unet" in first


@pytest.mark.parametrize("outcome", [Outcome.SAME_CODE, Outcome.UNAVAILABLE])
def test_the_same_code_and_what_a_device_lacks_are_no_failures(outcome: Outcome) -> None:
    other = latest(make_case("unet", mode="max-autotune"), outcome=outcome)
    title, _ = answer(page_of(*BOTH, eager("unet"), other), cache="cold")
    assert title == "Ship max-autotune"


def test_phases_and_shapes_are_never_averaged() -> None:
    cells = [
        replace(cell, summary=replace(cell.summary, case=replace(cell.summary.case, **axes)))
        for axes in ({"shape": "small"}, {"shape": "full"}, {"phase": Phase.TRAINING})
        for cell in BOTH
    ]
    groups = grouped(cells)
    assert list(groups) == ["inference, full", "inference, small", "training, tiny"]
    assert [len(group) for group in groups.values()] == [3, 3, 3]
    assert list(grouped(BOTH)) == [""]


def test_a_filled_cache_pays_earlier() -> None:
    page = page_of(*BOTH, cache="warm")
    assert [about(span.from_calls) for span in page.spans] == ["1", "100", "4,500"]


def test_a_mode_that_never_ran_is_not_compared_with_the_one_that_ran() -> None:
    """Its numbers are of the same code: what they differ by is noise."""
    page = page_of(eager(), measured("default", 2.0, 5), fallen_back(2.5, 4))
    title, sentences = answer(page, cache="cold")
    assert title == "Ship default"
    assert not any("max-autotune" in sentence for sentence in sentences)
    assert [mode.variant for mode in page.modes] == ["default"]
    assert "max-autotune" not in calls_table(page)
    assert [row["mode"] for row in chart_rows(page)] == ["default"]
    assert "ran as default" in mode_table(page)
    cells = (measured("default", 2.0, 5), fallen_back(2.5, 4))
    by_key = {cell.summary.case.key: cell for cell in cells}
    of_models = model_table(page, by_key)
    assert 'class="number strong wraps" title="speedup [1.98,' in of_models
    assert 'class="number wraps" title="speedup [2.48,' in of_models


def test_a_mode_that_never_ran_stands_in_for_one_that_was_not_measured(
    words: SnapshotAssertion,
) -> None:
    page = page_of(eager(), fallen_back(2.0, 4))
    title, sentences = answer(page, cache="cold")
    assert page.best == "max-autotune"
    assert title == "Ship default"
    assert sentences[-1] == (words)


def test_a_mode_that_ran_for_one_model_is_shipped_and_names_the_others(
    words: SnapshotAssertion,
) -> None:
    vit = (measured("default", 2.0, 5, model="vit"), measured("max-autotune", 2.0, 4, model="vit"))
    page = page_of(measured("default", 2.0, 5), fallen_back(2.0, 4), *vit)
    title, sentences = answer(page, cache="cold")
    assert title == "Ship max-autotune"
    assert sentences[-1] == words


@pytest.mark.parametrize(
    ("others", "text"),
    [
        (("default",), "; default cannot be told from it in speed and costs more."),
        (
            ("default", "reduce-overhead"),
            "; default, reduce-overhead cannot be told from it in speed and cost more.",
        ),
    ],
)
def test_what_costs_more_is_one_mode_or_several(others: tuple[str, ...], text: str) -> None:
    page = page_of(measured("max-autotune", 2.0, 5), *(measured(it, 2.0, 50) for it in others))
    assert answer(page, cache="cold")[1][0].endswith(text)


def test_a_model_that_fails_in_the_best_mode_is_named(words: SnapshotAssertion) -> None:
    failed = latest(make_case("unet", mode="max-autotune"), outcome=Outcome.FAILED)
    page = page_of(*BOTH, measured("default", 1.5, 5, model="unet"), failed)
    _, sentences = answer(page, cache="cold")
    assert sentences[0] == words
    assert sentences[-1] == words


def test_a_model_that_another_mode_serves_better_is_named(words: SnapshotAssertion) -> None:
    page = page_of(
        *BOTH,
        measured("default", 3.0, 5, model="vit"),
        measured("max-autotune", 2.0, 5, model="vit"),
    )
    _, sentences = answer(page, cache="cold")
    assert page.best == "default"
    assert [sentence for sentence in sentences if "bert" in sentence] == words


def test_a_vanished_case_is_in_no_mean() -> None:
    alert = make_alert(
        "gone", case=BOTH[2].summary.case, kind="vanished", metric="outcome", unit=""
    )
    page = page_of(*BOTH, alerts=(alert,))
    assert [mode.variant for mode in page.modes] == ["default"]
    assert page.rows[0].cells["max-autotune"].missing == "vanished"


def test_what_pays_back_nothing_for_certain_has_no_break_even() -> None:
    (row,) = page_of(measured("default", 1.005, 5)).rows
    assert row.cells["default"].speedup is not None
    assert row.cells["default"].break_even is None


@pytest.mark.parametrize("speedup", [1.005, 0.64])
def test_a_mode_that_is_slower_than_eager_never_pays_and_is_no_winner(
    speedup: float, words: SnapshotAssertion
) -> None:
    cell = measured("default", speedup, 5)
    html = model_table(page_of(cell), {cell.summary.case.key: cell})
    assert [text for text in html_words(html) if "pays" in text or "break-even" in text] == words
    assert ("number strong" in html) == (speedup > 1)


def test_no_gain_means_not_compiling() -> None:
    page = page_of(measured("default", 0.9, 5))
    assert page.best == ""
    assert answer(page, cache="cold")[0] == "Do not compile"


def test_without_common_ground_there_is_no_recommendation(words: SnapshotAssertion) -> None:
    page = page_of(measured("default", 2.0, 5), measured("max-autotune", 2.0, 5, model="vit"))
    title, sentences = answer(page, cache="warm")
    assert title == words
    assert sentences[0] == words
    assert len(page.rows) == 2


def test_the_line_joins_what_no_quicker_compilation_outruns() -> None:
    rows = chart_rows(page_of(*BOTH, measured("reduce-overhead", 1.5, 20)))
    assert [(row["mode"], row["is_on_line"], row["is_front"]) for row in rows] == [
        ("default", True, True),
        ("reduce-overhead", False, False),
        ("max-autotune", True, True),
    ]
    assert modes_spec(rows, cache="cold")["layer"]


def test_labels_hang_right_of_their_points_and_have_room() -> None:
    rows = chart_rows(page_of(*BOTH))
    spec = modes_spec(rows, cache="cold")
    labels = spec["layer"][-1]
    assert (labels["mark"]["align"], labels["mark"]["dx"]) == ("left", 9)
    assert [item["field"] for item in labels["encoding"]["tooltip"]][0] == "mode"
    low, high = labels["encoding"]["x"]["scale"]["domain"]
    assert high / 50 > 2 * 5 / low


def test_a_mode_that_eager_beats_is_drawn_without_a_front() -> None:
    (row,) = chart_rows(page_of(eager(), measured("default", 0.5, 5)))
    spec = modes_spec([{**row, "is_front": False}], cache="cold")
    assert all(layer["data"].get("values", True) for layer in spec["layer"])
    (hollow,) = [layer for layer in spec["layer"] if layer["mark"]["type"] == "point"]
    assert not hollow["mark"]["filled"]


def test_a_single_mode_has_an_axis_too() -> None:
    rows = chart_rows(page_of(measured("default", 2.0, 5)))
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


@pytest.mark.parametrize(
    ("calls", "text"), [(1, "1"), (1234, "1,200"), (99_900, "100,000"), (4.4e7, "44 million")]
)
def test_calls_have_two_digits_that_count(calls: float, text: str) -> None:
    assert about(calls) == text
