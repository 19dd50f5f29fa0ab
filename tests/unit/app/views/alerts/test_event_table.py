"""Events as rows, and what a decision about one is about."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.components.table.columns import DataTable
from compile_hud.app.ui.urls import AlertsState
from compile_hud.app.views.alerts.alert_grid import alert_grid, event_grid, matching_groups
from compile_hud.app.views.alerts.event_table import (
    EventGroup,
    attention_text,
    cause_text,
    cause_texts,
    event_groups,
    events_heading,
)
from compile_hud.app.views.alerts.tables import changes_table, decidable
from compile_hud.db.records.alerts import Alert, AlertState, Event, EventKind
from compile_hud.db.records.notifications import Severity
from compile_hud.db.records.results import Verdict
from compile_hud.db.records.triage import AlertChange, ChangedField
from tests.support.builders import START, make_alert, make_case, make_run, make_run_ref
from tests.support.pages.table_cells import cells_of, links_in

EVENT = Event(id="e", kind=EventKind.REVISION, title="many cases: slower", size=2)


def member(id: str, **facts: Any) -> Alert:
    """Return an alert of the event, of a model that is named as it."""
    alert = make_alert(id, **{"case": make_case(id), **facts})
    return dataclasses.replace(alert, event_id=EVENT.id)


SEVERITIES = dict.fromkeys("abc", Severity.SEVERE)


def grid_of(*groups: EventGroup) -> DataTable:
    return event_grid(groups, severities=SEVERITIES, trends={}, now=START)


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


def test_event_begins_with_its_first_alert() -> None:
    early, late = (
        make_run_ref(make_run(name, started_at=START + timedelta(days=number)))
        for number, name in enumerate(("early", "late"))
    )
    group = group_of(
        member("a", first_bad=late), member("b", first_bad=early), member("c", first_bad=late)
    )
    assert group.onset.first_bad == early


def test_drifts_begin_with_the_run_of_most_of_them() -> None:
    early, late = (
        make_run_ref(make_run(name, started_at=START + timedelta(days=number)))
        for number, name in enumerate(("early", "late"))
    )
    drifts = [
        member(id, case=make_case("a", mode=mode), kind="drift", last_good=began)
        for id, mode, began in (("x", "eager", late), ("y", "default", early), ("z", "other", late))
    ]
    assert group_of(*drifts).onset.last_good == late


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
    assert "toolchain" not in grid_of(there).order
    assert "toolchain" in grid_of(here, there).order
    assert [row["toolchain"] for row in cells_of(grid_of(here, there))] == ["stable", "nightly"]


def test_late_case_has_a_day_and_no_bad_revision() -> None:
    late = member("a", kind="late", metric="outcome", unit="")
    (row,) = cells_of(grid_of(group_of(late)))
    assert (row["first bad revision"], row["since (UTC)"]) == ("-", "2026-01-01 02:30")


def test_an_event_has_its_worst_change_as_a_number_and_what_it_concerns() -> None:
    worst = member("a", change_pct=30.0, machine="rack", interval_pct=(28.0, 31.0))
    group = group_of(worst, member("b", change_pct=6.0, state="noise"))
    trends = {worst.series_key: (1.0, 1.0, 1.3)}
    table = event_grid([group], severities=SEVERITIES, trends=trends, now=START)
    (row,) = cells_of(table)
    assert (row["event"], row["change"]) == ("many cases: slower", "+30.0 %")
    assert row["verdict"] == "\u25b2 regression"
    assert (row["severity"], row["state"]) == ("severe", "1 open, 1 noise")
    assert (row["series"], row["cases"]) == ("2", "2")
    assert row["last runs"] == "1.0, 1.0, 1.3"
    assert links_in(table, "event") == ["alerts?event=e"]
    assert links_in(table, "first bad revision")[0].startswith("run?run=")


def test_a_row_of_one_case_has_the_change_that_its_title_names() -> None:
    case = make_case("vit")
    speedup = member("a", case=case, metric="speedup", unit="x", change_pct=-12.0)
    latency = member("b", case=case, change_pct=8.0)
    group = group_of(speedup, latency)
    assert group.worst.id != latency.id
    assert group.title_alert.id == latency.id
    (row,) = cells_of(grid_of(group))
    assert (row["change"], row["metric"]) == ("+8.0 %", "latency")
    failing = group_of(member("a", kind="outcome", metric="outcome", change_pct=None))
    assert failing.title_alert.id == "a"


def test_the_cases_of_an_event_do_not_count_reference_cases() -> None:
    copying = make_case("copy", family="reference", mode="eager")
    reference = member("b", case=copying, change_pct=30.0)
    (row,) = cells_of(grid_of(group_of(member("a", change_pct=8.0), reference)))
    assert (row["cases"], row["series"], row["change"]) == ("1", "2", "+8.0 %")
    (row,) = cells_of(grid_of(group_of(reference)))
    assert (row["cases"], row["change"]) == ("1", "+30.0 %")


def test_both_grids_say_what_is_muted_and_which_side_changed() -> None:
    until = START + timedelta(hours=1)
    silent = dataclasses.replace(
        member("a", cause_kind="eager_or_machine"), cause_text="both moved", muted_until=until
    )
    heard = dataclasses.replace(member("b", cause_kind="machine"), cause_text="slower copies")
    settled = dataclasses.replace(member("c", state="fixed"), muted_until=until)
    kinds = {"eager or machine", "machine"}
    for alerts, state in (
        ([silent, settled], "1 open, 1 fixed, muted"),
        ([silent, heard], "2 open, 1 muted"),
    ):
        group = group_of(*alerts)
        (row,) = cells_of(grid_of(group))
        assert row["state"] == state
        assert set(row["attributed to"].split(", ")) <= kinds
        assert row["cause"] == group.alerts[0].cause_text
        later = event_grid([group], severities=SEVERITIES, trends={}, now=until)
        assert "muted" not in cells_of(later)[0]["state"]
    rows = cells_of(
        alert_grid([silent, heard, settled], severities=SEVERITIES, trends={}, now=START)
    )
    assert [row["state"] for row in rows] == ["open, muted", "open", "fixed"]
    assert [row["attributed to"] for row in rows] == ["eager or machine", "machine", "-"]


def test_a_drift_has_the_revision_and_the_time_of_one_run() -> None:
    began, seen = (
        make_run_ref(make_run(name, started_at=START + timedelta(days=days), revision=name))
        for name, days in (("2.12.1", 0), ("2.13.4", 17))
    )
    drift = member("a", kind="drift", last_good=began, first_bad=seen)
    single = alert_grid([drift], severities=SEVERITIES, trends={}, now=START)
    for table in (grid_of(group_of(drift)), single):
        (row,) = cells_of(table)
        assert (row["first bad revision"], row["since (UTC)"]) == ("2.12.1", "2026-01-01 02:30")
        assert links_in(table, "first bad revision")[0].startswith(f"run?run={began.run_id}")


def test_alerts_that_need_no_attention_are_counted_by_reason(words: SnapshotAssertion) -> None:
    until = START + timedelta(days=1)
    groups = [
        group_of(member("a"), dataclasses.replace(member("b"), muted_until=until)),
        group_of(member("c", state="acknowledged"), member("d", cause_kind="machine")),
        group_of(*(member(id, verdict=Verdict.IMPROVEMENT, change_pct=-9.0) for id in "ef")),
    ]
    texts = [attention_text(some, now=START) for some in (groups, groups[1:], groups[:1])]
    assert [*texts, attention_text(groups[:1], now=until)] == words


def test_an_alert_has_its_interval_its_evidence_and_a_way_to_its_history() -> None:
    alert = member("a", interval_pct=(18.0, 22.0), baseline=0.010, candidate=0.012)
    failing = member("b", kind="outcome", metric="outcome", unit="", change_pct=None)
    table = alert_grid([alert, failing], severities=SEVERITIES, trends={}, now=START)
    number, failure = cells_of(table)
    assert number["95 % interval"] == "[+18.0, +22.0] %"
    assert number["before and after"] == "10.0 -> 12.0 ms"
    assert (failure["change"], failure["before and after"]) == ("-", "failing")
    assert links_in(table, "case") == ["alerts?alert=a", "alerts?alert=b"]
    assert links_in(table, "history")[0].startswith("series?case=a%2F")


@pytest.mark.parametrize(
    ("filters", "titles"),
    [
        ({}, ["a", "b"]),
        ({"model": "b"}, ["b"]),
        ({"mode": "max-autotune"}, ["b"]),
        ({"severity": "severe"}, ["a"]),
        ({"machine": "rack"}, ["b"]),
        ({"owner": "eve"}, ["a"]),
        ({"text": "LATENCY eve"}, ["a"]),
        ({"text": "max rack"}, ["b"]),
        ({"model": "a", "owner": "bob"}, []),
    ],
)
def test_filters_leave_the_events_of_which_an_alert_fits(
    filters: dict[str, str], titles: list[str]
) -> None:
    first = dataclasses.replace(make_alert("a", case=make_case("a")), owner="eve")
    other = make_alert("b", case=make_case("b", mode="max-autotune"), machine="rack")
    groups = event_groups([first, other], events={})
    severities = {"a": Severity.SEVERE, "b": Severity.MINOR}
    shown = matching_groups(groups, AlertsState(**filters), severities=severities, now=START)
    assert sorted(group.worst.case.model for group in shown) == titles


@pytest.mark.parametrize(("began", "ids"), [("7", ["new"]), ("30", ["drift", "new"]), ("", None)])
def test_events_are_filtered_by_the_run_in_which_the_change_began(
    began: str, ids: list[str] | None
) -> None:
    refs = {
        days: dataclasses.replace(
            make_run_ref(), run_id=f"r{days}", at=START - timedelta(days=days)
        )
        for days in (3, 20, 60)
    }
    alerts = [
        make_alert("new", case=make_case("new"), first_bad=refs[3]),
        make_alert("old", case=make_case("old"), first_bad=refs[60]),
        # A drift is noticed long after it began.
        make_alert(
            "drift",
            case=make_case("drift"),
            kind="drift",
            first_bad=refs[3],
            last_good=refs[20],
        ),
    ]
    shown = matching_groups(
        event_groups(alerts, events={}), AlertsState(began=began), severities={}, now=START
    )
    assert sorted(group.worst.id for group in shown) == (ids or ["drift", "new", "old"])


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
