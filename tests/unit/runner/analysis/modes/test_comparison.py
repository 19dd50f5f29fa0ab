"""The comparison of the modes: groups, models, modes without numbers, the recommendation."""

from __future__ import annotations

import pytest

from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.results import Outcome, Phase
from compile_hud.db.records.summaries import LatestCell
from compile_hud.runner.analysis.modes.comparison import compare_modes
from compile_hud.runner.analysis.modes.records import CellState, ModeDecision, ModeGroup
from tests.support.builders import make_alert, make_case
from tests.support.records.mode_results import (
    BOTH,
    eager,
    fallen_back,
    measured,
    same_code,
    without_numbers,
)
from tests.support.records.page_results import latest

DEFAULT = "default"

FAILURES = (Outcome.FAILED, Outcome.TIMEOUT, Outcome.OUT_OF_MEMORY, Outcome.INACCURATE)


def one_group(
    *cells: LatestCell, alerts: tuple[Alert, ...] = (), calls: int | None = None
) -> ModeGroup:
    (group,) = compare_modes(cells, alerts=alerts, calls=calls)
    return group


def shipped(group: ModeGroup) -> str:
    mode = group.recommendation.mode
    return "" if mode is None else mode.variant


def variants(group: ModeGroup) -> list[str]:
    return [mode.variant for mode in group.choice.modes]


def test_phases_and_shapes_are_never_averaged() -> None:
    cells = [
        measured("default", 2.0, 5, shape="small"),
        measured("default", 1.01, 5, shape="full"),
        measured("default", 3.0, 5, shape="small", phase=Phase.TRAINING),
    ]
    groups = compare_modes(cells, alerts=())
    assert [(group.label, group.key) for group in groups] == [
        ("inference, full", "inference/full/fp32/cpu"),
        ("inference, small", "inference/small/fp32/cpu"),
        ("training, small", "training/small/fp32/cpu"),
    ]
    assert [group.choice.modes[0].speedup.value for group in groups] == [1.01, 2.0, 3.0]
    assert [shipped(group) for group in groups] == ["", "default", "default"]


@pytest.mark.parametrize("dimension", [{"dtype": "bf16"}, {"device": "cuda"}])
def test_dtypes_and_devices_are_never_averaged(dimension: dict[str, str]) -> None:
    cells = [measured("default", 2.0, 5), measured("default", 1.01, 5, **dimension)]
    labels = {group.label for group in compare_modes(cells, alerts=())}
    assert labels in ({"fp32", "bf16"}, {"cpu", "cuda"})


def test_a_group_of_eager_only_is_left_out() -> None:
    assert compare_modes([eager()], alerts=()) == ()
    (group,) = compare_modes([eager(shape="full"), *BOTH], alerts=())
    assert group.shape == "tiny"


def test_a_model_with_two_shapes_is_one_model() -> None:
    cells = [measured("default", 2.0, 5, shape=shape) for shape in ("small", "full")]
    assert [group.models for group in compare_modes(cells, alerts=())] == [("bert",), ("bert",)]


def test_variants_that_are_no_mode_are_left_out() -> None:
    other = make_case(mode="default", variant="default-channels-last")
    group = one_group(*BOTH, latest(other, values={"speedup": 9.0}))
    assert set(group.rows[0].cells) == {"default", "max-autotune"}


@pytest.mark.parametrize("outcome", FAILURES)
def test_a_mode_that_fails_for_a_model_has_its_replacement(outcome: Outcome) -> None:
    group = one_group(
        *BOTH,
        measured("default", 1.5, 5, model="ranker"),
        without_numbers("max-autotune", outcome, model="ranker"),
    )
    assert shipped(group) == "max-autotune"
    (item,) = group.recommendation.exceptions
    assert (item.model, item.reason) == ("ranker", str(outcome).replace("_", " "))
    assert item.mode is not None
    assert item.mode.variant == "default"


@pytest.mark.parametrize(("kind", "word"), [("vanished", "missing"), ("late", "overdue")])
def test_a_missing_case_is_a_failure(kind: str, word: str) -> None:
    vit = measured("max-autotune", 2.5, 50, model="vit")
    alert = make_alert("gone", case=vit.summary.case, kind=kind, metric="outcome", unit="")
    group = one_group(*BOTH, vit, measured("default", 1.01, 5, model="vit"), alerts=(alert,))
    (item,) = group.recommendation.exceptions
    assert (item.model, item.reason, item.mode) == ("vit", word, None)
    assert group.rows[1].cells["max-autotune"].state is CellState.FAILING


