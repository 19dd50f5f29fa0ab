"""A change that shows in many series is one row, one page and one decision."""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.db.queries.alerts import load_alert
from compile_hud.db.queries.judge_state import save_judge_states
from compile_hud.db.records.alerts import Alert, Event, EventKind
from compile_hud.db.store import Store
from compile_hud.runner.analysis.alerts.triage import set_owner
from tests.app.alerts.test_alerts import field, press
from tests.app.conftest import OpenPage
from tests.support.builders import make_alert, make_case
from tests.support.pages.page_elements import (
    cells_of_rows,
    links_of,
    text_of,
    texts_of,
    texts_of_rows,
)
from tests.support.stores import dashboard_stores
from tests.support.stores.stored_results import save_alerts

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

pytestmark = pytest.mark.usefixtures("anybody_triages")

WORDS = "3 of 20 cases in 3 models: 8.0 to 30.0 % slower"
STORED = "3 of 20 cases in 3 models: slower by 8.0 to 30.0 %"
TITLE = f"{STORED} since {make_alert().first_bad.revision} (stable on box)"
EVENT = Event(id="event-1", kind=EventKind.REVISION, title=TITLE, size=4)
STATES = {"bert": "open", "vit": "acknowledged", "llama": "noise"}
CHANGES = {"bert": 8.0, "vit": 30.0, "llama": 90.0}
DAY = dashboard_stores.NOW.date() + timedelta(days=3)


def alerts() -> list[Alert]:
    """Return the alerts of an event: three models in three states, and what is over of one."""
    rows = [
        make_alert(model, case=make_case(model), state=state, change_pct=CHANGES[model])
        for model, state in STATES.items()
    ]
    rows.append(make_alert("over", case=make_case("bert"), metric="speedup", state="fixed"))
    return [dataclasses.replace(alert, event_id=EVENT.id) for alert in rows]


@pytest.fixture
def store(store: Store) -> Store:
    """Return a store with one event and an alert that stands alone."""
    save_alerts(store, [*alerts(), make_alert("alone", state="fixed")])
    save_judge_states(store, judged={}, events=[EVENT], event_ids={EVENT.id})
    return store


@pytest.fixture
def page(store: Store, open_page: OpenPage) -> AppTest:  # noqa: ARG001
    """Return the page of the event."""
    return open_page("alerts", event=EVENT.id)


def states(store: Store) -> dict[str, str]:
    return {alert.id: str(load_alert(store, alert.id).state) for alert in alerts()}


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("state", ["", "noise"])
def test_event_is_listed_whole_in_each_state_that_an_alert_of_it_is_in(
    state: str, open_page: OpenPage
) -> None:
    page = open_page("alerts", **({"state": state} if state else {}))
    head, *_ = cells_of_rows(page, "events")
    assert (head["event"], head["state"]) == (WORDS, "1 open, 1 acknowledged, 1 noise, 1 fixed")
    # What people called noise is not the worst of it.
    assert (head["change"], head["metric"]) == ("+30.0 %", "latency")
    assert (head["series"], head["cases"]) == ("4", "3")
    assert f"alerts?event={EVENT.id}" in links_of(page)


@pytest.mark.usefixtures("store")
def test_event_is_not_listed_in_a_state_of_none_of_its_alerts(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    assert texts_of(open_page("alerts", state="expected"), "empty") == words


def test_page_of_an_event_has_its_title_its_facts_and_its_alerts(
    page: AppTest, words: SnapshotAssertion
) -> None:
    text = text_of(page)
    assert text.startswith(f"Alerts {WORDS} {WORDS} since ")
    assert texts_of(page, "facts") == words
    rows = cells_of_rows(page, "alerts")
    assert [row["case"] for row in rows] == [
        *("vit / default", "bert / default", "llama / default", "bert / default")
    ]
    assert [row["state"] for row in rows] == ["acknowledged", "open", "noise", "fixed"]
    assert "alerts?alert=vit" in links_of(page)


@pytest.mark.usefixtures("store")
def test_alert_leads_to_its_event_which_reports_how_many_others_it_has(open_page: OpenPage) -> None:
    page = open_page("alerts", alert="vit")
    assert f"event {WORDS} 3 other alerts" in text_of(page)
    assert f"alerts?event={EVENT.id}" in links_of(page)


def test_event_of_one_case_has_the_title_of_the_list_on_the_page_of_its_alert(
    store: Store, open_page: OpenPage
) -> None:
    """The stored title begins with the key of the case."""
    case = make_case("gpt2")
    title = f"{case.key}: slower by 20.0 % since {make_alert().first_bad.revision} (stable on box)"
    event = Event(id="event-2", kind=EventKind.CASE, title=title, size=1)
    alert = make_alert("single", case=case)
    save_alerts(store, [dataclasses.replace(alert, event_id=event.id)])
    save_judge_states(store, judged={}, events=[event], event_ids={event.id})
    (listed,) = (
        row["event"]
        for row in cells_of_rows(open_page("alerts"), "events")
        if "gpt2" in row["event"]
    )
    assert listed == "gpt2 / default: 20.0 % slower"
    assert f"event {listed} alert single" in text_of(open_page("alerts", alert="single"))


@pytest.mark.usefixtures("store")
def test_unknown_event_is_reported(open_page: OpenPage) -> None:
    assert "No such event" in text_of(open_page("alerts", event="nothing"))


@pytest.mark.parametrize(
    ("state", "moved"),
    [
        ("expected", ["bert", "vit"]),
        ("open", ["vit", "llama"]),
    ],
)
def test_decision_is_about_those_alerts_that_it_can_be_about(
    page: AppTest, store: Store, state: str, moved: list[str]
) -> None:
    before = states(store)
    press(page, f"decide-{state}", why="one cause")
    assert not page.exception
    assert states(store) == {**before, **dict.fromkeys(moved, state)}
    rows = texts_of_rows(page, "changes")
    assert {(row[1], row[-1]) for row in rows} == {("ada (not signed in)", "one cause")}
    # What was decided at once about alerts in one state is one row.
    was = {before[model] for model in moved}
    assert sorted(row[4] for row in rows) == sorted(was)
    assert {row[2] for row in rows} == {f"{make_case(model).key} latency" for model in moved}


def test_owner_and_mute_are_set_for_all_alerts_at_once(page: AppTest, store: Store) -> None:
    field(page, "Owner").input("eve")
    press(page, "decide-owner")
    page.date_input[0].set_value(DAY)
    press(page, "decide-mute")
    end = datetime(DAY.year, DAY.month, DAY.day, tzinfo=timezone.utc)
    loaded = [load_alert(store, alert.id) for alert in alerts()]
    assert {(alert.owner, alert.muted_until) for alert in loaded} == {("eve", end)}


def test_owners_that_differ_stay_when_only_the_mute_is_set(
    store: Store, open_page: OpenPage
) -> None:
    store.revise_alerts(set_owner(["bert"], "bob"), by="ada")
    page = open_page("alerts", event=EVENT.id)
    page.date_input[0].set_value(DAY)
    press(page, "decide-mute")
    press(page, "decide-owner")
    assert load_alert(store, "bert").owner == "bob"
    assert load_alert(store, "vit").owner == ""
    assert load_alert(store, "vit").muted_until is not None


def test_changes_of_other_alerts_are_not_shown(
    page: AppTest, store: Store, words: SnapshotAssertion
) -> None:
    store.revise_alerts(set_owner(["alone"], "eve"), by="ada")
    page.run()
    assert texts_of(page, "caption")[-1] == words
