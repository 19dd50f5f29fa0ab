from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.alerts.replay import check_replayable, replayed_alert
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.results import RunRef, Verdict
from compile_hud.db.records.triage import (
    AlertChange,
    ChangedField,
    SeriesSettings,
    Signature,
    changes_of_alert,
    changes_of_settings,
    comment_on,
    fits,
    is_muted,
    settings_of,
    with_settings,
)
from compile_hud.runner.analysis.alerts.triage import (
    add_comment,
    if_unchanged,
    set_muted,
    set_owner,
    set_state,
)
from compile_hud.runner.analysis.errors import AlertStateError, ChangedMeanwhile, ReasonMissing
from compile_hud.runner.analysis.judging.series_rules import SeriesRule, series_rules
from tests.support.builders import START, make_alert

KEY = "bert/inference/tiny/fp32/default/cpu#latency_s@ffffffffffffffff"
LATER = START + timedelta(days=30)
SIGNATURE = Signature(by="ada", at=START, why="because")


def alert_of(night: int, *, state: AlertState | str = AlertState.OPEN) -> Alert:
    at = START + timedelta(days=night)
    return make_alert(
        f"alert-{night}",
        state=state,
        first_bad=RunRef(run_id=f"run-{night}", revision="1", at=at),
    )


def summaries_of(changes: tuple[AlertChange, ...]) -> list[tuple[str, str, str]]:
    return [(str(change.field), change.old, change.new) for change in changes]


@pytest.mark.parametrize("state", ["open", "acknowledged", "expected", "noise"])
@pytest.mark.parametrize("before", ["open", "acknowledged", "expected", "noise"])
def test_a_decision_can_be_changed_until_the_alert_is_fixed(before: str, state: str) -> None:
    decided = set_state(["alert-1"], AlertState(state))([alert_of(1, state=before)])
    assert [alert.state for alert in decided.alerts] == [state]
    assert len(decided.revisions) == (before != state)


@pytest.mark.parametrize("before", ["acknowledged", "expected", "noise"])
def test_a_reopened_alert_is_no_longer_muted(before: str) -> None:
    muted = dataclasses.replace(alert_of(4, state=before), muted_until=LATER)
    decided = set_state([muted.id, "alert-6"], AlertState.OPEN)([muted, alert_of(6, state="noise")])
    assert [item.muted_until for item in decided.alerts] == [None, None]
    assert decided.unmuted == (muted,)


@pytest.mark.parametrize("state", ["open", "acknowledged", "expected", "noise"])
def test_other_decisions_keep_a_mute(state: str) -> None:
    muted = dataclasses.replace(alert_of(4), muted_until=LATER)
    decided = set_state([muted.id], AlertState(state))([muted])
    assert [item.muted_until for item in decided.alerts] == [LATER]
    assert decided.unmuted == ()


def test_replay_ends_a_mute_that_the_series_set_again() -> None:
    acked = dataclasses.replace(alert_of(2), state=AlertState.ACKNOWLEDGED, muted_until=LATER)
    (reopened,) = set_state([acked.id], AlertState.OPEN)([acked]).alerts
    changes = [
        *changes_of_alert(alert_of(2), acked, signature=SIGNATURE),
        *changes_of_alert(acked, reopened, signature=SIGNATURE),
    ]
    detected = dataclasses.replace(alert_of(2), muted_until=LATER)
    assert replayed_alert(detected, changes).muted_until is None
    assert replayed_alert(detected, changes[:1]).muted_until == LATER


@pytest.mark.parametrize("state", ["open", "acknowledged", "expected"])
def test_fixed_alert_is_the_judges(state: str) -> None:
    message = f"alert alert-1 is fixed and cannot become {state}; allowed: noise. It opens again"
    with pytest.raises(AlertStateError, match=message):
        set_state(["alert-1"], AlertState(state))([alert_of(1, state="fixed")])


def test_comment_changes_nothing_and_is_preserved() -> None:
    alerts = [alert_of(1), alert_of(2)]
    decided = add_comment(["alert-2"], "asked")(alerts)
    assert [(item.alert, item.comment) for item in decided.revisions] == [(alerts[1], "asked")]
    change = comment_on(alerts[1], "asked", signature=SIGNATURE)
    assert (change.alert_id, change.by, change.field) == ("alert-2", "ada", "comment")
    assert AlertChange.from_json(change.to_json()) == change


def test_comment_leaves_an_alert_as_it_was_when_all_is_done_again() -> None:
    alert = alert_of(1)
    comment = comment_on(alert, "asked", signature=SIGNATURE)
    check_replayable(comment)
    assert replayed_alert(alert, [comment]) == alert


