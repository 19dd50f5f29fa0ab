from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.results import RunRef, Verdict
from compile_hud.runner.analysis.alerts.event_grouping import events_of
from compile_hud.runner.analysis.alerts.lifecycle import (
    NO_LONGER_DETECTED,
    Update,
    match_stored,
    update_alerts,
)
from tests.support.builders import make_alert
from tests.support.records.histories import night as nth_night

RUN = make_alert().first_bad.run_id
STATES = list(AlertState)
OTHER = "e" * 32


def update(detected: list[Alert], stored: list[Alert], *, runs: tuple[str, ...] = (RUN,)) -> Update:
    return update_alerts(detected, stored=stored, judged_runs=runs)


def changed(alert_update: Update) -> tuple[Alert, ...]:
    return tuple(revision.alert for revision in alert_update.revisions)


def in_state(state: AlertState, *, text: str = "") -> Alert:
    return dataclasses.replace(make_alert(state=state), cause_text=text)


def test_first_sight_of_an_alert_is_new() -> None:
    alert_update = update([make_alert()], [])
    assert alert_update.new == changed(alert_update) == alert_update.alerts == (make_alert(),)
    assert alert_update.fixed == ()


def test_step_that_was_over_before_it_was_judged_is_not_notified() -> None:
    alert_update = update([in_state(AlertState.FIXED)], [])
    assert (alert_update.new, alert_update.fixed) == ((), ())
    assert changed(alert_update) == (in_state(AlertState.FIXED),)


def test_judging_the_same_history_again_changes_nothing() -> None:
    alert_update = update([make_alert()], [make_alert()])
    assert (changed(alert_update), alert_update.new, alert_update.fixed) == ((), (), ())
    assert alert_update.alerts == (make_alert(),)


@pytest.mark.parametrize(
    ("stored", "detected", "then"),
    [
        (AlertState.OPEN, AlertState.OPEN, AlertState.OPEN),
        (AlertState.OPEN, AlertState.FIXED, AlertState.FIXED),
        (AlertState.ACKNOWLEDGED, AlertState.OPEN, AlertState.ACKNOWLEDGED),
        (AlertState.ACKNOWLEDGED, AlertState.FIXED, AlertState.FIXED),
        (AlertState.EXPECTED, AlertState.OPEN, AlertState.EXPECTED),
        (AlertState.EXPECTED, AlertState.FIXED, AlertState.EXPECTED),
        (AlertState.NOISE, AlertState.OPEN, AlertState.NOISE),
        (AlertState.NOISE, AlertState.FIXED, AlertState.NOISE),
        (AlertState.FIXED, AlertState.OPEN, AlertState.OPEN),
        (AlertState.FIXED, AlertState.FIXED, AlertState.FIXED),
    ],
)
def test_states_set_by_users_are_preserved(
    stored: AlertState, detected: AlertState, then: AlertState
) -> None:
    result = update([in_state(detected)], [in_state(stored)])
    assert [alert.state for alert in result.alerts] == [then]
    assert len(result.fixed) == (then is AlertState.FIXED and stored is not AlertState.FIXED)
    assert len(result.new) == (then is AlertState.OPEN and stored is not AlertState.OPEN)


def test_new_numbers_of_a_known_alert_are_saved() -> None:
    later = dataclasses.replace(make_alert(), change_pct=21.0)
    alert_update = update([later], [make_alert()])
    assert changed(alert_update) == (later,)
    assert (alert_update.new, alert_update.fixed) == ((), ())


def test_alert_that_was_fixed_before_is_not_fixed_again() -> None:
    before = in_state(AlertState.FIXED)
    later = dataclasses.replace(before, change_pct=21.0)
    alert_update = update([later], [before])
    assert changed(alert_update) == (later,)
    assert (alert_update.new, alert_update.fixed) == ((), ())


def test_confirmation_is_preserved() -> None:
    confirmed = make_alert(is_confirmed=True)
    assert update([make_alert()], [confirmed]).revisions == ()


