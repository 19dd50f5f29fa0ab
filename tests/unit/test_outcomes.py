from __future__ import annotations

from collections.abc import Mapping

import pytest

from db.records import AlertState, Outcome, RunState, Verdict
from runner.analysis.outcomes import judge_outcomes
from tests.histories import make_outcomes, night

OK, FAILED, SKIPPED = Outcome.OK, Outcome.FAILED, Outcome.SKIPPED


@pytest.mark.parametrize("bad", ["failed", "timeout", "out_of_memory", "inaccurate"])
def test_case_that_was_ok_and_is_not_any_more_is_a_regression(bad: str) -> None:
    plans = [{"bert": OK}, {"bert": OK}, {"bert": Outcome(bad)}, {"bert": Outcome(bad)}]
    (alert,) = judge_outcomes(make_outcomes(plans))
    assert (alert.kind, alert.verdict, alert.state) == (
        "outcome",
        Verdict.REGRESSION,
        AlertState.OPEN,
    )
    assert (alert.first_bad.run_id, alert.last_seen) == ("run-2", night(3))
    assert alert.last_good is not None
    assert alert.last_good.run_id == "run-1"
    assert alert.cause_text == f"ok -> {bad}"
    assert (alert.metric, alert.unit, alert.baseline, alert.change_pct) == (
        "outcome",
        "",
        None,
        None,
    )


def test_outcome_that_is_ok_again_is_fixed_and_the_next_failure_is_another_alert() -> None:
    plans = [{"bert": outcome} for outcome in (OK, FAILED, OK, FAILED)]
    first, second = judge_outcomes(make_outcomes(plans))
    assert (first.state, second.state) == (AlertState.FIXED, AlertState.OPEN)
    assert first.id != second.id


def test_case_that_never_was_ok_is_no_news() -> None:
    assert judge_outcomes(make_outcomes([{"bert": FAILED}, {"bert": FAILED}, {"bert": OK}])) == []


def test_skipped_run_in_between_does_not_hide_a_failure() -> None:
    plans: list[dict[str, Outcome | None]] = [{"bert": OK}, {"bert": None}, {"bert": FAILED}]
    found = judge_outcomes(make_outcomes(plans, states={1: RunState.INTERRUPTED}))
    assert [alert.kind for alert in found] == ["outcome"]


def test_failure_in_an_interrupted_run_counts() -> None:
    plans = [{"bert": OK}, {"bert": FAILED}]
    found = judge_outcomes(make_outcomes(plans, states={1: RunState.INTERRUPTED}))
    assert [alert.kind for alert in found] == ["outcome"]


@pytest.mark.parametrize(
    ("missing", "text"),
    [(None, "planned, but without a result"), (SKIPPED, "planned, but skipped")],
)
def test_planned_case_without_a_result_has_vanished(missing: Outcome | None, text: str) -> None:
    (alert,) = judge_outcomes(make_outcomes([{"bert": OK}, {"bert": missing}]))
    assert (alert.kind, alert.state, alert.cause_text) == ("vanished", AlertState.OPEN, text)
    assert alert.first_bad.run_id == "run-1"


def test_result_that_comes_again_ends_a_vanished_series() -> None:
    (alert,) = judge_outcomes(make_outcomes([{"bert": OK}, {"bert": None}, {"bert": OK}]))
    assert (alert.state, alert.last_seen) == (AlertState.FIXED, night(1))


@pytest.mark.parametrize("state", [RunState.RUNNING, RunState.INTERRUPTED])
def test_run_that_is_not_finished_says_nothing_about_what_is_missing(state: RunState) -> None:
    plans: list[dict[str, Outcome | None]] = [{"bert": OK}, {"bert": None}]
    assert judge_outcomes(make_outcomes(plans, states={1: state})) == []


def test_case_that_was_never_measured_cannot_vanish() -> None:
    plans: list[dict[str, Outcome | None]] = [{"bert": SKIPPED}, {"bert": None}]
    assert judge_outcomes(make_outcomes(plans)) == []


def test_failed_case_that_vanishes_is_told_as_failed_alone() -> None:
    plans: list[dict[str, Outcome | None]] = [{"bert": OK}, {"bert": FAILED}, {"bert": None}]
    assert [alert.kind for alert in judge_outcomes(make_outcomes(plans))] == ["outcome"]


