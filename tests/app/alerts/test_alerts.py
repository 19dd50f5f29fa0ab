"""People decide about alerts on their page, and see what was decided."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app import clock
from compile_hud.app.auth import access
from compile_hud.app.components import author
from compile_hud.app.components.shared_filters import is_other_page
from compile_hud.app.main import VIEWS
from compile_hud.app.ui.theme import style_sheet
from compile_hud.app.views.alerts.undo import acknowledge, drop_toast
from compile_hud.db.errors import StoreLocked
from compile_hud.db.queries.alerts import (
    load_alert,
    load_alerts,
    load_changes,
    load_series_settings,
)
from compile_hud.db.queries.runs import load_run
from compile_hud.db.records.alerts import AlertState
from compile_hud.db.records.kernels import KernelSource
from compile_hud.db.records.results import Outcome
from compile_hud.db.shared.access_rules import UNCHECKED, AccessRules, Role
from compile_hud.db.shared.model_code import code_change_text
from compile_hud.db.shared.model_sources import MODEL_LANGUAGE, to_text
from compile_hud.db.store import Store
from compile_hud.runner.analysis.alerts.triage import Decide, set_muted, set_owner, set_state
from compile_hud.runner.analysis.judging.attribution_evidence import with_evidence
from tests.app.conftest import OpenPage
from tests.support.builders import make_alert, make_case, make_result
from tests.support.nightly import daily_first
from tests.support.pages.page_elements import (
    cells_of_rows,
    html_of,
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

ID = "alert-1"
# The names that the toast and the pages have in a session.
SESSION = ("undo-triage", "undo-number", "alerts-seen", "carried-page")
CASE = "inference tiny fp32 cuda"
DAY = dashboard_stores.NOW.date() + timedelta(days=30)


@pytest.fixture
def store(seeded: Path) -> Store:
    """Return the filled store that the pages show."""
    return Store(f"duckdb:///{seeded}")


@pytest.fixture
def page(store: Store, open_page: OpenPage) -> AppTest:  # noqa: ARG001
    """Return the page of the alert about bert."""
    return open_page("alerts", alert=ID)


def test_other_code_of_the_model_is_the_first_cause_on_the_page_of_an_alert(
    store: Store, open_page: OpenPage
) -> None:
    alert = load_alert(store, ID)
    difference = {f"models.{alert.case.model}": ["abc", "abc+dirty(5f3a)"]}
    changed = with_evidence(dataclasses.replace(alert, environment_diff=difference))
    save_alerts(store, [changed])
    text = text_of(open_page("alerts", alert=ID))
    assert f"cause {code_change_text('abc', 'abc+dirty(5f3a)')}" in " ".join(text.split())


def test_the_page_of_an_alert_has_the_search_for_its_revision(
    store: Store, open_page: OpenPage
) -> None:
    alert = load_alert(store, ID)
    assert "bisect " not in text_of(open_page("alerts", alert=ID))
    answer = {"state": "ended", "text": "first bad revision: 0123456789 <b> by Ann"}
    save_alerts(store, [dataclasses.replace(alert, bisection=answer)])
    text = " ".join(text_of(open_page("alerts", alert=ID)).split())
    assert f"bisect {answer['text']}" in text


def test_the_page_of_an_alert_has_the_diff_of_the_models_code(
    store: Store, open_page: OpenPage
) -> None:
    alert = load_alert(store, ID)
    assert alert.last_good is not None
    runs = []
    for name, seen in (("good", alert.last_good), ("bad", alert.first_bad)):
        source = KernelSource(
            hash=name, language=MODEL_LANGUAGE, text=to_text({"net.py": name}, is_cut=False)
        )
        facts = {
            "model_commits": {alert.case.model: name},
            "model_sources": {alert.case.model: name},
        }
        known = load_run(store, seen.run_id)
        run = dataclasses.replace(known, id=name, environment={**known.environment, **facts})
        result = make_result(name, run=run, case=alert.case)
        store.ingest(run, dataclasses.replace(result, sources=(source,)), spool_id=name)
        runs.append(dataclasses.replace(seen, run_id=name))
    save_alerts(store, [dataclasses.replace(alert, last_good=runs[0], first_bad=runs[1])])
    page = open_page("alerts", alert=ID)
    (shown,) = (item for item in page.code if item.language == "diff")
    assert shown.value.splitlines()[-2:] == ["-good", "+bad"]


def press(page: AppTest, key: str, *, name: str = "ada", why: str = "") -> AppTest:
    field(page, "Your name").input(name)
    field(page, "Reason or comment").input(why)
    page.button(key).click()
    return page.run()


def field(page: AppTest, label: str) -> Any:
    # The form of annotations, further down, asks for a name as well.
    return next(item for item in page.text_input if item.label == label)


@pytest.mark.usefixtures("seeded")
def test_ongoing_events_are_listed_worst_first_and_lead_to_where_they_are_decided(
    open_page: OpenPage,
) -> None:
    page = open_page("alerts")
    rows = cells_of_rows(page, "events")
    names = ("event", "verdict", "change", "metric", "severity", "case details")
    assert [[row[name] for name in names] for row in rows] == [
        ["unet / max-autotune: failing", "\u25b2 regression", "-", "failing", "severe", CASE],
        ["bert / default: 20.0 % slower", "\u25b2 regression", "+20.0 %", "latency", "major", CASE],
        [
            *("resnet50 / max-autotune: speedup +13.9 %", "\u25bc improvement"),
            *("+13.9 %", "speedup", "minor", CASE),
        ],
    ]
    assert [(row["state"], row["series"], row["cases"]) for row in rows] == [
        ("1 open", "1", "1")
    ] * 3
    # The title leads there, and nothing else does.
    assert links_of(page).count(f"alerts?alert={ID}") == 1


def test_what_is_selected_in_the_list_is_decided_at_once(store: Store, open_page: OpenPage) -> None:
    page = open_page("alerts")
    assert "Triage" not in text_of(page)
    select(page, [0, 2])
    assert "Triage 2 selected alerts" in text_of(page)
    press(page, "decide-acknowledged", why="one cause")
    ids = {"alert-2", "alert-3"}
    assert {alert.id for alert in load_alerts(store, states=[AlertState.ACKNOWLEDGED])} == ids
    assert {item.alert_id for item in load_changes(store)} == ids


def select(page: AppTest, rows: list[int]) -> None:
    """Choose rows of the list of events, as the boxes in front of them do."""
    page.session_state["table-events"] = {"selection": {"rows": rows, "columns": [], "cells": []}}
    page.run()
    assert not page.exception


def test_a_choice_stays_with_its_event_when_another_one_comes(
    store: Store, open_page: OpenPage
) -> None:
    page = open_page("alerts")
    select(page, [1])
    assert "Triage 1 selected alert" in text_of(page)
    save_alerts(store, [make_alert("worse", case=make_case("worse"), change_pct=99.0)])
    page.run()
    rows = [row["event"] for row in cells_of_rows(page, "events")]
    assert [row.split(" ")[0] for row in rows] == ["unet", "worse", "bert", "resnet50"]
    press(page, "decide-noise", why="known")
    assert load_alert(store, ID).state is AlertState.NOISE
    assert load_alert(store, "worse").state is AlertState.OPEN


@pytest.mark.parametrize("rows", [[7], [-1], [0, 0, 99]])
@pytest.mark.usefixtures("seeded")
def test_rows_that_a_browser_makes_up_are_ignored(rows: list[int], open_page: OpenPage) -> None:
    page = open_page("alerts")
    select(page, rows)
    assert len(cells_of_rows(page, "events")) == 3


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize(
    ("params", "models"),
    [
        ({"model": "bert"}, ["bert"]),
        ({"mode": "max-autotune"}, ["unet", "resnet50"]),
        ({"severity": "minor"}, ["resnet50"]),
        ({"text": "BackendCompilerFailed"}, ["unet"]),
        ({"state": "all", "model": "llama"}, ["llama"]),
    ],
)
def test_filters_of_the_url_leave_the_events_that_fit(
    params: dict[str, str], models: list[str], open_page: OpenPage
) -> None:
    page = open_page("alerts", **params)
    events = [row["event"].split(" ")[0].split("/")[0] for row in cells_of_rows(page, "events")]
    assert events == models
    page.button(key="clear-filters").click().run()
    assert not dict(page.query_params)
    assert len(cells_of_rows(page, "events")) == 3


@pytest.mark.usefixtures("seeded")
def test_filters_without_a_match_are_named(open_page: OpenPage, words: SnapshotAssertion) -> None:
    page = open_page("alerts", model="bert", owner="eve")
    assert texts_of(page, "empty") == words


@pytest.mark.usefixtures("seeded")
def test_a_viewer_selects_nothing(open_page: OpenPage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "rules", AccessRules)
    page = open_page("alerts")
    assert len(cells_of_rows(page, "events")) == 3
    assert not page.dataframe[0].proto.selection_mode


@pytest.mark.nightly
def test_events_of_one_state_are_listed(
    store: Store, open_page: OpenPage, words: SnapshotAssertion
) -> None:
    decided = open_page("alerts", alert=ID)
    press(decided, "decide-noise")
    rows = cells_of_rows(open_page("alerts", state="noise"), "events")
    assert [row["state"] for row in rows] == ["1 noise", "1 noise"]
    assert any(row["event"].startswith("bert / default") for row in rows)
    assert {row["state"] for row in cells_of_rows(open_page("alerts"), "events")} == {"1 open"}
    assert len(cells_of_rows(open_page("alerts", state="all"), "events")) == 4
    assert texts_of(open_page("alerts", state="expected"), "empty") == words
    assert "does not exist" in text_of(open_page("alerts", state="broken"))
    assert load_alert(store, ID).state is AlertState.NOISE


def test_alert_has_its_facts_and_links(page: AppTest, words: SnapshotAssertion) -> None:
    text = text_of(page)
    assert "bert / default: latency +20.0 %" in text
    assert "8.79 -> 10.5 ms" in text
    assert texts_of(page, "caption")[-1] == words
    assert any(link.startswith("run?run=run-009") for link in links_of(page))
    assert any(link.startswith("series?case=bert%2F") for link in links_of(page))
    assert texts_of(page, "facts") == words
    assert "hud run --model bert --mode default --phase inference" in text


def test_failure_that_fails_otherwise_by_now_reports_how(store: Store, open_page: OpenPage) -> None:
    assert "fails now" not in text_of(open_page("alerts", alert="alert-2"))
    first = dataclasses.replace(
        dashboard_stores.failure(), cause_text="ok -> failed: OutOfMemoryError: 2 GiB"
    )
    save_alerts(store, [first])
    text = "fails now failed: BackendCompilerFailed: LoweringException: no choices to select"
    assert text in text_of(open_page("alerts", alert="alert-2"))


def test_a_failure_is_read_from_its_exception_to_what_differs(
    store: Store, open_page: OpenPage
) -> None:
    alert = dataclasses.replace(
        load_alert(store, "alert-2"), environment_diff={"torch": ["2.12.1", "2.13.0"]}
    )
    save_alerts(store, [alert])
    page = open_page("alerts", alert="alert-2")
    text = text_of(page)
    parts = ["LoweringException", "Since when", "first bad", "What differs", "History"]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert any("Traceback" in item.value for item in page.code)
    assert "Environment changes" not in text


def test_a_failure_without_a_log_or_a_difference_says_so(
    store: Store, open_page: OpenPage, words: SnapshotAssertion
) -> None:
    alert = load_alert(store, "alert-2")
    run = dataclasses.replace(load_run(store, alert.first_bad.run_id), id="quiet")
    result = make_result("quiet", run=run, case=alert.case, outcome=Outcome.TIMEOUT, reason="late")
    store.ingest(run, result, spool_id="quiet")
    first = dataclasses.replace(alert.first_bad, run_id="quiet")
    save_alerts(store, [dataclasses.replace(alert, first_bad=first)])
    captions = texts_of(open_page("alerts", alert="alert-2"), "caption")
    assert captions[:2] == words


def test_a_failure_of_a_pruned_run_is_shown_without_its_exception(
    store: Store, open_page: OpenPage
) -> None:
    alert = load_alert(store, "alert-2")
    pruned = dataclasses.replace(alert.first_bad, run_id="run-pruned")
    save_alerts(store, [dataclasses.replace(alert, first_bad=pruned)])
    page = open_page("alerts", alert="alert-2")
    assert not page.exception
    assert "Since when" not in text_of(page)
    assert "first bad" in text_of(page)


def test_alert_of_a_case_that_is_gone_has_the_command_and_no_chart(
    store: Store, open_page: OpenPage, words: SnapshotAssertion
) -> None:
    alert = make_alert("gone", case=make_case("gone"), kind="vanished", metric="outcome", unit="")
    save_alerts(store, [alert])
    page = open_page("alerts", alert="gone")
    assert not page.exception
    assert texts_of(page, "facts") == words
    assert "hud run --model gone --mode default" in text_of(page)


@pytest.mark.usefixtures("seeded")
@pytest.mark.parametrize("path", ["overview", "series"])
def test_other_pages_lead_to_the_alert(path: str, open_page: OpenPage) -> None:
    page = open_page(path, **({"case": dashboard_stores.REGRESSED.key} if path == "series" else {}))
    assert f"alerts?alert={ID}" in links_of(page)


def test_unknown_alert_is_reported(seeded: Path, open_page: OpenPage) -> None:  # noqa: ARG001
    assert "No such alert" in text_of(open_page("alerts", alert="nobody"))


@pytest.mark.parametrize("state", daily_first(["acknowledged", "expected", "noise"], num_daily=1))
def test_button_sets_the_state_with_name_and_reason_and_reopen_takes_it_back(
    page: AppTest, store: Store, state: str
) -> None:
    press(page, f"decide-{state}", why="known since the move")
    assert not page.exception
    alert = load_alert(store, ID)
    assert (str(alert.state), alert.note) == (state, "known since the move")
    assert texts_of_rows(page, "changes")[0][1:] == [
        "ada (not signed in)",
        "state",
        "open",
        state,
        "known since the move",
    ]
    press(page, "decide-open", name="bob")
    assert [(item.by, item.new) for item in load_changes(store, alert_id=ID)] == [
        ("ada (not signed in)", state),
        ("bob (not signed in)", "open"),
    ]
    who = [row[1].split()[0] for row in texts_of_rows(page, "changes")]
    assert who == ["bob", "ada"]


def test_reopen_lifts_the_mute_says_so_and_undo_restores_it(
    page: AppTest, store: Store, words: SnapshotAssertion
) -> None:
    press(page, "decide-acknowledged")
    press(page, "decide-mute-3")
    end = load_alert(store, ID).muted_until
    assert end is not None
    press(page, "decide-open")
    alert = load_alert(store, ID)
    assert (str(alert.state), alert.muted_until) == ("open", None)
    assert toast_of(page) == words
    page.button("decide-undo").click()
    page.run()
    assert load_alert(store, ID).muted_until == end


def test_state_that_it_is_in_cannot_be_chosen(page: AppTest) -> None:
    def disabled() -> dict[str, bool]:
        keys = {str(item.key): item.disabled for item in page.button}
        return {key[7:]: value for key, value in keys.items() if key.startswith("decide-")}

    others = ["owner", "mute-1", "mute-3", "mute-7", "mute", "comment"]
    states = ["acknowledged", "expected", "noise"]
    assert disabled() == dict.fromkeys([*states, *others], False)
    press(page, "decide-noise")
    assert disabled() == {
        **dict.fromkeys([*states, "open", *others, "undo"], False),
        "noise": True,
    }


@pytest.mark.parametrize("name", [" ", "judge", " JUDGE", "ju dge", "\uff4audge"])
def test_a_decision_needs_a_name(
    page: AppTest, store: Store, name: str, words: SnapshotAssertion
) -> None:
    press(page, "decide-noise", name=name)
    assert texts_of(page, "notice") == words
    assert load_changes(store) == ()


def test_owner_and_mute_are_saved_and_shown(
    page: AppTest, store: Store, words: SnapshotAssertion
) -> None:
    field(page, "Owner").input("eve")
    press(page, "decide-owner", why="after the release")
    page.date_input[0].set_value(DAY)
    press(page, "decide-mute", why="after the release")
    alert = load_alert(store, ID)
    assert alert.owner == "eve"
    assert alert.muted_until == datetime(DAY.year, DAY.month, DAY.day, tzinfo=timezone.utc)
    assert texts_of(page, "facts") == words
    assert [item.field for item in load_changes(store)] == ["owner", "muted_until"]


def test_the_end_of_a_mute_stays_when_only_the_owner_changes(
    store: Store, open_page: OpenPage
) -> None:
    until = dashboard_stores.NOW + timedelta(days=3)
    store.revise_alerts(set_muted([ID], until), by="ada")
    page = open_page("alerts", alert=ID)
    field(page, "Owner").input("eve")
    press(page, "decide-owner")
    press(page, "decide-mute")
    assert (load_alert(store, ID).owner, load_alert(store, ID).muted_until) == ("eve", until)


def test_mute_that_is_over_is_refused(page: AppTest, store: Store) -> None:
    page.date_input[0].set_value(dashboard_stores.NOW.date())
    press(page, "decide-mute")
    assert "is over" in text_of(page)
    assert load_changes(store) == ()


def test_decision_about_what_changed_meanwhile_is_refused_and_nothing_typed_is_lost(
    page: AppTest, store: Store, words: SnapshotAssertion
) -> None:
    store.revise_alerts(set_state([ID], AlertState.NOISE), by="bob")
    press(page, "decide-expected", why="new heads")
    assert texts_of(page, "notice") == words
    assert load_alert(store, ID).state is AlertState.NOISE
    assert field(page, "Reason or comment").value == "new heads"
    # What it is now has been read, so that it can be decided.
    press(page, "decide-expected", why="new heads")
    assert load_alert(store, ID).state is AlertState.EXPECTED


def test_a_change_while_the_page_is_open_is_shown_until_a_decision(
    page: AppTest, store: Store, words: SnapshotAssertion
) -> None:
    store.revise_alerts(set_owner([ID], "bob"), by="bob")
    page.run()
    notices = texts_of(page, "notice")
    assert notices == words
    assert texts_of(page.run(), "notice") == notices
    press(page, "decide-noise")
    assert texts_of(page, "notice") == words


def test_same_decision_from_two_pages_is_taken_once(
    page: AppTest, store: Store, open_page: OpenPage, words: SnapshotAssertion
) -> None:
    other = open_page("alerts", alert=ID)
    press(page, "decide-noise", why="once")
    press(other, "decide-noise", why="once")
    assert len(load_changes(store, alert_id=ID)) == 1
    assert texts_of(other, "notice") == words


def test_a_comment_is_stored_with_the_decisions(
    page: AppTest, store: Store, words: SnapshotAssertion
) -> None:
    press(page, "decide-comment", why="asked the vendor")
    press(page, "decide-comment", why="")
    assert texts_of(page, "notice") == words
    assert texts_of_rows(page, "changes")[0][2:5] == ["comment", "-", "asked the vendor"]
    assert [item.new for item in load_changes(store, alert_id=ID)] == ["asked the vendor"]
    assert load_alert(store, ID).state is AlertState.OPEN


def test_reason_is_not_that_of_the_next_decision(page: AppTest) -> None:
    press(page, "decide-noise", why="once")
    assert field(page, "Reason or comment").value == ""
    assert field(page, "Your name").value == "ada"


def test_store_that_is_locked_is_reported_and_nothing_is_lost(
    page: AppTest, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    def locked(_store: Store, _decision: Decide, *, by: str) -> None:
        raise StoreLocked(f"process 4711 holds the store, not {by}")

    monkeypatch.setattr(Store, "revise_alerts", locked)
    press(page, "decide-noise", why="typed long")
    assert texts_of(page, "notice") == words
    assert field(page, "Reason or comment").value == "typed long"


def test_names_from_outside_are_shown_as_text(page: AppTest) -> None:
    press(page, "decide-noise", name="<script>alert(1)</script>", why="<b>bold</b>")
    assert "<script>" not in html_of(page)
    assert "<b>bold" not in html_of(page)


def last_name(page: AppTest) -> Any:
    # The form of the floor is the last one of the page.
    return [item for item in page.text_input if item.label == "Your name"][-1]


def test_the_first_decision_of_a_visitor_may_be_a_floor(
    store: Store, open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "rules", lambda: AccessRules(anonymous=Role.ADMIN))
    page = open_page("alerts", alert=ID)
    (least,) = page.number_input
    least.set_value(12.0)
    last_name(page).input("ada")
    page.button("decide-floor").click()
    page.run()
    assert [item.floor for item in load_series_settings(store)] == [0.12]
    assert {item.by for item in load_changes(store)} == {f"ada{UNCHECKED}"}
    assert last_name(page).value == "ada"


@pytest.mark.parametrize(("key", "days"), [("decide-mute-1", 1), ("decide-mute-7", 7)])
def test_a_button_mutes_for_some_days(page: AppTest, store: Store, key: str, days: int) -> None:
    press(page, key)
    end = dashboard_stores.NOW + timedelta(days=days)
    assert load_alert(store, ID).muted_until == end
    page.date_input[0].set_value(None)
    press(page, "decide-mute")
    assert load_alert(store, ID).muted_until is None


@pytest.mark.parametrize("key", ["acknowledged", "expected", "noise", "owner", "mute-3"])
def test_undo_restores_what_was_and_both_are_on_record(
    page: AppTest, store: Store, key: str, words: SnapshotAssertion
) -> None:
    before = load_alert(store, ID)
    field(page, "Owner").input("eve")
    press(page, f"decide-{key}", why="too fast")
    assert load_alert(store, ID) != before
    assert toast_of(page) == words
    page.button("decide-undo").click()
    page.run()
    assert load_alert(store, ID) == before
    assert toast_of(page) == words
    assert "decide-undo" not in {item.key for item in page.button}
    changes = load_changes(store, alert_id=ID)
    assert [item.why for item in changes] == ["too fast", "undo"]
    assert len({item.by for item in changes}) == 1
    # The page knows what Undo did, so it reports no change by another person.
    assert texts_of(page, "notice") == []


def toast_of(page: AppTest) -> str:
    return html_of(page).split('role="status">')[1].split("<")[0]


def test_a_mute_ends_with_a_button_or_without_a_day(
    store: Store, open_page: OpenPage, words: SnapshotAssertion
) -> None:
    until = dashboard_stores.NOW + timedelta(days=400)
    store.revise_alerts(set_muted([ID], until), by="ada")
    page = open_page("alerts", alert=ID)
    assert not page.exception
    (day,) = (item for item in page.date_input if item.label == "Muted until")
    # A field with a default cannot be emptied in a browser, and its calendar begins long ago.
    assert (day.value, list(day.proto.default)) == (until.date(), [])
    assert day.min == dashboard_stores.NOW.date()
    press(page, "decide-unmute")
    assert load_alert(store, ID).muted_until is None
    assert toast_of(page) == words
    assert "decide-unmute" not in {item.key for item in page.button}


def test_a_mute_that_is_over_leaves_the_field_of_its_end_empty(
    store: Store, open_page: OpenPage
) -> None:
    store.revise_alerts(set_muted([ID], dashboard_stores.NOW - timedelta(hours=3)), by="ada")
    page = open_page("alerts", alert=ID)
    assert not page.exception
    assert page.date_input[0].value is None
    assert "decide-unmute" not in {item.key for item in page.button}


def test_each_decision_has_a_toast_that_fades_by_itself(page: AppTest) -> None:
    def keys() -> set[str]:
        return set(re.findall(r"hud-toast-\d", " ".join(ids_of(page.main))))

    press(page, "decide-acknowledged")
    first = keys()
    press(page, "decide-open")
    assert len(first) == len(keys()) == 1
    # The animation of a browser begins anew only under another name.
    assert first != keys()
    rules = dict(re.findall(r"\.st-key-(hud-toast-\d) \{ animation-name: (\S+);", style_sheet()))
    assert set(rules) < first | keys()
    assert "@keyframes hud-fade-0" in style_sheet()
    assert "@keyframes hud-fade-1" in style_sheet()


def test_a_toast_is_not_shown_on_another_page(page: AppTest) -> None:
    press(page, "decide-acknowledged")
    page.session_state["carried-page"] = "alerts"
    view = next(view for view in VIEWS if view.path == "overview")
    other = next(view for view in VIEWS if view.path == "alerts")
    assert "undo-triage" in page.session_state
    with session_of(page):
        assert is_other_page(view)
        assert not is_other_page(other)
        drop_toast()
    assert "decide-undo" not in {item.key for item in page.run().button}


def test_a_second_click_with_the_same_decision_leaves_the_toast(
    page: AppTest, store: Store
) -> None:
    seen = (load_alert(store, ID),)
    press(page, "decide-acknowledged", why="twice")
    text = toast_of(page)
    with session_of(page):
        acknowledge(seen)
    page.run()
    assert toast_of(page) == text
    page.button("decide-undo").click()
    page.run()
    assert load_alert(store, ID).state is AlertState.OPEN
    assert [item.new for item in load_changes(store, alert_id=ID)] == ["acknowledged", "open"]


def test_a_second_click_after_the_decision_of_another_is_refused(
    page: AppTest, store: Store
) -> None:
    seen = (load_alert(store, ID),)
    press(page, "decide-acknowledged")
    store.revise_alerts(set_state([ID], AlertState.NOISE), by="bob")
    with session_of(page):
        acknowledge(seen)
    page.run()
    assert f"alert {ID} changed since it was read" in text_of(page)
    assert load_alert(store, ID).state is AlertState.NOISE


def test_a_reopened_alert_has_no_note_and_is_no_news(page: AppTest, store: Store) -> None:
    press(page, "decide-acknowledged", why="bisecting")
    page.session_state["alerts-seen"] -= {ID}
    press(page, "decide-open")
    assert load_alert(store, ID).note == ""
    assert "new alert" not in text_of(page)
    press(page, "decide-noise")
    assert load_alert(store, ID).note == ""


def test_a_failure_is_expected_only_with_a_reason(
    store: Store, open_page: OpenPage, words: SnapshotAssertion
) -> None:
    failing = make_alert(
        "fails", case=make_case("gpt2", mode="default"), metric="outcome", kind="outcome"
    )
    save_alerts(store, [failing])
    page = open_page("alerts", alert="fails")
    press(page, "decide-expected", why="  ")
    assert load_alert(store, "fails").state is AlertState.OPEN
    assert texts_of(page, "notice") == words
    press(page, "decide-expected", why="the operator was removed")
    assert load_alert(store, "fails").state is AlertState.EXPECTED


def ids_of(block: Any) -> Iterator[str]:
    """Yield the ids of a block and of the blocks in it."""
    yield str(getattr(block.proto, "id", ""))
    for child in getattr(block, "children", {}).values():
        yield from ids_of(child)


@contextmanager
def session_of(page: AppTest) -> Iterator[None]:
    """Run the body with the session state of `page` as that of Streamlit."""
    import streamlit as st

    state = {name: page.session_state[name] for name in SESSION if name in page.session_state}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(st, "session_state", state)
        patch.setattr("compile_hud.app.views.alerts.undo.remembered_name", lambda: "ada")
        yield
    for name in SESSION:
        if name in state:
            page.session_state[name] = state[name]
        elif name in page.session_state:
            del page.session_state[name]


def test_undo_leaves_what_another_person_has_decided_since(page: AppTest, store: Store) -> None:
    press(page, "decide-noise")
    store.revise_alerts(set_state([ID], AlertState.EXPECTED), by="bob")
    page.button("decide-undo").click()
    page.run()
    assert toast_of(page).startswith("Not saved: ")
    assert load_alert(store, ID).state is AlertState.EXPECTED


def test_undo_of_an_expected_level_reopens_the_steps_before_it(page: AppTest, store: Store) -> None:
    alert = load_alert(store, ID)
    at = alert.first_bad.at - timedelta(days=2)
    first = dataclasses.replace(alert.first_bad, run_id="run-earlier", at=at)
    save_alerts(store, [dataclasses.replace(alert, id="earlier", first_bad=first)])
    page.run()
    press(page, "decide-expected")
    assert load_alert(store, "earlier").state is AlertState.EXPECTED
    page.button("decide-undo").click()
    page.run()
    assert [load_alert(store, id).state for id in (ID, "earlier")] == [AlertState.OPEN] * 2


def test_the_toast_is_gone_after_half_a_minute(
    page: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    press(page, "decide-noise")
    monkeypatch.setattr(clock, "now", lambda: dashboard_stores.NOW + timedelta(seconds=31))
    assert "decide-undo" not in {item.key for item in page.run().button}


def test_a_decision_that_changes_nothing_has_no_undo(page: AppTest, store: Store) -> None:
    press(page, "decide-owner")
    assert "decide-undo" not in {item.key for item in page.button}
    assert load_changes(store) == ()


def test_a_name_is_remembered_by_other_forms_and_by_the_browser(
    page: AppTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    press(page, "decide-noise", name="ada lovelace")
    assert author.remembered_name() == ""
    context = SimpleNamespace(cookies={"hud_name": "ada%20lovelace%0A" + "x" * 90})
    monkeypatch.setattr(author.st, "context", context)
    assert author.remembered_name().startswith("ada lovelace x")
    assert len(author.remembered_name()) == 40
