"""Events as rows, and what a decision about one is about."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.views.alerts.event_table import (
    EventGroup,
    cause_text,
    cause_texts,
    event_groups,
    event_table,
    events_heading,
)
from compile_hud.app.views.alerts.tables import changes_table, decidable
from compile_hud.db.records.alerts import Alert, AlertState, Event, EventKind
from compile_hud.db.records.triage import AlertChange, ChangedField
from tests.support.builders import START, make_alert, make_case, make_run, make_run_ref

EVENT = Event(id="e", kind=EventKind.REVISION, title="many cases: slower", size=2)


def member(id: str, **facts: Any) -> Alert:
    """Return an alert of the event, of a model that is named as it."""
    alert = make_alert(id, **{"case": make_case(id), **facts})
    return dataclasses.replace(alert, event_id=EVENT.id)


def group_of(*alerts: Alert) -> EventGroup:
    """Return the one event of some alerts."""
    (group,) = event_groups(alerts, events={EVENT.id: EVENT})
    return group


def test_alerts_of_one_event_are_one_row_and_those_of_none_are_rows_of_their_own() -> None:
    alone = [make_alert("one", change_pct=50.0), make_alert("two", change_pct=5.0)]
    groups = event_groups([*alone, member("a"), member("b")], events={EVENT.id: EVENT})
    assert [(group.title, len(group.alerts)) for group in groups] == [
        (f"{make_case().key}: +50.0 %", 1),
        ("many cases: slower", 2),
        (f"{make_case().key}: +5.0 %", 1),
    ]


def test_event_leads_to_its_page_and_one_of_a_single_alert_to_that_alert() -> None:
    assert group_of(member("a"), member("b")).url == "alerts?event=e"
    assert group_of(member("a")).url == "alerts?alert=a"


def test_an_event_that_is_over_comes_after_each_that_is_not() -> None:
    over = make_alert("over", kind="outcome", state="fixed")
    groups = event_groups([over, make_alert("open", change_pct=6.0)], events={})
    assert [group.worst.id for group in groups] == ["open", "over"]


def test_what_is_settled_is_the_worst_only_where_all_is() -> None:
    settled = member("a", change_pct=90.0, state="noise")
    assert group_of(settled, member("b", change_pct=6.0)).worst.id == "b"
    assert group_of(settled, member("b", change_pct=6.0, state="fixed")).worst.id == "a"


def test_event_begins_with_the_run_of_most_of_its_alerts() -> None:
    early, late = (
        make_run_ref(make_run(name, started_at=START + timedelta(days=number)))
        for number, name in enumerate(("early", "late"))
    )
    group = group_of(
        member("a", first_bad=late), member("b", first_bad=early), member("c", first_bad=late)
    )
    assert group.onset.first_bad == late
    assert group_of(*group.alerts[:2]).onset.first_bad == early


def test_event_of_one_model_begins_with_its_drift_and_one_of_several_with_the_steps() -> None:
    first, step, run_ref = (
        make_run_ref(make_run(name, started_at=START + timedelta(days=10 * number)))
        for number, name in enumerate(("first", "step", "seen"))
    )
    case = make_case("a")
    steps = [member(id, case=case, first_bad=step) for id in ("a", "b")]
    drift = member("slow", case=case, kind="drift", first_bad=run_ref, last_good=first)
    assert group_of(*steps, drift).onset == drift
    assert group_of(*steps, drift, member("c", first_bad=step)).onset.first_bad == step
    failing = member("d", case=case, kind="outcome", first_bad=run_ref)
    assert group_of(failing, drift).onset == failing


@pytest.mark.parametrize(
    ("kind", "stored_text"),
    [
        ("machine", "machine side: ref_copy moved +9 %"),
        ("compiler", "eager moved by 0.0 %: compiler side"),
        ("eager_or_machine", "eager moved by +9 %"),
        ("unknown", "torch differs"),
    ],
)
def test_a_cause_says_its_side_once(kind: str, stored_text: str, words: SnapshotAssertion) -> None:
    alert = dataclasses.replace(member("a", cause_kind=kind), cause_text=stored_text)
    assert cause_text(group_of(alert)) == words


def test_causes_are_named_once_by_the_worst_alert(
    words: SnapshotAssertion,
) -> None:
    alert = dataclasses.replace(member("a", cause_kind="compiler"), cause_text="eager is as it was")
    worse = dataclasses.replace(member("b", change_pct=50.0), cause_text="torch differs")
    cause, why = cause_texts(group_of(alert, worse))
    assert cause == "compiler"
    assert why == words
    assert cause_texts(group_of(worse)) == ("", "torch differs")
    assert cause_texts(group_of(member("c"))) == ("", "unknown")


def test_list_begins_with_how_many_alerts_are_in_how_many_events() -> None:
    assert events_heading([group_of(member("a"), member("b"))]) == "2 alerts in 1 event"


def test_a_scope_is_named_in_a_list_of_several() -> None:
    here, there = group_of(member("a")), group_of(member("b", toolchain="nightly"))
    assert "nightly on box" not in event_table([there], now=START)
    assert "nightly on box" in event_table([here, there], now=START)


def test_late_case_has_a_day_and_no_bad_revision() -> None:
    late = member("a", kind="late", metric="outcome", unit="")
    html = event_table([group_of(late)], now=START + timedelta(days=2))
    assert "was due 2 d ago, 2026-01-01 02:30 UTC" in html
    assert late.first_bad.revision not in html


@pytest.mark.parametrize(
    ("state", "ids"),
    [
        (AlertState.OPEN, ["acknowledged", "expected", "noise"]),
        (AlertState.ACKNOWLEDGED, ["open"]),
        (AlertState.EXPECTED, ["open", "acknowledged"]),
        (AlertState.NOISE, ["open", "acknowledged"]),
    ],
)
def test_decision_about_an_event_leaves_what_is_fixed_or_decided(
    state: AlertState, ids: list[str]
) -> None:
    alerts = [make_alert(str(item), state=item) for item in AlertState]
    assert sorted(alert.id for alert in decidable(alerts, state)) == sorted(ids)


def test_decision_about_one_alert_may_change_another_decision() -> None:
    alert = make_alert(state="expected")
    assert decidable([alert], AlertState.NOISE) == [alert]
    assert decidable([alert], AlertState.EXPECTED) == []


def test_one_decision_about_several_alerts_is_one_row_of_changes() -> None:
    alerts = [member("a"), member("b"), member("c")]
    changes = [change_of(alert.id, why="same") for alert in alerts[:2]]
    html = changes_table([*changes, change_of("c", why="other")], alerts=alerts)
    assert html.count("<tr>") == 3
    assert ">2 alerts<" in html
    assert f">{make_case('c').key} latency<" in html
    assert "2 alerts" not in changes_table(changes[:1], alerts=alerts[:1])


def change_of(alert_id: str, *, why: str) -> AlertChange:
    """Return the acknowledgement of an alert."""
    return AlertChange(
        id=f"change of {alert_id}",
        alert_id=alert_id,
        pattern="",
        at=START,
        by="ada",
        field=ChangedField.STATE,
        old="open",
        new="acknowledged",
        why=why,
    )