def test_text_that_was_added_to_is_preserved_and_another_text_replaces_it() -> None:
    longer = in_state(AlertState.OPEN, text="ok -> failed: CppCompileError")
    assert update([in_state(AlertState.OPEN, text="ok -> failed")], [longer]).revisions == ()
    other = in_state(AlertState.OPEN, text="ok -> timeout")
    assert changed(update([other], [longer])) == (other,)


@pytest.mark.parametrize("state", STATES)
def test_an_alert_that_is_no_longer_detected_is_closed_unless_a_user_decided(
    state: AlertState,
) -> None:
    alert_update = update([], [in_state(state)])
    is_ongoing = state in (AlertState.OPEN, AlertState.ACKNOWLEDGED)
    assert [alert.state for alert in alert_update.alerts] == [
        AlertState.FIXED if is_ongoing else state
    ]
    assert len(alert_update.fixed) == len(changed(alert_update)) == is_ongoing


def test_alert_whose_run_is_no_longer_in_the_store_stays() -> None:
    stored = dataclasses.replace(
        make_alert(), first_bad=RunRef(run_id="pruned", revision="1", at=make_alert().last_seen)
    )
    alert_update = update([], [stored])
    assert alert_update.alerts == (stored,)
    assert changed(alert_update) == ()


def step(
    night: int, *, until: int, state: AlertState | str = AlertState.OPEN, candidate: float = 0.012
) -> Alert:
    """Return a step of one series from 10 ms, found from one night until another."""
    return make_alert(
        f"alert-{night}",
        state=state,
        first_bad=RunRef(run_id=f"run-{night}", revision="1", at=nth_night(night)),
        last_seen=nth_night(until),
        candidate=candidate,
    )


RUNS = tuple(f"run-{number}" for number in range(100))


def test_step_that_comes_back_after_it_was_fixed_reopens_its_alert(
    words: SnapshotAssertion,
) -> None:
    first = step(10, until=15, state="fixed")
    previous = update([first], [step(10, until=12)], runs=RUNS)
    assert [alert.id for alert in previous.fixed] == ["alert-10"]
    relapse = step(30, until=33)
    alert_update = update([first, relapse], list(previous.alerts), runs=RUNS)
    assert [alert.id for alert in alert_update.new] == ["alert-10"]
    assert alert_update.new[0].first_bad == relapse.first_bad
    assert [revision.why for revision in alert_update.revisions] == words
    again = update([first, relapse], alert_update.alerts, runs=RUNS)
    assert (again.revisions, again.alerts) == ((), alert_update.alerts)


def test_history_judged_at_once_gives_the_alerts_that_it_gave_night_by_night() -> None:
    first, relapse = step(10, until=15, state="fixed"), step(30, until=33)
    by_night = update([first], [step(10, until=12)], runs=RUNS)
    by_night = update([first, relapse], by_night.alerts, runs=RUNS)
    assert update([relapse, first], [], runs=RUNS).alerts == by_night.alerts


def test_history_that_comes_after_its_relapse_gives_one_alert_too() -> None:
    first, relapse = step(10, until=15, state="fixed"), step(30, until=33)
    late = update([first, relapse], [relapse], runs=RUNS)
    assert (late.alerts, late.revisions, late.new) == ((relapse,), (), ())


def test_history_that_comes_after_an_expected_step_is_an_alert_of_its_own() -> None:
    first, relapse = step(10, until=15, state="fixed"), step(30, until=33)
    late = update([first, relapse], [step(30, until=33, state="expected")], runs=RUNS)
    assert {alert.id for alert in late.alerts} == {"alert-10", "alert-30"}


def test_fixed_step_whose_onset_moved_is_the_same_alert() -> None:
    stored = step(11, until=15, state="fixed")
    alert_update = update([step(10, until=16)], [stored], runs=RUNS)
    assert [(alert.id, alert.state) for alert in alert_update.alerts] == [
        ("alert-11", AlertState.OPEN)
    ]