def test_a_model_that_was_not_measured_is_an_exception() -> None:
    group = one_group(*BOTH, measured("default", 1.5, 5, model="vit"))
    (item,) = group.recommendation.exceptions
    assert (item.model, item.reason, item.is_failure) == ("vit", "", False)
    assert item.mode is not None
    assert item.mode.variant == "default"


@pytest.mark.parametrize("outcome", [Outcome.SKIPPED, Outcome.NODE_LOST])
def test_a_case_that_was_not_tried_is_an_exception_and_no_failure(outcome: Outcome) -> None:
    group = one_group(
        *BOTH,
        measured("default", 1.5, 5, model="vit"),
        without_numbers("max-autotune", outcome, model="vit"),
    )
    (item,) = group.recommendation.exceptions
    assert (item.model, item.is_failure) == ("vit", False)
    assert item.reason == str(outcome).replace("_", " ")
    assert group.rows[1].cells["max-autotune"].state is CellState.NOT_MEASURED


def test_a_mode_with_numbers_of_few_models_does_not_shrink_the_cohort() -> None:
    others = [measured("default", 2.0, 5, model=name) for name in ("gpt2", "vit")]
    failing = [
        without_numbers("max-autotune", Outcome.FAILED, model=name) for name in ("gpt2", "vit")
    ]
    group = one_group(*BOTH, *others, *failing)
    assert group.sparse == {"max-autotune": 1}
    assert variants(group) == ["default"]
    assert group.choice.cohort == ("bert", "gpt2", "vit")


def test_a_mode_with_the_code_of_another_is_not_compared_with_it() -> None:
    group = one_group(*BOTH, same_code("reduce-overhead"))
    assert group.stand_ins == {"reduce-overhead": "default"}
    cells = group.rows[0].cells
    assert cells["reduce-overhead"].cost == cells["default"].cost
    assert variants(group) == ["max-autotune", "default"]


def test_a_mode_with_the_code_of_default_for_most_models_is_not_recommended() -> None:
    models = ("a", "b", "c", "d")
    cells = [
        *(measured("default", 2.0, 7.4, model=name) for name in (*models, "e")),
        *(same_code("max-autotune", model=name) for name in models),
        measured("max-autotune", 3.0, 7.36, model="e"),
    ]
    group = one_group(*cells)
    assert (group.choice.twins, shipped(group)) == ({"max-autotune": "default"}, "default")
    assert {row.model: row.best for row in group.rows} == {
        **dict.fromkeys(models, "default"),
        "e": "max-autotune",
    }
    few = one_group(*cells[2:5], *cells[-2:], measured("max-autotune", 3.0, 7.36, model="c"))
    assert (few.choice.twins, shipped(few)) == ({}, "max-autotune")


def test_a_mode_has_the_numbers_of_the_code_that_it_shares() -> None:
    """It is compared as soon as one model has code of its own in it."""
    group = one_group(
        *BOTH,
        same_code("reduce-overhead"),
        measured("default", 2.0, 5, model="vit"),
        measured("max-autotune", 2.0, 50, model="vit"),
        measured("reduce-overhead", 4.0, 6, model="vit"),
    )
    assert group.stand_ins == {}
    speedups = {mode.variant: mode.speedup.value for mode in group.choice.modes}
    assert speedups["reduce-overhead"] == pytest.approx((2.0 * 4.0) ** 0.5)


def test_shared_code_without_a_result_is_no_failure() -> None:
    failed = without_numbers("default", Outcome.FAILED)
    other = same_code("reduce-overhead")
    group = one_group(failed, other, measured("max-autotune", 2.0, 50))
    cell = group.rows[0].cells["reduce-overhead"]
    assert (cell.state, cell.cost, cell.reason) == (
        CellState.NO_NUMBERS,
        None,
        other.summary.reason,
    )


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [(Outcome.SAME_CODE, "same code as default"), (Outcome.UNAVAILABLE, "no CUDA graphs")],
)
def test_shared_code_and_modes_that_a_device_lacks_are_no_exceptions(
    outcome: Outcome, reason: str
) -> None:
    other = without_numbers("max-autotune", outcome, model="unet", reason=reason)
    group = one_group(*BOTH, eager("unet"), other)
    assert shipped(group) == "max-autotune"
    assert group.recommendation.exceptions == ()


