"""The cards of the modes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app import clock
from compile_hud.app.data.page_records import ModeSummary
from compile_hud.app.ui.urls import OverviewState
from compile_hud.app.views.overview.mode_cards import cards_html, mode_cards, pooled_text
from compile_hud.app.views.overview.records import ModeCard
from compile_hud.runner.analysis.trends.records import ModeTrend
from tests.support.builders import make_case
from tests.support.records.mode_trends import trend, trends_of

MODE = "max-autotune"


def summary(**changes: Any) -> ModeSummary:
    """Return a mode that is ok for five of six models."""
    values: dict[str, Any] = {
        "variant": MODE,
        "label": "",
        "mean": 1.84,
        "num_common": 4,
        "num_subjects": 6,
        "num_speedups": 5,
        "num_ok": 5,
        "num_attempted": 6,
        "failures": (("out_of_memory", 1),),
        "untried": (),
        "missing": (),
        "effective_modes": (),
        "stand_in": "",
    }
    return ModeSummary(**{**values, **changes})


def cards_of(*summaries: ModeSummary, trends: tuple[ModeTrend, ...] = ()) -> list[ModeCard]:
    """Return the cards of some modes."""
    shown = trends_of(*(trends or (trend("default", [1.0, 1.0]),)))
    return mode_cards(summaries, trends=shown, state=OverviewState(range="30"))


def test_a_card_has_the_mean_its_interval_its_change_and_costs(words: SnapshotAssertion) -> None:
    trends = (
        trend(MODE, [1.6, 1.7, 1.84]),
        trend(MODE, [50.0, 60.0, 66.0], metric="compile_cold_s"),
        trend(MODE, [2e9, 2e9, 1e9], metric="peak_bytes"),
    )
    (card,) = cards_of(summary(), trends=trends)
    shown = (card.cohort, card.speedup, card.interval, card.pass_text, card.change, card.facts)
    assert shown == words
    assert card.url == "trends?range=30&mode=max-autotune"
    assert card.line is not None
    assert (card.line.first, card.line.last) == ("Jan 1", "Jan 3")
    assert (card.line.least, card.line.most) == ("1.60x", "1.84x")


def test_a_line_has_the_days_of_the_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "zone", lambda: ZoneInfo("America/Bogota"))
    (card,) = cards_of(summary(), trends=(trend(MODE, [1.6, 1.7, 1.84]),))
    assert card.line is not None
    assert (card.line.first, card.line.last) == ("Dec 31", "Jan 2")
    assert "UTC" in card.line.label


def test_an_interval_of_another_number_is_not_shown() -> None:
    (card,) = cards_of(summary(mean=1.9), trends=(trend(MODE, [1.6, 1.84]),))
    assert card.interval == ""


def test_a_first_run_has_no_change_and_no_line() -> None:
    (card,) = cards_of(summary(), trends=(trend(MODE, [1.84]),))
    assert (card.change, card.line) == (None, None)
    assert '<div class="hud-spark none">' in cards_html([card])


def test_each_phase_has_its_own_row_and_its_own_trend() -> None:
    trends = (
        trend(MODE, [3.0, 3.1], label="training"),
        trend(MODE, [1.6, 1.84], label="inference"),
    )
    cards = cards_of(summary(label="inference"), summary(label="training", mean=3.1), trends=trends)
    assert [card.line and card.line.most for card in cards] == ["1.84x", "3.10x"]
    html = cards_html(cards)
    assert html.index(">inference<") < html.index("1.84x") < html.index(">training<")
    assert html.count('class="hud-cards"') == 2


def test_a_mode_that_the_device_does_not_have_is_one_grey_card() -> None:
    reason = "needs a GPU"
    nothing = summary(mean=None, num_ok=0, num_attempted=0, failures=(), unavailable=reason)
    (card,) = cards_of(nothing)
    assert (card.reason, card.speedup) == (reason, "")
    assert '<div class="hud-card off">' in cards_html([card])
    (skipped,) = cards_of(replace(nothing, untried=(("skipped", 3),), unavailable=""))
    assert skipped.reason == ""


def test_a_mode_that_never_ran_itself_is_in_brackets(words: SnapshotAssertion) -> None:
    fell_back, shared, real = cards_of(
        summary(effective_modes=(("default", 5),)),
        summary(stand_in="default"),
        summary(effective_modes=(("default", 2),)),
    )
    assert [card.speedup for card in (fell_back, shared, real)] == ["(1.84x)", "1.84x", "1.84x"]
    assert [card.is_own for card in (fell_back, shared, real)] == [False, True, True]
    assert [card.notes for card in (fell_back, shared, real)] == words


def test_the_pass_rate_names_what_is_not_ok(words: SnapshotAssertion) -> None:
    missing = summary(
        missing=(("vanished", 1), ("late", 2)),
        untried=(("skipped", 4),),
        num_ok=2,
        bad_urls={"late": "alerts?mode=default"},
    )
    (card,) = cards_of(missing)
    assert (", ".join([card.pass_text, *dict(card.bad)]), card.notes) == words
    assert '<a href="alerts?mode=default"' in cards_html([card])
    assert "width:33.3%" in cards_html([card])


@pytest.mark.parametrize(("num_speedups", "num_ok"), [(4, 4), (0, 4), (0, 0)])
def test_a_mode_without_a_mean_has_a_reason(
    num_speedups: int, num_ok: int, words: SnapshotAssertion
) -> None:
    (card,) = cards_of(summary(mean=None, num_speedups=num_speedups, num_ok=num_ok))
    assert not card.is_own
    assert (card.speedup.strip("()"), card.cohort) == words


def test_shapes_and_dtypes_inside_a_model_are_named(words: SnapshotAssertion) -> None:
    cases = [
        make_case(mode="default", shape=shape, dtype=dtype)
        for shape in ("tiny", "full")
        for dtype in ("fp32", "bf16")
    ]
    assert pooled_text(cases) == words
    assert pooled_text(cases[:1]) == ""
    # Eager is no compile mode.
    assert pooled_text([cases[0], make_case(mode="eager", dtype="bf16")]) == ""
