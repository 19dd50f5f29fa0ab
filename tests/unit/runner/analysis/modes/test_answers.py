"""The answers of the modes as text."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.results import Outcome
from compile_hud.db.records.summaries import LatestCell
from compile_hud.runner.analysis.modes.answers import (
    about,
    answer_for,
    calls_text,
    gain_text,
    ratio_text,
    summary_of,
    time_text,
)
from compile_hud.runner.analysis.modes.comparison import compare_modes
from compile_hud.runner.analysis.modes.records import Answer
from compile_hud.runner.analysis.stats.estimates import Estimate
from tests.support.builders import START
from tests.support.records.mode_results import (
    BOTH,
    eager,
    fallen_back,
    measured,
    same_code,
    without_numbers,
)

RANKER = (
    measured("default", 1.5, 5, model="ranker"),
    without_numbers("max-autotune", Outcome.INACCURATE, model="ranker"),
)


def answer(*cells: LatestCell, calls: int | None = None, cache: str = "cold") -> Answer:
    (group,) = compare_modes(cells, alerts=(), calls=calls, cache=cache)
    return answer_for(group)


def test_the_best_mode_is_recommended_with_its_price_and_its_limit(
    words: SnapshotAssertion,
) -> None:
    assert answer(*BOTH) == words


def test_a_model_for_which_the_mode_fails_is_in_title_and_first_sentence(
    words: SnapshotAssertion,
) -> None:
    shown = answer(*BOTH, *RANKER)
    assert "ranker" in shown.title
    assert "ranker (inaccurate" in shown.sentences[0]
    assert shown == words


def test_many_failing_models_are_counted_in_the_title(words: SnapshotAssertion) -> None:
    cells = [
        cell
        for number in range(5)
        for cell in (
            measured("default", 1.5, 5, model=f"bad{number}"),
            measured("default", 1.5, 5, model=f"good{number}"),
            measured("max-autotune", 2.0, 5, model=f"good{number}"),
            without_numbers("max-autotune", Outcome.FAILED, model=f"bad{number}"),
        )
    ]
    shown = answer(*cells)
    assert shown.title == words
    assert all(f"bad{number} (failed" in shown.sentences[0] for number in range(5))


def test_a_failing_model_that_no_mode_helps_stays_uncompiled(words: SnapshotAssertion) -> None:
    failed = without_numbers("max-autotune", Outcome.OUT_OF_MEMORY, model="unet")
    shown = answer(*BOTH, measured("default", 1.01, 5, model="unet"), failed)
    assert shown.sentences[0] == words


def test_a_small_gain_is_no_reason_to_compile(words: SnapshotAssertion) -> None:
    shown = answer(eager(), measured("default", 1.02, 5))
    assert shown.title.endswith("2 % [1, 3]")
    assert shown == words


def test_a_group_without_gain_names_the_models_that_have_one(words: SnapshotAssertion) -> None:
    cells = [measured("default", 0.8, 5, model=name) for name in ("gpt2", "vit")]
    shown = answer(measured("default", 1.3, 5), *cells)
    assert shown.sentences[-1] == words


def test_a_group_that_compiling_slows_down_has_no_best_gain(words: SnapshotAssertion) -> None:
    assert answer(eager(), measured("default", 0.8, 5)).title == words


def test_too_few_calls_are_no_reason_to_compile(words: SnapshotAssertion) -> None:
    assert answer(*BOTH, calls=900) == words


def test_the_expected_calls_are_in_the_answer(words: SnapshotAssertion) -> None:
    assert answer(*BOTH, calls=10_000) == words


def test_a_mode_for_other_numbers_of_calls_names_the_models_for_which_it_fails(
    words: SnapshotAssertion,
) -> None:
    shown = answer(*BOTH, *RANKER, calls=10_000)
    assert [sentence for sentence in shown.sentences if "max-autotune" in sentence] == words
    unet = (
        measured("max-autotune", 2.5, 50, model="unet"),
        without_numbers("default", Outcome.FAILED, model="unet"),
    )
    assert answer(*BOTH, *unet).sentences[-1] == words


def test_one_call_is_one_call() -> None:
    assert " 1 call " in answer(*BOTH, calls=1).sentences[2]


def test_a_late_break_even_is_in_the_title(words: SnapshotAssertion) -> None:
    # 10 ms x (1 - 1 / 1.1) is saved per call: 1000 s are 1.1 million calls.
    shown = answer(eager(), measured("default", 1.1, 1000))
    assert shown.title == words


def test_a_break_even_that_no_process_reaches_is_no_reason_to_compile(
    words: SnapshotAssertion,
) -> None:
    shown = answer(eager(), measured("default", 1.1, 1e6))
    assert shown.title == words


def test_modes_that_are_not_compared_have_a_line_each(words: SnapshotAssertion) -> None:
    unavailable = without_numbers("max-autotune-no-cudagraphs", Outcome.UNAVAILABLE)
    assert answer(*BOTH, same_code("reduce-overhead"), unavailable).sentences[-2:] == words


@pytest.mark.parametrize(
    ("older", "names"),
    [
        ({"model_revision": "4c1f"}, ["model code"]),
        ({"revision": "2.12.1"}, ["torch"]),
        ({"revision": "2.12.1", "model_revision": "4c1f"}, ["model code", "torch"]),
        ({"model_revision": ""}, []),
    ],
)
def test_modes_of_different_revisions_are_named(older: dict[str, str], names: list[str]) -> None:
    new = {"revision": "2.13.0", "model_revision": "9d2e"}
    first = replace(BOTH[1], run_started_at=START - timedelta(days=2), **{**new, **older})
    (group,) = compare_modes((first, replace(BOTH[2], **new), replace(BOTH[0], **new)), alerts=())
    assert sorted(group.rows[0].cells["default"].other_revisions) == names
    assert group.rows[0].cells["max-autotune"].other_revisions == ()
    sentences = [text for text in answer_for(group).sentences if text.startswith("Not all modes")]
    assert [name for text in sentences for name in names if f"same {name}:" in text] == names
    assert all("bert" in text for text in sentences)


def test_a_mode_with_numbers_of_few_models_is_named(words: SnapshotAssertion) -> None:
    others = [measured("default", 2.0, 5, model=name) for name in ("gpt2", "vit")]
    failing = [
        without_numbers("max-autotune", Outcome.FAILED, model=name) for name in ("gpt2", "vit")
    ]
    shown = answer(*BOTH, *others, *failing)
    assert shown.title == "Ship default"
    assert shown.sentences[-1] == words


def test_a_mode_that_ran_under_another_name_is_shipped_by_its_own(
    words: SnapshotAssertion,
) -> None:
    shown = answer(eager(), fallen_back(2.0, 4))
    assert shown.title == "Ship default"
    assert shown.sentences[-1] == words


def test_models_for_which_another_mode_ran_are_named(words: SnapshotAssertion) -> None:
    vit = (measured("default", 2.0, 5, model="vit"), measured("max-autotune", 2.0, 4, model="vit"))
    shown = answer(measured("default", 2.0, 5), fallen_back(2.0, 4), *vit)
    assert shown.title == "Ship max-autotune"
    assert shown.sentences[-1] == words


@pytest.mark.parametrize(
    ("others", "verb"), [(("default",), "costs"), (("default", "reduce-overhead"), "cost")]
)
def test_equally_fast_modes_that_cost_more_are_one_or_several(
    others: tuple[str, ...], verb: str
) -> None:
    shown = answer(measured("max-autotune", 2.0, 5), *(measured(it, 2.0, 50) for it in others))
    (sentence,) = [text for text in shown.sentences if text.startswith(", ".join(others))]
    assert sentence.endswith(f" {verb} more.")


def test_a_simpler_mode_is_recommended_with_its_reason(words: SnapshotAssertion) -> None:
    others = (
        measured("default", 2.0, 7.4, model="vit"),
        same_code("max-autotune", model="vit"),
        measured("default", 2.0, 7.4, model="moe"),
        measured("max-autotune", 2.5, 7.0, model="moe"),
    )
    shown = answer(measured("default", 2.0, 7.4), fallen_back(2.0, 7.36), *others)
    assert shown.title == "Ship default"
    assert shown == words


@pytest.mark.parametrize("others", [("max-autotune",), ("reduce-overhead", "max-autotune")])
def test_modes_without_an_advantage_are_named(
    others: tuple[str, ...], words: SnapshotAssertion
) -> None:
    modes = [measured(name, 2.01, 7.36) for name in others]
    shown = answer(measured("default", 2.0, 7.4), *modes)
    assert shown.title == "Ship default"
    assert shown == words


def test_models_that_do_not_gain_or_lack_numbers_are_named(words: SnapshotAssertion) -> None:
    shown = answer(
        *(measured("default", 2.0, 5, model=name) for name in ("a", "b", "c")),
        measured("default", 0.8, 5, model="slow"),
        measured("default", 1.0, 5, model="same"),
        without_numbers("default", Outcome.SKIPPED, model="skipped"),
    )
    assert shown == words


def test_a_model_that_another_mode_serves_better_is_named(words: SnapshotAssertion) -> None:
    shown = answer(
        *BOTH,
        measured("default", 3.0, 5, model="vit"),
        measured("max-autotune", 2.0, 5, model="vit"),
    )
    assert shown.title == "Ship default"
    assert [sentence for sentence in shown.sentences if sentence.startswith("Another")] == words


def test_without_common_ground_there_is_no_recommendation(words: SnapshotAssertion) -> None:
    cells = (measured("default", 2.0, 5), measured("max-autotune", 2.0, 5, model="vit"))
    assert answer(*cells, cache="warm") == words


@pytest.mark.parametrize("speedups", [(2.0, 2.0), (2.0, 1.0), (1.0, 1.0), (2.0,), (1.0,)])
def test_all_groups_have_one_line(speedups: tuple[float, ...], words: SnapshotAssertion) -> None:
    cells = [
        measured("default", speedup, 5, shape=f"s{number}")
        for number, speedup in enumerate(speedups)
    ]
    assert summary_of(compare_modes(cells, alerts=())) == words


def test_groups_with_different_modes_are_counted(words: SnapshotAssertion) -> None:
    full = measured("max-autotune", 2.0, 5, shape="full")
    assert summary_of(compare_modes([*BOTH[:2], full], alerts=())) == words


@pytest.mark.parametrize(
    ("calls", "text"),
    [
        (1, "1"),
        (1234, "1,200"),
        (99_900, "100,000"),
        (4.4e7, "44 million"),
        (9.99e8, "1.0 billion"),
        (2e9, "2.0 billion"),
    ],
)
def test_calls_have_two_digits_that_count(calls: float, text: str) -> None:
    assert about(calls) == text


def test_intervals_that_would_read_as_one_number_are_left_out_or_get_digits() -> None:
    assert ratio_text(Estimate(1.5, 1.501, 1.504)) == "1.50x [1.501, 1.504]"
    assert ratio_text(Estimate(1.5, 1.5, 1.5)) == "1.50x"
    assert gain_text(Estimate(1.345, 1.34, 1.35)) == "34.5 % [34.0, 35.0]"
    assert gain_text(Estimate(1.3, 1.2, 1.4)) == "30 % [20, 40]"
    assert gain_text(Estimate(1.3, 1.3, 1.3)) == "30.0 %"
    assert gain_text(Estimate(0.9999, 0.97, 1.02)) == "0 % [-3, 2]"
    assert calls_text(Estimate(1000.0, 1000.0, 1000.0)) == "1,000"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(31.5, "31.5 s"), (0.85, "850 ms"), (3e-5, "30.0 us"), (1e-8, "0.0100 us")],
)
def test_times_have_three_digits(seconds: float, text: str) -> None:
    assert time_text(seconds) == text


def test_unknown_memory_is_not_mentioned() -> None:
    cell = measured("default", 2.0, 5)
    numbers = dict(cell.summary.measurements)
    del numbers["peak_bytes"]
    bare = replace(cell, summary=replace(cell.summary, measurements=numbers))
    assert "memory" not in answer(bare).sentences[0]
