from __future__ import annotations

import dataclasses

import pytest

from db.records import Alert, AlertState
from db.sighting import Sighting
from runner.analysis.lifecycle import Update, update_alerts
from tests.builders import make_alert

RUN = make_alert().first_bad.run_id
STATES = list(AlertState)


def update(found: list[Alert], stored: list[Alert], *, runs: tuple[str, ...] = (RUN,)) -> Update:
    return update_alerts(found, stored=stored, judged_runs=runs)


def changed(found: Update) -> tuple[Alert, ...]:
    return tuple(revision.alert for revision in found.revisions)


def in_state(state: AlertState, *, text: str = "") -> Alert:
    return dataclasses.replace(make_alert(state=state), cause_text=text)


def test_first_sight_of_an_alert_is_new() -> None:
    found = update([make_alert()], [])
    assert found.new == changed(found) == found.alerts == (make_alert(),)
    assert found.fixed == ()


def test_step_that_was_over_before_it_was_judged_is_no_news() -> None:
    found = update([in_state(AlertState.FIXED)], [])
    assert (found.new, found.fixed) == ((), ())
    assert changed(found) == (in_state(AlertState.FIXED),)


def test_judging_the_same_history_again_changes_nothing() -> None:
    found = update([make_alert()], [make_alert()])
    assert (changed(found), found.new, found.fixed) == ((), (), ())
    assert found.alerts == (make_alert(),)


@pytest.mark.parametrize(
    ("stored", "found", "then"),
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
def test_states_that_people_set_are_kept(
    stored: AlertState, found: AlertState, then: AlertState
) -> None:
    result = update([in_state(found)], [in_state(stored)])
    assert [alert.state for alert in result.alerts] == [then]
    assert len(result.fixed) == (then is AlertState.FIXED and stored is not AlertState.FIXED)
    assert len(result.new) == (then is AlertState.OPEN and stored is not AlertState.OPEN)


def test_new_numbers_of_a_known_alert_are_saved() -> None:
    later = dataclasses.replace(make_alert(), change_pct=21.0)
    found = update([later], [make_alert()])
    assert changed(found) == (later,)
    assert (found.new, found.fixed) == ((), ())


def test_alert_that_was_fixed_before_is_not_fixed_again() -> None:
    before = in_state(AlertState.FIXED)
    later = dataclasses.replace(before, change_pct=21.0)
    found = update([later], [before])
    assert changed(found) == (later,)
    assert (found.new, found.fixed) == ((), ())


def test_confirmation_is_kept() -> None:
    confirmed = make_alert(is_confirmed=True)
    assert update([make_alert()], [confirmed]).revisions == ()


def test_text_that_was_added_to_is_kept_and_another_text_replaces_it() -> None:
    longer = in_state(AlertState.OPEN, text="ok -> failed: CppCompileError")
    assert update([in_state(AlertState.OPEN, text="ok -> failed")], [longer]).revisions == ()
    other = in_state(AlertState.OPEN, text="ok -> timeout")
    assert changed(update([other], [longer])) == (other,)


@pytest.mark.parametrize("state", STATES)
def test_alert_that_is_found_no_more_is_over_unless_people_decided(state: AlertState) -> None:
    found = update([], [in_state(state)])
    is_ongoing = state in (AlertState.OPEN, AlertState.ACKNOWLEDGED)
    assert [alert.state for alert in found.alerts] == [AlertState.FIXED if is_ongoing else state]
    assert len(found.fixed) == len(changed(found)) == is_ongoing


def test_alert_whose_run_is_no_longer_in_the_store_stays() -> None:
    stored = dataclasses.replace(
        make_alert(), first_bad=Sighting(run_id="pruned", revision="1", at=make_alert().last_seen)
    )
    found = update([], [stored])
    assert found.alerts == (stored,)
    assert changed(found) == ()