@pytest.mark.parametrize(
    "changed",
    [
        {"state": AlertState.NOISE},
        {"owner": "bob"},
        {"muted_until": LATER},
        {"first_bad": RunRef(run_id="r", revision="7", at=START), "owner": "bob"},
    ],
)
def test_decision_about_what_is_not_as_it_was_read_is_refused(
    changed: dict[str, Any], words: SnapshotAssertion
) -> None:
    alert = alert_of(1)
    there = dataclasses.replace(alert, **changed)
    with pytest.raises(ChangedMeanwhile) as caught:
        if_unchanged([alert], set_state(["alert-1"], AlertState.EXPECTED))([there])
    assert caught.value.parameters.keys() == {"alert", "change"}
    assert str(caught.value) == words


def test_decision_about_what_is_gone_is_refused(words: SnapshotAssertion) -> None:
    with pytest.raises(ChangedMeanwhile) as caught:
        if_unchanged([alert_of(1)], set_owner(["alert-1"], "bob"))([alert_of(2)])
    assert caught.value.parameters == {"alert": "alert-1", "problem": "missing"}
    assert str(caught.value) == words


def test_decision_about_what_is_as_it_was_read_is_taken() -> None:
    alert = alert_of(1)
    # Measured again meanwhile, which no decision is about.
    there = dataclasses.replace(alert, last_seen=LATER, note="more")
    decided = if_unchanged([alert], set_owner(["alert-1"], "bob"))([there, alert_of(2)])
    assert [item.alert.owner for item in decided.revisions] == ["bob"]


def test_fixed_alert_can_be_called_noise() -> None:
    decided = set_state(["alert-1"], AlertState.NOISE)([alert_of(1, state="fixed")])
    assert decided.alerts[0].state is AlertState.NOISE


def test_a_user_cannot_set_an_alert_fixed(words: SnapshotAssertion) -> None:
    with pytest.raises(AlertStateError) as caught:
        set_state(["alert-1"], AlertState.FIXED)([alert_of(1)])
    assert caught.value.parameters == {
        "alert": "alert-1",
        "state": AlertState.OPEN,
        "requested": AlertState.FIXED,
    }
    assert str(caught.value) == words


def test_several_alerts_are_decided_together_or_not_at_all() -> None:
    stored = [alert_of(1), alert_of(2), alert_of(3, state="fixed")]
    decided = set_state(["alert-1", "alert-2"], AlertState.ACKNOWLEDGED)(stored)
    assert [item.alert.id for item in decided.revisions] == ["alert-1", "alert-2"]
    with pytest.raises(AlertStateError):
        set_state(["alert-1", "alert-3"], AlertState.ACKNOWLEDGED)(stored)


def test_reason_becomes_the_note_and_no_reason_leaves_it() -> None:
    stored = [dataclasses.replace(alert_of(1), note="before")]
    with_reason = set_state(["alert-1"], AlertState.NOISE, why="flaky host")(stored)
    assert with_reason.alerts[0].note == with_reason.revisions[0].why == "flaky host"
    assert set_state(["alert-1"], AlertState.NOISE)(stored).alerts[0].note == "before"


def test_a_reopened_alert_has_no_note_of_the_decision_before() -> None:
    stored = [dataclasses.replace(alert_of(2, state="acknowledged"), note="bisecting")]
    (silent,) = set_state(["alert-2"], AlertState.OPEN)(stored).alerts
    (reasoned,) = set_state(["alert-2"], AlertState.OPEN, why="still slow")(stored).alerts
    assert (silent.note, reasoned.note) == ("", "still slow")


@pytest.mark.parametrize("state", ["acknowledged", "noise", "expected"])
def test_only_an_expected_failure_needs_a_reason(state: str) -> None:
    failing = dataclasses.replace(alert_of(3), kind="outcome", metric="outcome")
    better = dataclasses.replace(failing, id="alert-4", verdict=Verdict.IMPROVEMENT)
    decision = set_state(["alert-3", "alert-4"], AlertState(state))
    if state == "expected":
        with pytest.raises(ReasonMissing) as caught:
            decision([failing, better])
        assert caught.value.parameters["alert"] == "alert-3"
        decision = set_state(["alert-3", "alert-4"], AlertState.EXPECTED, why="op removed")
    assert {item.state for item in decision([failing, better]).alerts} == {state}


def test_expecting_a_level_settles_the_steps_that_led_to_it() -> None:
    elsewhere = dataclasses.replace(alert_of(2), id="elsewhere", machine="other")
    stored = [
        alert_of(1),
        elsewhere,
        alert_of(3, state="noise"),
        alert_of(4),
        alert_of(5, state="acknowledged"),
    ]
    decided = set_state(["alert-4"], AlertState.EXPECTED, why="new heads")(stored)
    assert [(item.alert.id, item.why) for item in decided.revisions] == [
        ("alert-4", "new heads"),
        ("alert-1", "new heads"),
    ]