def test_events_are_those_of_the_alerts_and_not_of_each_time_they_came_back() -> None:
    first, relapse = step(10, until=15, state="fixed"), step(30, until=33)
    other = dataclasses.replace(step(10, until=15), id="other", series_key="other")

    alert_update = update_alerts(
        [first, relapse, other],
        stored=[],
        judged_runs=RUNS,
        group=lambda alerts: events_of(alerts, runs=()),
    )
    assert all(alert_update.events[alert.id].id == alert.event_id for alert in alert_update.alerts)
    assert sorted((id, event.size) for id, event in alert_update.events.items()) == [
        ("alert-10", 1),
        ("other", 1),
    ]


@pytest.mark.parametrize("candidate", [0.0125, 0.0115])
def test_step_to_about_the_old_bad_level_is_a_relapse(candidate: float) -> None:
    alert_update = update(
        [step(10, until=15, state="fixed"), step(30, until=33, candidate=candidate)], []
    )
    assert [alert.id for alert in alert_update.alerts] == ["alert-10"]


@pytest.mark.parametrize("candidate", [0.0131, 0.0109])
def test_step_to_another_level_is_another_alert(candidate: float) -> None:
    alert_update = update(
        [step(10, until=15, state="fixed"), step(30, until=33, candidate=candidate)], []
    )
    assert [alert.id for alert in alert_update.alerts] == ["alert-10", "alert-30"]


def test_step_on_top_of_an_open_one_is_another_alert() -> None:
    alert_update = update([step(10, until=33), step(30, until=33)], [])
    assert [alert.id for alert in alert_update.alerts] == ["alert-10", "alert-30"]


def test_improvement_is_no_relapse_of_a_regression() -> None:
    gain = dataclasses.replace(step(30, until=33), verdict=Verdict.IMPROVEMENT)
    alert_update = update([step(10, until=15, state="fixed"), gain], [])
    assert [alert.id for alert in alert_update.alerts] == ["alert-10", "alert-30"]


def test_case_that_fails_again_reopens_its_alert() -> None:
    failures = [
        make_alert(
            f"alert-{night}",
            kind="outcome",
            state=state,
            first_bad=RunRef(run_id=f"run-{night}", revision="1", at=nth_night(night)),
            last_seen=nth_night(night),
        )
        for night, state in ((1, "fixed"), (3, "fixed"), (5, "open"))
    ]
    alert_update = update(failures, [])
    assert [(alert.id, alert.state) for alert in alert_update.alerts] == [
        ("alert-1", AlertState.OPEN)
    ]


def test_relapse_of_an_acknowledged_alert_is_notified() -> None:
    first = step(10, until=15, state="fixed")
    stored = step(10, until=15, state="acknowledged")
    alert_update = update([first, step(30, until=33)], [stored], runs=RUNS)
    assert [alert.state for alert in alert_update.new] == [AlertState.OPEN]
    assert alert_update.revisions[0].why.startswith("came back: ")


def test_relapse_while_open_is_notified_though_the_state_is_the_same() -> None:
    alert_update = update(
        [step(10, until=15, state="fixed"), step(30, until=33)], [step(10, until=15)], runs=RUNS
    )
    assert [(alert.id, alert.first_bad.run_id) for alert in alert_update.new] == [
        ("alert-10", "run-30")
    ]


def test_relapse_of_noise_stays_silent() -> None:
    stored = step(10, until=15, state="noise")
    alert_update = update(
        [step(10, until=15, state="fixed"), step(30, until=33)], [stored], runs=RUNS
    )
    assert (alert_update.new, [alert.state for alert in alert_update.alerts]) == (
        (),
        [AlertState.NOISE],
    )


def test_next_step_after_an_expected_one_is_another_alert() -> None:
    stored = dataclasses.replace(step(10, until=15), state=AlertState.EXPECTED)
    alert_update = update(
        [step(10, until=15, state="fixed"), step(30, until=33)], [stored], runs=RUNS
    )
    assert [alert.id for alert in alert_update.new] == ["alert-30"]
    assert stored in alert_update.alerts