def test_case_that_its_suite_no_longer_plans_has_vanished_on_the_third_run() -> None:
    whole, rest = {"bert": OK, "vit": OK, "t5": OK}, {"vit": OK, "t5": OK}
    assert judge_outcomes(make_outcomes([whole, rest, rest])) == []
    (alert,) = judge_outcomes(make_outcomes([whole, rest, rest, rest]))
    assert (alert.case.model, alert.kind) == ("bert", "vanished")
    assert (alert.first_bad.run_id, alert.last_seen) == ("run-1", night(3))
    assert alert.cause_text == "no longer planned in suite nightly"


def test_case_that_is_planned_again_is_fixed() -> None:
    whole, rest = {"bert": OK, "vit": OK}, {"vit": OK}
    (alert,) = judge_outcomes(make_outcomes([whole, rest, rest, rest, whole]))
    assert alert.state is AlertState.FIXED


def test_failed_case_that_is_no_longer_planned_is_not_told_twice() -> None:
    plans = [{"bert": OK, "vit": OK}, {"bert": FAILED, "vit": OK}, *[{"vit": OK}] * 4]
    assert [alert.kind for alert in judge_outcomes(make_outcomes(plans))] == ["outcome"]


def test_runs_that_were_interrupted_do_not_count_against_a_case() -> None:
    whole, rest = {"bert": OK, "vit": OK}, {"vit": OK}
    plans = [whole, rest, rest, rest]
    assert judge_outcomes(make_outcomes(plans, states={2: RunState.INTERRUPTED})) == []


def test_interrupted_run_that_planned_a_case_shows_that_it_is_still_planned() -> None:
    whole, rest = {"bert": OK, "vit": OK}, {"vit": OK}
    halted: dict[str, Outcome | None] = {"bert": None, "vit": OK}
    plans: list[Mapping[str, Outcome | None]] = [whole, rest, rest, halted, rest, rest]
    assert judge_outcomes(make_outcomes(plans, states={3: RunState.INTERRUPTED})) == []


def test_result_of_an_interrupted_run_ends_a_vanished_series() -> None:
    plans: list[dict[str, Outcome | None]] = [{"bert": OK}, {"bert": None}, {"bert": OK}]
    (alert,) = judge_outcomes(make_outcomes(plans, states={2: RunState.INTERRUPTED}))
    assert alert.state is AlertState.FIXED


def test_runs_of_a_much_smaller_selection_do_not_count() -> None:
    whole = {"bert": OK, "vit": OK, "t5": OK, "unet": OK}
    assert judge_outcomes(make_outcomes([whole, *[{"vit": OK}] * 5])) == []


def test_case_that_was_alone_in_its_suite_does_not_vanish_with_it() -> None:
    plans = [{"bert": OK}, *[{"vit": OK}] * 4]
    assert judge_outcomes(make_outcomes(plans)) == []


def test_runs_of_another_suite_do_not_count() -> None:
    plans = [{"bert": OK, "vit": OK}, *[{"vit": OK}] * 4]
    others = dict.fromkeys(range(1, 5), "quick")
    assert judge_outcomes(make_outcomes(plans, suites=others)) == []


def test_selections_by_hand_are_not_expected_to_be_alike() -> None:
    plans = [{"bert": OK, "vit": OK}, *[{"vit": OK}] * 4]
    assert judge_outcomes(make_outcomes(plans, suite="custom")) == []


def test_runs_on_another_machine_do_not_count() -> None:
    here = make_outcomes([{"bert": OK, "vit": OK}])
    there = make_outcomes([{"vit": OK}] * 5, machine="other")
    assert judge_outcomes([*here, *there]) == []


def test_failure_in_one_of_two_toolchains_names_it() -> None:
    calm = make_outcomes([{"bert": OK}] * 2, toolchain="stable")
    hit = make_outcomes([{"bert": OK}, {"bert": Outcome.FAILED}], toolchain="nightly")
    (alert,) = judge_outcomes([*calm, *hit])
    assert alert.toolchain == "nightly"


def test_runs_of_another_toolchain_do_not_count() -> None:
    here = make_outcomes([{"bert": OK, "vit": OK}])
    there = make_outcomes([{"vit": OK}] * 5, toolchain="nightly")
    assert judge_outcomes([*here, *there]) == []


def test_case_that_another_suite_still_measures_has_not_vanished() -> None:
    plans = [{"bert": OK, "vit": OK}, *[{"vit": OK}, {"bert": OK}] * 4]
    suites = dict.fromkeys(range(2, 10, 2), "quick")
    assert judge_outcomes(make_outcomes(plans, suites=suites)) == []