def test_a_mode_that_the_device_does_not_have_is_named_and_left_out() -> None:
    group = one_group(*BOTH, without_numbers("reduce-overhead", Outcome.UNAVAILABLE))
    assert group.unavailable == ("reduce-overhead",)
    assert shipped(group) == "max-autotune"
    assert group.recommendation.exceptions == ()
    assert group.rows[0].cells["reduce-overhead"].state is CellState.UNAVAILABLE


def test_a_mode_that_never_ran_is_not_compared_with_the_one_that_ran() -> None:
    """Its numbers are of the same code: what they differ by is noise."""
    group = one_group(eager(), measured("default", 2.0, 5), fallen_back(2.5, 4))
    assert variants(group) == ["default"]
    assert group.stand_in_text("max-autotune") == f"fell back to {DEFAULT}"


def test_a_mode_that_never_ran_stands_in_for_one_that_was_not_measured() -> None:
    group = one_group(eager(), fallen_back(2.0, 4))
    assert shipped(group) == "max-autotune"
    assert group.recommendation.runs_as == "default"


@pytest.mark.parametrize(
    ("speedup", "decision"),
    [(1.04, ModeDecision.NO_GAIN), (1.06, ModeDecision.SHIP), (0.9, ModeDecision.NO_GAIN)],
)
def test_a_gain_below_the_floor_is_no_reason_to_compile(
    speedup: float, decision: ModeDecision
) -> None:
    group = one_group(measured("default", speedup, 5))
    assert group.recommendation.decision is decision
    assert group.recommendation.best is not None
    assert group.recommendation.best.speedup.value == speedup


def test_the_calls_of_a_process_decide_between_the_modes() -> None:
    # Eager takes 10 ms; default saves 5 ms a call for 5 s, max-autotune 6 ms for 50 s.
    modes = {calls: shipped(one_group(*BOTH, calls=calls)) for calls in (900, 1100, 44_000, 46_000)}
    assert modes == {900: "", 1100: "default", 44_000: "default", 46_000: "max-autotune"}
    group = one_group(*BOTH, calls=10_000)
    # 5 s and 10,000 calls of 5 ms, against 10,000 calls of 10 ms.
    assert group.recommendation.relative_time == pytest.approx(0.55)


def test_too_few_calls_name_the_mode_that_pays_first() -> None:
    recommendation = one_group(*BOTH, calls=900).recommendation
    assert recommendation.decision is ModeDecision.TOO_FEW_CALLS
    assert recommendation.best is not None
    assert recommendation.best.variant == "default"
    assert recommendation.best.break_even is not None
    assert recommendation.best.break_even.value == pytest.approx(1000)


def test_a_filled_cache_pays_earlier() -> None:
    (group,) = compare_modes(BOTH, alerts=(), cache="warm")
    assert [span.from_calls for span in group.choice.spans] == pytest.approx([1, 100, 4500])


def test_each_model_has_its_own_best_mode() -> None:
    group = one_group(
        *BOTH,
        measured("default", 3.0, 5, model="vit"),
        measured("max-autotune", 2.0, 5, model="vit"),
        measured("default", 1.01, 5, model="wav2vec2"),
        measured("max-autotune", 1.01, 5, model="wav2vec2"),
    )
    assert {row.model: row.best for row in group.rows} == {
        "bert": "max-autotune",
        "vit": "default",
        "wav2vec2": "",
    }


def test_without_a_common_model_nothing_is_recommended() -> None:
    group = one_group(measured("default", 2.0, 5), measured("max-autotune", 2.0, 5, model="vit"))
    assert group.recommendation.decision is ModeDecision.NO_COHORT
    assert len(group.rows) == 2


def test_missing_numbers_are_named() -> None:
    without_compile_time = latest(make_case(), values={"latency_s": 0.01, "speedup": 2.0})
    (row,) = one_group(without_compile_time).rows
    assert row.cells["default"].reason == "no compile time"
    without_speedup = latest(make_case(), values={"latency_s": 0.01, "compile_cold_s": 2.0})
    (row,) = one_group(without_speedup).rows
    assert row.cells["default"].reason == "no speedup"


def test_a_gain_that_is_not_significant_has_no_break_even() -> None:
    (row,) = one_group(measured("default", 1.005, 5)).rows
    assert row.cells["default"].cost is not None
    assert row.cells["default"].break_even is None