def test_a_drift_that_goes_on_after_it_was_expected_is_another_alert() -> None:
    began, accepted, run_ref = (
        RunRef(run_id=f"r{number}", revision=str(number), at=nth_night(number))
        for number in (1, 30, 60)
    )
    drift = make_alert("a", kind="drift", first_bad=accepted, last_good=began)
    stored = dataclasses.replace(drift, state=AlertState.EXPECTED)
    # The baseline, and so what is found next, begins where that was first seen.
    more = make_alert("b", kind="drift", first_bad=run_ref, last_good=accepted)
    assert update([drift], [stored]).alerts == (stored,)
    assert update([more], [stored]).new == (more,)


def test_expected_alert_keeps_the_run_that_its_baseline_starts_from() -> None:
    expected = dataclasses.replace(step(30, until=33), id="alert-10", state=AlertState.EXPECTED)
    alert_update = update([step(10, until=15, state="fixed")], [expected], runs=RUNS)
    assert (alert_update.alerts, alert_update.revisions) == ((expected,), ())


def test_what_came_back_before_it_was_expected_is_that_alert() -> None:
    times = [step(10, until=15, state="fixed"), step(30, until=33, state="fixed")]
    expected = dataclasses.replace(step(50, until=53), id="alert-10", state=AlertState.EXPECTED)
    alert_update = update(times, [expected], runs=RUNS)
    assert (alert_update.alerts, alert_update.revisions, alert_update.new) == ((expected,), (), ())


def test_step_whose_onset_moved_is_the_same_alert() -> None:
    stored = dataclasses.replace(step(11, until=15, state="acknowledged"), owner="ada")
    alert_update = update([step(10, until=16)], [stored], runs=RUNS)
    (alert,) = alert_update.alerts
    assert (alert.id, alert.state, alert.owner) == ("alert-11", AlertState.ACKNOWLEDGED, "ada")
    assert alert.first_bad.run_id == "run-10"
    again = update([step(10, until=16)], alert_update.alerts, runs=RUNS)
    assert (again.alerts, again.revisions) == (alert_update.alerts, ())


def test_step_to_another_level_at_the_same_time_is_no_moved_one() -> None:
    alert_update = update([step(10, until=16, candidate=0.02)], [step(11, until=15)], runs=RUNS)
    assert {alert.id: str(alert.state) for alert in alert_update.alerts} == {
        "alert-10": "open",
        "alert-11": "fixed",
    }


def ending(
    night: int, *, until: int, state: str = "open", kind: str = "outcome", fingerprint: str = ""
) -> Alert:
    """Return a failure or a loss of one case, found from one night until another."""
    return make_alert(
        f"{kind}-{night}",
        kind=kind,
        metric="outcome",
        state=state,
        fingerprint=fingerprint or make_alert().fingerprint,
        first_bad=RunRef(run_id=f"run-{night}", revision="1", at=nth_night(night)),
        last_seen=nth_night(until),
    )


@pytest.mark.parametrize("state", ["open", "acknowledged", "expected"])
@pytest.mark.parametrize("nights", [(10, 13), (13, 10)])
def test_two_ends_in_two_environments_never_become_one_alert(
    state: str, nights: tuple[int, int]
) -> None:
    stored = ending(11, until=19, state=state)
    moved = ending(nights[0], until=19)
    other = ending(nights[1], until=18, fingerprint=OTHER)
    alert_update = update([moved, other], [stored], runs=RUNS)
    assert [alert.id for alert in alert_update.new] == [other.id]
    stored_again = next(alert for alert in alert_update.alerts if alert.id == stored.id)
    assert str(stored_again.state) == state
    # What people accepted stays as they accepted it.
    assert stored_again.first_bad == (stored if state == "expected" else moved).first_bad