def test_owner_and_mute_are_set_and_taken_back() -> None:
    (alert,) = set_owner(["alert-1"], "ada")([alert_of(1)]).alerts
    (alert,) = set_muted(["alert-1"], LATER)([alert]).alerts
    assert (alert.owner, alert.muted_until) == ("ada", LATER)
    assert set_owner(["alert-1"], "ada")([alert]).revisions == ()
    (alert,) = set_muted(["alert-1"], None)(set_owner(["alert-1"], "")([alert]).alerts).alerts
    assert (alert.owner, alert.muted_until) == ("", None)


def test_mute_ends_at_its_time() -> None:
    alert = make_alert()
    assert not is_muted(alert, at=START)
    muted = dataclasses.replace(alert, muted_until=LATER)
    assert is_muted(muted, at=LATER - timedelta(seconds=1))
    assert not is_muted(muted, at=LATER)


def test_every_difference_of_an_alert_is_a_change() -> None:
    old = make_alert()
    new = dataclasses.replace(old, state=AlertState.NOISE, owner="ada", muted_until=LATER)
    changes = changes_of_alert(old, new, signature=SIGNATURE)
    assert summaries_of(changes) == [
        ("state", "open", "noise"),
        ("owner", "", "ada"),
        ("muted_until", "", LATER.isoformat()),
    ]
    assert {(item.alert_id, item.by, item.at, item.why) for item in changes} == {
        ("alert-1", "ada", START, "because")
    }
    assert len({item.id for item in changes}) == 3
    assert changes_of_alert(new, new, signature=SIGNATURE) == ()
    assert summaries_of(changes_of_alert(None, old, signature=SIGNATURE)) == [("state", "", "open")]


def test_every_difference_of_settings_is_a_change() -> None:
    old = SeriesSettings(pattern="bert/*", owner="ada")
    new = SeriesSettings(pattern="bert/*", floor=0.1, baseline_run_id="run-7")
    changes = changes_of_settings(old, new, signature=SIGNATURE)
    assert summaries_of(changes) == [
        ("owner", "ada", ""),
        ("floor", "", "0.1"),
        ("baseline_run_id", "", "run-7"),
    ]
    assert {item.pattern for item in changes} == {"bert/*"}
    assert {item.field for item in changes} <= set(ChangedField)


@pytest.mark.parametrize(
    ("pattern", "is_fitting"),
    [
        (KEY, True),
        ("bert/*", True),
        ("bert/*#latency_s", True),
        ("*/cpu#*", True),
        ("bert/*#speedup", False),
        ("bert", False),
        ("*@f*", False),
        (KEY[:-1] + "0", False),
    ],
)
def test_pattern_is_a_series_or_a_glob_of_case_and_metric(pattern: str, is_fitting: bool) -> None:
    assert fits(pattern, series_key=KEY) is is_fitting


def test_each_setting_comes_from_the_most_specific_pattern_that_has_it() -> None:
    settings = [
        SeriesSettings(pattern=KEY, owner="ada"),
        SeriesSettings(pattern="bert/*", owner="bob", floor=0.2, baseline_run_id="run-1"),
        SeriesSettings(pattern="bert/*#latency_s", floor=0.1, muted_until=LATER),
        SeriesSettings(pattern="vit/*#latency_s_and_more", floor=0.3),
    ]
    assert settings_of(KEY, settings=settings) == SeriesSettings(
        pattern=KEY, owner="ada", floor=0.1, muted_until=LATER, baseline_run_id="run-1"
    )


def test_alert_has_the_owner_and_mute_of_its_series_unless_it_has_its_own() -> None:
    settings = [SeriesSettings(pattern="bert/*", owner="bob", muted_until=LATER)]
    alert = with_settings(make_alert(), settings)
    assert (alert.owner, alert.muted_until) == ("bob", LATER)
    own = dataclasses.replace(make_alert(), owner="ada", muted_until=START)
    assert with_settings(own, settings) == own


def test_rules_name_the_runs_of_expected_levels() -> None:
    alerts = [alert_of(1, state="expected"), alert_of(2, state="noise"), alert_of(3)]
    settings = [SeriesSettings(pattern="bert/*", floor=0.1, baseline_run_id="run-9")]
    rules = series_rules(alerts, settings=settings)
    assert rules.rule_of(alerts[0].series_key) == SeriesRule(
        floor=0.1, baseline_run_ids=frozenset({"run-1", "run-9"})
    )
    assert rules.rule_of("vit#latency_s@f") == SeriesRule()
