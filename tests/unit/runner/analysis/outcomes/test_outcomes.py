from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.results import Outcome, RunState, Verdict
from compile_hud.db.records.summaries import OutcomeHistory, OutcomePoint
from compile_hud.runner.analysis.alerts.lifecycle import update_alerts
from compile_hud.runner.analysis.outcomes import outcomes
from compile_hud.runner.analysis.outcomes.cadence import Timetable
from tests.support.records.histories import make_outcomes, night, planned_runs

OK, FAILED, SKIPPED = Outcome.OK, Outcome.FAILED, Outcome.SKIPPED


def judge_outcomes(
    histories: Sequence[OutcomeHistory], timetable: Timetable | None = None
) -> list[Alert]:
    """Return the alerts of `histories`, with the runs that planned their cases."""
    runs = planned_runs(histories)
    return outcomes.judge_outcomes(histories, runs=runs, timetable=timetable)


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


def bert(outcomes: Sequence[Outcome | None]) -> list[Alert]:
    return judge_outcomes(make_outcomes([{"bert": outcome} for outcome in outcomes]))


def test_first_failure_is_over_with_one_ok() -> None:
    (alert,) = bert([OK, FAILED, OK])
    assert alert.state is AlertState.FIXED


@pytest.mark.parametrize(
    ("bad", "kind"), [(FAILED, "outcome"), (SKIPPED, "vanished"), (Outcome.NODE_LOST, "vanished")]
)
def test_case_that_goes_to_and_fro_is_one_alert_that_stays_open(bad: Outcome, kind: str) -> None:
    first = bert([OK, bad])[0]
    for num_nights in range(4, 30):
        (alert,) = bert([OK, bad] * (num_nights // 2) + [OK] * (num_nights % 2))
        assert (alert.kind, alert.id, alert.state) == (kind, first.id, AlertState.OPEN)
        assert alert.last_seen == night(num_nights - 1 - num_nights % 2)


def test_case_that_went_to_and_fro_is_fixed_after_fourteen_good_points() -> None:
    fickle = [OK, FAILED, OK, FAILED]
    assert [item.state for item in bert([*fickle, *[OK] * 13])] == [AlertState.OPEN]
    assert [item.state for item in bert([*fickle, *[OK] * 14])] == [AlertState.FIXED]


def test_failure_after_fourteen_good_points_is_another_stretch() -> None:
    assert len(bert([OK, FAILED, *[OK] * 13, FAILED])) == 1
    assert len(bert([OK, FAILED, *[OK] * 14, FAILED])) == 2


def test_failure_of_another_kind_does_not_go_to_and_fro_with_the_first() -> None:
    alerts = bert([OK, FAILED, OK, Outcome.TIMEOUT])
    assert [item.state for item in alerts] == [AlertState.FIXED, AlertState.OPEN]


def test_failure_in_another_environment_does_not_go_to_and_fro_with_the_first() -> None:
    (history,) = make_outcomes([{"bert": outcome} for outcome in (OK, FAILED, OK, FAILED)])
    moved = dataclasses.replace(history.points[3], fingerprint="f" * 16)
    history = dataclasses.replace(history, points=(*history.points[:3], moved))
    assert len(judge_outcomes([history])) == 2


@pytest.mark.parametrize("seed", range(9))
def test_history_that_arrives_in_pieces_gives_the_alerts_that_it_gives_at_once(seed: int) -> None:
    draw = random.Random(seed)
    outcomes = [draw.choice((OK, OK, FAILED)) for _ in range(60)]
    outcomes[20:40] = [OK] * 20
    (whole,) = make_outcomes([{"bert": outcome} for outcome in outcomes])
    pieces = [whole.points[start : start + 12] for start in range(0, 60, 12)]
    draw.shuffle(pieces)
    once = settled(whole.points, whole, [])
    alerts: tuple[Alert, ...] = ()
    for number in range(1, len(pieces) + 1):
        points = [point for piece in pieces[:number] for point in piece]
        alerts = settled(sorted(points, key=lambda point: point.at), whole, alerts)
    assert facts(alerts) == facts(once)


def settled(
    points: Sequence[OutcomePoint], whole: OutcomeHistory, stored: Sequence[Alert]
) -> tuple[Alert, ...]:
    """Return the alerts after these points were judged with `known` in the store."""
    history = dataclasses.replace(whole, points=tuple(points))
    runs = {point.run_id for point in points}
    return update_alerts(judge_outcomes([history]), stored=stored, judged_runs=runs).alerts


def facts(alerts: Sequence[Alert]) -> list[tuple[object, ...]]:
    return sorted(
        (alert.first_bad.at, alert.last_seen, alert.cause_text, str(alert.state))
        for alert in alerts
    )


def test_case_that_never_was_ok_is_not_notified() -> None:
    assert judge_outcomes(make_outcomes([{"bert": FAILED}, {"bert": FAILED}, {"bert": OK}])) == []


def test_skipped_run_in_between_does_not_hide_a_failure() -> None:
    plans: list[dict[str, Outcome | None]] = [{"bert": OK}, {"bert": None}, {"bert": FAILED}]
    alerts = judge_outcomes(make_outcomes(plans, states={1: RunState.INTERRUPTED}))
    assert [alert.kind for alert in alerts] == ["outcome"]


def test_failure_in_an_interrupted_run_counts() -> None:
    plans = [{"bert": OK}, {"bert": FAILED}]
    alerts = judge_outcomes(make_outcomes(plans, states={1: RunState.INTERRUPTED}))
    assert [alert.kind for alert in alerts] == ["outcome"]


@pytest.mark.parametrize("missing", [None, SKIPPED, Outcome.NODE_LOST])
def test_planned_case_without_a_result_is_missing(
    missing: Outcome | None, words: SnapshotAssertion
) -> None:
    (alert,) = judge_outcomes(make_outcomes([{"bert": OK}, {"bert": missing}]))
    assert (alert.kind, alert.state) == ("vanished", AlertState.OPEN)
    assert alert.cause_text == words
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


def test_failed_case_that_vanishes_is_reported_as_failed_alone() -> None:
    plans: list[dict[str, Outcome | None]] = [{"bert": OK}, {"bert": FAILED}, {"bert": None}]
    assert [alert.kind for alert in judge_outcomes(make_outcomes(plans))] == ["outcome"]


def test_case_that_its_suite_no_longer_plans_has_vanished_on_the_third_run(
    words: SnapshotAssertion,
) -> None:
    whole, rest = {"bert": OK, "vit": OK, "t5": OK}, {"vit": OK, "t5": OK}
    assert judge_outcomes(make_outcomes([whole, whole, rest, rest])) == []
    (alert,) = judge_outcomes(make_outcomes([whole, whole, rest, rest, rest]))
    assert (alert.case.model, alert.kind) == ("bert", "vanished")
    assert (alert.first_bad.run_id, alert.last_seen) == ("run-2", night(4))
    assert alert.cause_text == words


def test_case_that_is_planned_again_is_fixed() -> None:
    whole, rest = {"bert": OK, "vit": OK}, {"vit": OK}
    (alert,) = judge_outcomes(make_outcomes([whole, whole, rest, rest, rest, whole]))
    assert alert.state is AlertState.FIXED


def test_failed_case_that_is_no_longer_planned_is_reported_once() -> None:
    both = {"bert": OK, "vit": OK}
    plans = [both, both, {"bert": FAILED, "vit": OK}, *[{"vit": OK}] * 4]
    assert [alert.kind for alert in judge_outcomes(make_outcomes(plans))] == ["outcome"]


def test_runs_that_were_interrupted_do_not_count_against_a_case() -> None:
    whole, rest = {"bert": OK, "vit": OK}, {"vit": OK}
    plans = [whole, whole, rest, rest, rest]
    assert judge_outcomes(make_outcomes(plans, states={3: RunState.INTERRUPTED})) == []


def test_interrupted_run_that_planned_a_case_shows_that_it_is_still_planned() -> None:
    whole, rest = {"bert": OK, "vit": OK}, {"vit": OK}
    halted: dict[str, Outcome | None] = {"bert": None, "vit": OK}
    plans: list[Mapping[str, Outcome | None]] = [whole, whole, rest, rest, halted, rest, rest]
    assert judge_outcomes(make_outcomes(plans, states={4: RunState.INTERRUPTED})) == []


def test_result_of_an_interrupted_run_ends_a_vanished_series() -> None:
    plans: list[dict[str, Outcome | None]] = [{"bert": OK}, {"bert": None}, {"bert": OK}]
    (alert,) = judge_outcomes(make_outcomes(plans, states={2: RunState.INTERRUPTED}))
    assert alert.state is AlertState.FIXED


def test_runs_of_a_much_smaller_selection_do_not_count() -> None:
    whole = {"bert": OK, "vit": OK, "t5": OK, "unet": OK}
    assert judge_outcomes(make_outcomes([whole, whole, *[{"vit": OK}] * 5])) == []


@pytest.mark.parametrize("old", [["bert"], ["bert", "vit"]])
def test_case_that_was_renamed_has_vanished_without_companions(
    old: list[str], words: SnapshotAssertion
) -> None:
    before, after = dict.fromkeys(old, OK), dict.fromkeys([f"{name}-2" for name in old], OK)
    assert judge_outcomes(make_outcomes([*[before] * 2, *[after] * 2])) == []
    alerts = judge_outcomes(make_outcomes([*[before] * 2, *[after] * 3]))
    assert [(alert.case.model, alert.kind) for alert in alerts] == [
        (name, "vanished") for name in old
    ]
    assert [alert.cause_text for alert in alerts] == words


def test_new_case_in_the_plan_of_a_vanished_one_is_named(words: SnapshotAssertion) -> None:
    whole = {"bert": OK, "vit": OK, "t5": OK}
    names = ["t5", "vit", *(f"bert-{number}" for number in range(2, 6))]
    (alert,) = judge_outcomes(make_outcomes([whole, whole, *[dict.fromkeys(names, OK)] * 3]))
    assert (alert.case.model, alert.cause_text) == ("bert", words)


def test_another_selection_without_a_common_case_is_no_new_name() -> None:
    histories = make_outcomes([*[{"bert": OK}] * 2, *[{"vit": OK}] * 7])
    case = dataclasses.replace(histories[1].case, shape="large")
    assert judge_outcomes([histories[0], dataclasses.replace(histories[1], case=case)]) == []


def test_runs_of_another_suite_do_not_count() -> None:
    plans = [*[{"bert": OK, "vit": OK}] * 2, *[{"vit": OK}] * 4]
    others = dict.fromkeys(range(2, 6), "quick")
    assert judge_outcomes(make_outcomes(plans, suites=others)) == []


def test_selections_by_hand_are_not_expected_to_be_alike() -> None:
    plans = [*[{"bert": OK, "vit": OK}] * 2, *[{"vit": OK}] * 4]
    assert judge_outcomes(make_outcomes(plans, suite="custom")) == []


def test_runs_on_another_machine_do_not_count() -> None:
    here = make_outcomes([{"bert": OK, "vit": OK}] * 2)
    there = make_outcomes([{"vit": OK}] * 5, machine="other")
    assert judge_outcomes([*here, *there]) == []


def test_failure_in_one_of_two_toolchains_names_it() -> None:
    calm = make_outcomes([{"bert": OK}] * 2, toolchain="stable")
    hit = make_outcomes([{"bert": OK}, {"bert": Outcome.FAILED}], toolchain="nightly")
    (alert,) = judge_outcomes([*calm, *hit])
    assert alert.toolchain == "nightly"


def test_runs_of_another_toolchain_do_not_count() -> None:
    here = make_outcomes([{"bert": OK, "vit": OK}] * 2)
    there = make_outcomes([{"vit": OK}] * 5, toolchain="nightly")
    assert judge_outcomes([*here, *there]) == []


def test_case_that_another_suite_still_measures_has_not_vanished() -> None:
    plans = [*[{"bert": OK, "vit": OK}] * 2, *[{"vit": OK}, {"bert": OK}] * 4]
    suites = dict.fromkeys(range(3, 10, 2), "quick")
    assert judge_outcomes(make_outcomes(plans, suites=suites)) == []


def test_case_that_was_planned_once_cannot_vanish() -> None:
    plans = [{"vit": OK}, {"bert": OK, "vit": OK}, *[{"vit": OK}] * 20]
    assert judge_outcomes(make_outcomes(plans)) == []


def weekly(num_nights: int, *, num_points: int, first: int = 0) -> list[Mapping[str, Outcome]]:
    """Return plans in which bert comes every seventh night, so many times, beside vit and t5."""
    nights = {first + 7 * number for number in range(num_points)}
    rest = {"vit": OK, "t5": OK}
    return [{"bert": OK, **rest} if number in nights else rest for number in range(num_nights)]


def test_weekly_case_with_two_points_is_late_after_a_week_and_something() -> None:
    # The second point is that of night 7; a week and a half later is in the middle of night 17.
    for num_nights in range(9, 18):
        assert judge_outcomes(make_outcomes(weekly(num_nights, num_points=2))) == []
    (alert,) = judge_outcomes(make_outcomes(weekly(19, num_points=2)))
    assert (alert.case.model, alert.kind) == ("bert", "vanished")
    assert alert.last_good is not None
    assert alert.last_good.run_id == "run-7"


def test_weekly_case_that_keeps_coming_is_never_late() -> None:
    assert judge_outcomes(make_outcomes(weekly(60, num_points=9))) == []


def test_weekly_case_measured_by_runs_of_its_own_is_late_too(words: SnapshotAssertion) -> None:
    def plans(num_nights: int) -> list[dict[str, Outcome]]:
        return [{"bert": OK} if number in (0, 7) else {"vit": OK} for number in range(num_nights)]

    assert judge_outcomes(make_outcomes(plans(18))) == []
    (alert,) = judge_outcomes(make_outcomes(plans(21)))
    assert (alert.case.model, alert.kind, alert.state) == ("bert", "late", AlertState.OPEN)
    assert alert.cause_text == words
    assert (alert.first_bad.run_id, alert.last_seen) == ("run-18", night(20))


def test_late_case_that_comes_again_is_fixed() -> None:
    plans = [{"bert": OK} if number in (0, 7, 20) else {"vit": OK} for number in range(22)]
    (alert,) = judge_outcomes(make_outcomes(plans))
    assert (alert.kind, alert.state) == ("late", AlertState.FIXED)


def scheduled(now: datetime, *, machine: str = "box") -> Timetable:
    def late_from(suite: str, toolchain: str, last: datetime) -> datetime | None:
        is_ours = (suite, toolchain) == ("nightly", "stable")
        return last + timedelta(days=1.5) if is_ours else None

    return Timetable(machine=machine, now=now, late_from=late_from)


def test_suite_that_its_schedule_should_have_run_is_late_with_all_its_cases(
    words: SnapshotAssertion,
) -> None:
    histories = make_outcomes([{"bert": OK, "vit": OK}] * 3)
    limit = night(2) + timedelta(days=1.5)
    assert judge_outcomes(histories, scheduled(limit)) == []
    late = judge_outcomes(histories, scheduled(limit + timedelta(seconds=1)))
    assert [(alert.kind, alert.state) for alert in late] == [("late", AlertState.OPEN)] * 2
    assert late[0].first_bad.at == late[0].last_seen == limit
    assert late[0].cause_text == words
    assert late == judge_outcomes(histories, scheduled(limit + timedelta(days=9)))


def test_suite_of_another_machine_or_without_a_schedule_is_never_late() -> None:
    histories = make_outcomes([{"bert": OK}] * 3)
    assert judge_outcomes(histories, scheduled(night(99), machine="lab")) == []
    other = make_outcomes([{"bert": OK}] * 3, suite="weekly")
    assert judge_outcomes(other, scheduled(night(99))) == []


def rotating(*, nights: int = 30, models: int = 3) -> list[OutcomeHistory]:
    """Return what a suite does whose budget is enough for one model a night after the tenth."""
    names = [f"model_{number}" for number in range(models)]
    deferred = {
        name: [at for at in range(10, nights) if at % models != index]
        for index, name in enumerate(names)
    }
    plans = [
        {name: SKIPPED if at in deferred[name] else OK for name in names} for at in range(nights)
    ]
    return make_outcomes(plans, deferred=deferred)


def test_deferred_case_is_neither_missing_nor_overdue() -> None:
    assert judge_outcomes(rotating()) == []
    assert judge_outcomes(rotating(nights=60, models=7)) == []


def test_case_that_is_skipped_for_another_reason_has_vanished() -> None:
    (alert,) = judge_outcomes(make_outcomes([{"bert": OK}] * 3 + [{"bert": SKIPPED}]))
    assert alert.cause_text == "planned, but skipped"


def test_deferred_case_that_is_no_longer_planned_is_missing(words: SnapshotAssertion) -> None:
    plans = [{"bert": OK, "vit": OK}] * 6 + [{"bert": SKIPPED, "vit": OK}] + [{"vit": OK}] * 5
    (alert,) = judge_outcomes(make_outcomes(plans, deferred={"bert": [6]}))
    assert alert.cause_text == words
    assert alert.last_good is not None
    assert (alert.last_good.run_id, alert.first_bad.run_id) == ("run-5", "run-7")


def test_failed_case_stays_failed_while_deferred() -> None:
    plans = [{"bert": OK}, {"bert": FAILED}, {"bert": SKIPPED}, {"bert": SKIPPED}]
    (alert,) = judge_outcomes(make_outcomes(plans, deferred={"bert": [2, 3]}))
    assert (alert.kind, alert.state, alert.last_seen) == ("outcome", AlertState.OPEN, night(1))


def test_deferred_case_does_not_hide_a_second_failure() -> None:
    plans = [{"bert": OK}, {"bert": SKIPPED}, {"bert": FAILED}]
    (alert,) = judge_outcomes(make_outcomes(plans, deferred={"bert": [1]}))
    assert alert.cause_text == "ok -> failed"


def test_case_that_moved_to_another_machine_of_the_same_runs_has_not_vanished() -> None:
    here = make_outcomes([{"bert": OK, "vit": OK}] * 6 + [{"vit": OK}] * 5)
    there = make_outcomes([{"gpt": OK}] * 6 + [{"gpt": OK, "bert": OK}] * 5, machine="other")
    assert judge_outcomes([*here, *there]) == []
    assert [alert.kind for alert in judge_outcomes(here)] == ["vanished"]


def test_case_that_is_the_same_code_as_another_is_not_notified_and_still_fails() -> None:
    same = Outcome.SAME_CODE
    assert bert([OK, same, OK, same, same]) == []
    (alert,) = bert([same, same, FAILED])
    assert (alert.kind, alert.state) == ("outcome", AlertState.OPEN)
    (alert,) = bert([OK, FAILED, same])
    assert alert.state is AlertState.FIXED


def test_case_that_its_device_cannot_run_is_neither_missing_nor_failed() -> None:
    gone = Outcome.UNAVAILABLE
    assert bert([OK, gone, gone, gone, gone]) == []
    assert bert([gone, OK, gone]) == []