@pytest.mark.parametrize("kind", ["outcome", "vanished", "late"])
@pytest.mark.parametrize("fingerprint", ["", OTHER])
def test_expected_end_of_a_case_whose_onset_moved_stays_silent(kind: str, fingerprint: str) -> None:
    stored = ending(11, until=12, kind=kind, state="expected")
    moved = ending(10, until=20, kind=kind, fingerprint=fingerprint)
    alert_update = update([moved], [stored], runs=RUNS)
    assert (alert_update.alerts, alert_update.revisions, alert_update.new) == ((stored,), (), ())


@pytest.mark.parametrize("fingerprint", ["", OTHER])
def test_a_new_failure_after_a_moved_expected_failure_is_reported(
    fingerprint: str,
) -> None:
    stored = ending(11, until=12, state="expected")
    times = [
        ending(10, until=14, state="fixed", fingerprint=fingerprint),
        ending(30, until=31),
    ]
    stored_alerts: tuple[Alert, ...] = (stored,)
    for num_new in (1, 0):
        alert_update = update(times, list(stored_alerts), runs=RUNS)
        assert len(alert_update.new) == num_new
        stored_alerts = alert_update.alerts
    assert {(alert.id, str(alert.state)) for alert in stored_alerts} == {
        ("outcome-11", "expected"),
        ("outcome-30", "open"),
    }


def test_another_failure_before_an_expected_one_is_reported() -> None:
    stored = ending(11, until=12, state="expected")
    before = ending(8, until=10)
    alert_update = update([before, ending(11, until=12)], [stored], runs=RUNS)
    assert alert_update.new == (before,)


def test_failure_that_began_in_another_environment_is_one_alert() -> None:
    stored = ending(11, until=12, state="acknowledged")
    moved = ending(10, until=12, fingerprint=OTHER)
    alert_update = update([moved], [stored], runs=RUNS)
    assert [(alert.id, str(alert.state)) for alert in alert_update.alerts] == [
        ("outcome-11", "acknowledged")
    ]
    assert (alert_update.alerts[0].first_bad, alert_update.alerts[0].fingerprint) == (
        moved.first_bad,
        OTHER,
    )
    assert update([moved], list(alert_update.alerts), runs=RUNS).revisions == ()


def test_failure_in_another_environment_is_no_relapse() -> None:
    first = ending(10, until=11, state="fixed")
    other = ending(30, until=31, fingerprint=OTHER)
    alert_update = update([first, other], [], runs=RUNS)
    assert [alert.id for alert in alert_update.alerts] == ["outcome-10", "outcome-30"]


def test_nights_that_led_to_an_expected_level_and_come_late_stay_silent() -> None:
    stored = step(15, until=20, state="expected")
    alert_update = update([step(12, until=14)], [stored], runs=RUNS)
    assert (alert_update.alerts, alert_update.revisions, alert_update.new) == ((stored,), (), ())
    other = step(12, until=14, candidate=0.02)
    assert update([other], [stored], runs=RUNS).new == (other,)


def test_settings_of_users_survive_detection() -> None:
    decisions = {"owner": "ada", "note": "known", "muted_until": nth_night(50)}
    alert_update = update(
        [step(10, until=16)], [dataclasses.replace(step(10, until=15), **decisions)]
    )
    assert {name: getattr(alert_update.alerts[0], name) for name in decisions} == decisions


def test_evidence_is_preserved_with_its_step_and_dropped_by_a_relapse() -> None:
    evidence = {"confirmation": {"launches": 8}, "environment_diff": {}, "is_confirmed": True}
    evidence |= {"bisection": {"state": "ended"}}
    stored = dataclasses.replace(step(10, until=15), **evidence)
    (same,) = update([step(10, until=16)], [stored], runs=RUNS).alerts
    assert {name: getattr(same, name) for name in evidence} == evidence
    fixed = step(10, until=15, state="fixed")
    (back,) = update([fixed, step(30, until=33)], [stored], runs=RUNS).alerts
    assert {name: getattr(back, name) for name in evidence} == dict.fromkeys(evidence)


