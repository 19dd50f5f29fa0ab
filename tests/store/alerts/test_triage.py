"""Triage decisions persist, whichever process writes, judges or imports meanwhile."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.alerts.revisions import missing_changes, put_changes
from compile_hud.db.errors import NotFoundError, SetByPattern
from compile_hud.db.queries.alerts import (
    load_alert,
    load_alerts,
    load_changes,
    load_series_settings,
)
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.triage import (
    JUDGE,
    AlertChange,
    SeriesSettings,
    Signature,
    changes_of_alert,
)
from compile_hud.db.store import Store
from compile_hud.runner.analysis.alerts.triage import (
    Decide,
    set_care,
    set_muted,
    set_owner,
    set_state,
)
from compile_hud.runner.detection.detect import detect
from tests.store.detection.test_detect import nights, put
from tests.support.builders import START, make_alert
from tests.support.examples import examples
from tests.support.fakes import FakeClock
from tests.support.stores.store_processes import child
from tests.support.stores.stored_results import save_alerts
from tests.support.strategies import CHANGES, SETTINGS

LATER = START + timedelta(days=400)
STEP = [2.0] * 12 + [1.7] * 8
_ON_A_STORE = settings(
    max_examples=examples(25),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def summaries_of(changes: Sequence[AlertChange]) -> list[tuple[str, str, str, str, str]]:
    return [(item.by, str(item.field), item.old, item.new, item.why) for item in changes]


def decide(store: Store, decision: Decide, *, by: str = "ada") -> Alert:
    return store.revise_alerts(decision, by=by).alerts[0]


def states(store: Store) -> dict[str, str]:
    return {alert.first_bad.run_id: str(alert.state) for alert in load_alerts(store)}


@_ON_A_STORE
@given(item=SETTINGS)
def test_settings_survive_the_store(store: Store, item: SeriesSettings) -> None:
    store.revise_settings(item.pattern, lambda _: item, by="ada")
    stored = {setting.pattern: setting for setting in load_series_settings(store)}
    assert stored.get(item.pattern, SeriesSettings(pattern=item.pattern)) == item


@_ON_A_STORE
@given(item=CHANGES)
def test_change_survives_the_store_once(store: Store, item: AlertChange) -> None:
    is_new = item.id not in {change.id for change in load_changes(store)}
    with store.write() as connection:
        missing = missing_changes(connection, [item, item])
        assert missing == [item] * is_new
        put_changes(connection, missing)
        assert missing_changes(connection, [item]) == []
    if is_new:
        assert item in load_changes(store)
        assert item in load_changes(store, alert_id=item.alert_id)


def test_decision_is_saved_with_who_when_and_why(store: Store, now: FakeClock) -> None:
    save_alerts(store, [make_alert()])
    now.moment = LATER
    acknowledge = set_state(["alert-1"], AlertState.ACKNOWLEDGED, why="on it")
    assert decide(store, acknowledge).state is AlertState.ACKNOWLEDGED
    alert = load_alert(store, "alert-1")
    assert (alert.state, alert.note) == (AlertState.ACKNOWLEDGED, "on it")
    (change,) = load_changes(store, alert_id="alert-1")
    assert summaries_of([change]) == [("ada", "state", "open", "acknowledged", "on it")]
    assert (change.at, change.alert_id, change.pattern) == (LATER, "alert-1", "")


def test_typed_text_is_stored_as_printable_lines(store: Store) -> None:
    typed, stored = "\x1b[31mada\n lovelace\0", "?[31mada lovelace?"
    save_alerts(store, [make_alert()])
    decide(store, set_owner(["alert-1"], typed, why=typed), by=typed)
    store.revise_settings(
        "bert/*", lambda old: dataclasses.replace(old, owner=typed), by=typed, why=typed
    )
    alert = load_alert(store, "alert-1")
    assert (alert.owner, alert.note) == (stored, stored)
    assert [item.owner for item in load_series_settings(store)] == [stored]
    assert set(summaries_of(load_changes(store))) == {(stored, "owner", "", stored, stored)}


def test_decision_that_changes_nothing_writes_nothing(store: Store) -> None:
    save_alerts(store, [make_alert()])
    before = store.store_version()
    decide(store, set_owner(["alert-1"], ""))
    assert store.store_version() == before
    assert load_changes(store) == ()


def test_changes_are_listed_in_the_order_in_which_they_were_made(store: Store) -> None:
    save_alerts(store, [make_alert()])
    for owner in ("ada", "bob", "eve"):
        decide(store, set_owner(["alert-1"], owner))
    assert [change.new for change in load_changes(store)] == ["ada", "bob", "eve"]


def test_start_of_an_id_names_an_alert_when_it_is_unique(
    store: Store, words: SnapshotAssertion
) -> None:
    save_alerts(store, [make_alert(id) for id in ("abc1", "abc2", "abx", "ab")])
    assert load_alert(store, "abx").id == "abx"
    assert load_alert(store, "abc1").id == "abc1"
    assert load_alert(store, "ab").id == "ab"
    with pytest.raises(NotFoundError) as caught:
        load_alert(store, "abc")
    assert caught.value.parameters == {"alert": "abc", "candidates": ("abc1", "abc2")}
    assert str(caught.value) == words(name="ambiguous")
    for unknown, near in (("x", ""), ("", ""), ("ab_", "ab or abx"), ("%", "")):
        with pytest.raises(NotFoundError) as caught:
            load_alert(store, unknown)
        assert caught.value.parameters == {"alert": unknown, "near": near}
    assert str(caught.value) == words(name="unknown")


def test_owner_and_mute_of_a_series_show_in_its_alerts_and_stay_the_series(store: Store) -> None:
    save_alerts(store, [make_alert()])
    store.revise_settings(
        "bert/*",
        lambda old: dataclasses.replace(old, owner="bob", muted_until=LATER),
        by="ada",
        why="moving house",
    )
    alert = load_alert(store, "alert-1")
    assert (alert.owner, alert.muted_until) == ("bob", LATER)
    decide(store, set_state(["alert-1"], AlertState.ACKNOWLEDGED))
    save_alerts(store, [dataclasses.replace(load_alert(store, "alert-1"), candidate=0.013)])
    store.revise_settings("bert/*", lambda old: SeriesSettings(pattern=old.pattern), by="ada")
    alert = load_alert(store, "alert-1")
    assert (alert.state, alert.candidate) == (AlertState.ACKNOWLEDGED, 0.013)
    assert (alert.owner, alert.muted_until) == ("", None)
    assert summaries_of(load_changes(store))[:2] == [
        ("ada", "owner", "", "bob", "moving house"),
        ("ada", "muted_until", "", LATER.isoformat(), "moving house"),
    ]


@pytest.mark.parametrize(
    ("taken", "setting"),
    [(set_owner(["alert-1"], ""), "owner"), (set_muted(["alert-1"], None), "muted_until")],
)
def test_a_setting_of_a_series_cannot_be_removed_from_one_alert(
    store: Store, taken: Decide, setting: str, words: SnapshotAssertion
) -> None:
    save_alerts(store, [make_alert("alert-1")])
    store.revise_settings(
        "bert/*#latency_s",
        lambda old: dataclasses.replace(old, owner="bob", muted_until=LATER),
        by="ada",
    )
    before = load_changes(store)
    with pytest.raises(SetByPattern) as caught:
        decide(store, taken)
    assert caught.value.parameters == {
        "alert": "alert-1",
        "setting": setting,
        "pattern": "bert/*#latency_s",
    }
    assert str(caught.value) == words
    assert load_changes(store) == before
    alert = load_alert(store, "alert-1")
    assert (alert.owner, alert.muted_until) == ("bob", LATER)


def test_alert_that_loses_its_own_owner_has_that_of_its_series_again_on_record(
    store: Store,
) -> None:
    save_alerts(store, [make_alert("alert-1")])
    store.revise_settings(
        "bert/*#latency_s", lambda old: dataclasses.replace(old, owner="bob"), by="ada"
    )
    decide(store, set_owner(["alert-1"], "eve"))
    decide(store, set_owner(["alert-1"], ""))
    assert load_alert(store, "alert-1").owner == "bob"
    changes = [(item.old, item.new) for item in load_changes(store) if item.alert_id]
    assert changes == [("bob", "eve"), ("eve", "bob")]


def test_owner_and_mute_are_set_at_once_and_leave_what_others_changed(store: Store) -> None:
    save_alerts(store, [make_alert("alert-1")])
    seen = load_alert(store, "alert-1")
    decide(store, set_owner(["alert-1"], "eve"))
    decide(store, set_care(seen, owner=seen.owner, until=LATER))
    alert = load_alert(store, "alert-1")
    assert (alert.owner, alert.muted_until) == ("eve", LATER)


def test_new_alert_has_the_owner_and_mute_of_its_series(store: Store) -> None:
    put(store, nights(STEP))
    store.revise_settings(
        "bert/*",
        lambda old: dataclasses.replace(old, owner="bob", muted_until=LATER),
        by="ada",
    )
    (alert,) = detect(store).new
    assert (alert.owner, alert.muted_until) == ("bob", LATER)
    assert [change.field for change in load_changes(store, alert_id=alert.id)] == ["state"]
    store.revise_settings("bert/*", lambda old: SeriesSettings(pattern=old.pattern), by="ada")
    assert load_alert(store, alert.id).owner == ""
    assert load_alert(store, alert.id).muted_until is None


def test_judge_records_what_it_does_once(store: Store, words: SnapshotAssertion) -> None:
    put(store, nights(STEP))
    (alert,) = detect(store).new
    assert [change[:4] for change in summaries_of(load_changes(store, alert_id=alert.id))] == [
        (JUDGE, "state", "", "open")
    ]
    detect(store)
    put(store, nights([2.0] * 3, first=20))
    detect(store)
    changes = summaries_of(load_changes(store, alert_id=alert.id))
    assert [change[:4] for change in changes] == [
        (JUDGE, "state", "", "open"),
        (JUDGE, "state", "open", "fixed"),
    ]
    assert [change[4] for change in changes] == words


def test_step_never_heals_by_lasting(store: Store) -> None:
    put(store, nights(STEP))
    detect(store)
    for first in range(20, 60, 8):
        put(store, nights([1.7] * 8, first=first))
        assert [str(alert.state) for alert in detect(store).alerts] == ["open"]


def test_relapse_reopens_the_alert_with_its_owner(store: Store) -> None:
    put(store, nights(STEP))
    (alert,) = detect(store).new
    decide(store, set_owner([alert.id], "ada"))
    decide(store, set_state([alert.id], AlertState.ACKNOWLEDGED))
    put(store, nights([2.0] * 8, first=20))
    assert [item.id for item in detect(store).fixed] == [alert.id]
    put(store, nights([1.7] * 4, first=28))
    (again,) = detect(store).new
    assert (again.id, again.owner, again.first_bad.run_id) == (alert.id, "ada", "run-28")
    assert [change.new for change in load_changes(store) if change.field == "state"] == [
        "open",
        "acknowledged",
        "fixed",
        "open",
    ]


def test_expected_level_is_the_baseline_from_its_first_run_on(store: Store) -> None:
    put(store, nights(STEP))
    (alert,) = detect(store).new
    decide(store, set_state([alert.id], AlertState.EXPECTED))
    put(store, nights([1.7] * 4, first=20))
    assert detect(store).new == ()
    # Back where it came from is now an improvement on what is expected, not the end of a step.
    put(store, nights([2.0] * 8, first=24))
    (gain,) = detect(store).new
    assert (str(gain.verdict), gain.first_bad.run_id) == ("improvement", "run-24")
    assert gain.baseline == pytest.approx(1.7, rel=0.01)
    assert states(store) == {"run-12": "expected", "run-24": "open"}


def test_without_a_decision_the_way_back_is_the_end_of_the_step(store: Store) -> None:
    put(store, nights([*STEP, *[2.0] * 8]))
    detect(store)
    assert states(store) == {"run-12": "fixed"}


def test_step_from_the_expected_level_is_another_alert(store: Store) -> None:
    put(store, nights(STEP))
    (alert,) = detect(store).new
    decide(store, set_state([alert.id], AlertState.EXPECTED))
    put(store, nights([*[1.7] * 4, *[1.45] * 6], first=20))
    (worse,) = detect(store).new
    assert worse.first_bad.run_id == "run-24"
    assert worse.change_pct == pytest.approx(100 * (1.45 / 1.7 - 1), abs=1)


def test_alert_that_is_reopened_is_judged_again(store: Store) -> None:
    put(store, nights(STEP))
    (alert,) = detect(store).new
    decide(store, set_state([alert.id], AlertState.EXPECTED))
    put(store, nights([1.7] * 2, first=20))
    detect(store)
    decide(store, set_state([alert.id], AlertState.OPEN))
    (again,) = detect(store).alerts
    assert (again.id, again.state) == (alert.id, AlertState.OPEN)
    assert again.last_seen == START + timedelta(days=21)


def test_noise_is_silent_and_so_is_its_way_back_and_its_return(store: Store) -> None:
    put(store, nights(STEP))
    (alert,) = detect(store).new
    decide(store, set_state([alert.id], AlertState.NOISE))
    put(store, nights([2.0] * 8, first=20))
    assert detect(store).new == ()
    put(store, nights([1.7] * 4, first=28))
    assert detect(store).new == ()
    assert [str(item.state) for item in load_alerts(store)] == ["noise"]


def test_floor_of_a_series_decides_what_matters_in_it(store: Store) -> None:
    put(store, nights([2.0] * 12 + [1.86] * 8))
    (alert,) = detect(store).new
    store.revise_settings(
        "bert/*#speedup", lambda old: dataclasses.replace(old, floor=0.1), by="ada"
    )
    (closed,) = detect(store).fixed
    assert closed.id == alert.id
    store.revise_settings(
        "bert/*#speedup", lambda old: dataclasses.replace(old, floor=None), by="ada"
    )
    (opened,) = detect(store).new
    assert opened.id == alert.id


def test_baseline_of_a_pattern_starts_with_its_run(store: Store) -> None:
    put(store, nights(STEP))
    store.revise_settings(
        "bert/*", lambda old: dataclasses.replace(old, baseline_run_id="run-12"), by="ada"
    )
    assert detect(store).alerts == ()


def test_same_files_again_and_judging_again_change_no_decision(store: Store) -> None:
    put(store, nights(STEP))
    (alert,) = detect(store).new
    decide(store, set_state([alert.id], AlertState.NOISE, why="shared host"))
    put(store, nights(STEP))
    detect(store)
    assert load_alert(store, alert.id).note == "shared host"
    assert states(store) == {"run-12": "noise"}


def test_a_rebuilt_store_gets_the_decisions_of_users(store: Store, tmp_path: Path) -> None:
    put(store, nights(STEP))
    (alert,) = detect(store).new
    decide(store, set_owner([alert.id], "ada"))
    decide(store, set_muted([alert.id], LATER))
    decide(store, set_state([alert.id], AlertState.EXPECTED, why="new heads"))
    store.revise_settings(
        "bert/*",
        lambda old: dataclasses.replace(
            old, floor=0.08, owner="bob", muted_until=LATER, baseline_run_id="run-3"
        ),
        by="ada",
    )
    log = load_changes(store)
    again = Store(f"duckdb:///{tmp_path}/again.duckdb")
    put(again, nights(STEP))
    detect(again)
    assert again.replay_changes(log) == len(log)
    assert load_alerts(again) == load_alerts(store)
    assert load_series_settings(again) == load_series_settings(store)
    assert set(log) <= set(load_changes(again))
    assert again.replay_changes(log) == 0
    assert detect(again).new == ()


def test_changes_of_alerts_that_are_elsewhere_are_left_out(store: Store) -> None:
    change = changes_of_alert(
        make_alert(), make_alert(state="noise"), signature=Signature(by="ada", at=START, why="")
    )
    assert store.replay_changes(change) == 0
    assert load_changes(store) == ()


@pytest.mark.parametrize(
    ("decided", "detected", "then"),
    [
        ("acknowledged", "open", "acknowledged"),
        ("acknowledged", "fixed", "fixed"),
        ("noise", "fixed", "noise"),
        ("expected", "open", "expected"),
        ("open", "fixed", "fixed"),
    ],
)
def test_replay_gives_way_to_what_the_history_says(
    store: Store, decided: str, detected: str, then: str
) -> None:
    before = "noise" if decided == "open" else "open"
    change = changes_of_alert(
        make_alert(state=before),
        make_alert(state=decided),
        signature=Signature(by="ada", at=START, why=""),
    )
    save_alerts(store, [make_alert(state=detected)])
    assert store.replay_changes(change) == 1
    assert str(load_alert(store, "alert-1").state) == then


def keep_setting(pipe: Connection, url: str, what: str) -> None:
    """Change one thing of one alert ten times when told to."""
    store = Store(url)
    pipe.send("ready")
    pipe.recv()
    for number in range(1, 11):
        decision = {
            "owner": set_owner(["alert-1"], f"owner-{number}"),
            "mute": set_muted(["alert-1"], START + timedelta(days=number)),
        }
        store.revise_alerts(decision[what], by=what)
    pipe.send("done")


def test_concurrent_changes_of_one_alert_are_all_stored(store_url: str) -> None:
    store = Store(store_url)
    save_alerts(store, [make_alert()])
    with (
        child(keep_setting, store_url, "owner") as (_, first),
        child(keep_setting, store_url, "mute") as (_, second),
    ):
        for word in ("ready", "done"):
            for pipe in (first, second):
                assert pipe.recv() == word
            if word == "ready":
                first.send("go")
                second.send("go")
    alert = load_alert(store, "alert-1")
    assert (alert.owner, alert.muted_until) == ("owner-10", START + timedelta(days=10))
    changes = load_changes(store)
    for by in ("owner", "mute"):
        mine = [change for change in changes if change.by == by]
        assert [change.old for change in mine] == ["", *(change.new for change in mine[:-1])]
        assert len(mine) == 10