def test_new_evidence_replaces_old_evidence() -> None:
    stored = dataclasses.replace(step(10, until=15), is_confirmed=False)
    alert = dataclasses.replace(step(10, until=16), is_confirmed=True)
    assert update([alert], [stored]).alerts[0].is_confirmed


def test_the_text_of_a_step_is_that_of_its_ends_as_they_are_now() -> None:
    def alert_of(text: str, difference: dict[str, Any] | None) -> Alert:
        alert = step(10, until=15)
        return dataclasses.replace(alert, cause_text=text, environment_diff=difference)

    stored = alert_of("since the last good run: a -> b", {"revision": ["a", "b"]})
    (moved,) = update([alert_of("", {})], [stored]).alerts
    assert (moved.cause_text, moved.environment_diff) == ("", {})
    # Of runs that were pruned nothing is known any more but what was told.
    assert update([alert_of("", None)], [stored]).alerts == (stored,)


def test_the_evidence_of_a_step_follows_its_moved_onset() -> None:
    stored = step(11, until=15)
    assert match_stored([step(10, until=16)], stored=[stored]) == {"alert-10": stored}
    (moved,) = update([step(10, until=16)], [stored], runs=RUNS).alerts
    assert match_stored([step(10, until=17)], stored=[moved]) == {"alert-10": moved}


def test_nothing_is_known_of_what_is_new_or_came_back() -> None:
    first, relapse = step(10, until=15, state="fixed"), step(30, until=33)
    assert match_stored([first, relapse], stored=[]) == {}
    assert match_stored([first, relapse], stored=[step(10, until=12)]) == {
        "alert-10": step(10, until=12)
    }
    (back,) = update([first, relapse], [first], runs=RUNS).alerts
    assert match_stored([first, relapse], stored=[back])["alert-30"] == back


def test_reasons_say_what_the_judge_saw(words: SnapshotAssertion) -> None:
    assert update([step(10, until=12)], []).revisions[0].why == (words)
    fixed = update([step(10, until=15, state="fixed")], [step(10, until=12)])
    assert fixed.revisions[0].why == words
    gone = update([], [step(10, until=12)], runs=RUNS)
    assert gone.revisions[0].why == NO_LONGER_DETECTED


def seen(days: int, state: AlertState, *, muted_days: int | None = None) -> Alert:
    """Return an alert that was seen last `days` after its start."""
    alert = make_alert(state=state)
    end = None if muted_days is None else alert.first_bad.at + timedelta(days=muted_days)
    last_seen = alert.first_bad.at + timedelta(days=days)
    return dataclasses.replace(alert, last_seen=last_seen, muted_until=end)


@pytest.mark.parametrize(
    ("muted_days", "state"),
    [
        (None, AlertState.ACKNOWLEDGED),
        # It ends after the newest night.
        (9, AlertState.ACKNOWLEDGED),
        (8, AlertState.OPEN),
        (6, AlertState.OPEN),
        # It was over before the alert was acknowledged.
        (5, AlertState.ACKNOWLEDGED),
        (2, AlertState.ACKNOWLEDGED),
    ],
)
def test_an_acknowledgement_ends_with_its_mute(muted_days: int | None, state: AlertState) -> None:
    stored = seen(5, AlertState.ACKNOWLEDGED, muted_days=muted_days)
    result = update([seen(8, AlertState.OPEN)], [stored])
    (alert,) = result.alerts
    assert alert.state is state
    assert alert.muted_until == (None if state is AlertState.OPEN else stored.muted_until)
    assert result.new == (result.alerts if state is AlertState.OPEN else ())
    again = update([seen(8, AlertState.OPEN)], list(result.alerts))
    assert again.revisions == ()


@pytest.mark.parametrize("state", [AlertState.OPEN, AlertState.NOISE, AlertState.EXPECTED])
def test_the_end_of_a_mute_changes_no_other_state(state: AlertState) -> None:
    stored = seen(5, state, muted_days=6)
    (alert,) = update([seen(8, AlertState.OPEN)], [stored]).alerts
    assert (alert.state, alert.muted_until) == (state, stored.muted_until)
