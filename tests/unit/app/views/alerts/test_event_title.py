"""Titles of events: the subject and the change first, the rest as chips."""

from __future__ import annotations

import re

import pytest
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.views.alerts.event_title import EventTitle, distinct_titles, event_title
from compile_hud.db.records.alerts import Alert, Event, EventKind, began
from tests.support.builders import make_alert, make_case

SWIN = make_case("swin", mode="reduce-overhead", shape="full", device="cuda")
SLOWER = "slower by 7.5 to 8.6 %"
UNCAUSED = "(not by the revision)"


def title(alerts: list[Alert], what: str = "", *, who: str = "", more: str = "") -> EventTitle:
    """Return the title of alerts, whose event has one as the judge writes it, if any."""
    first = alerts[0]
    since = f"since {began(first).revision}{more} ({first.toolchain} on {first.machine})"
    stored = f"{who or first.case.key}: {what} {since}"
    event = Event(id="e", kind=EventKind.CASE, title=stored, size=len(alerts)) if what else None
    return event_title(event, alerts, onset=first)


@pytest.mark.parametrize(
    ("word", "amount"),
    [
        ("slower", "7.1 %"),
        ("faster", "7.1 to 9.0 %"),
        ("more memory", "12.0 %"),
        ("slower to compile", "31.5 %"),
        ("slower", "8.3 %"),
    ],
)
def test_the_amount_comes_first(word: str, amount: str) -> None:
    alert = make_alert(case=SWIN, kind="outcome")
    shown = title([alert], f"{word} by {amount}")
    assert shown.text == f"swin / reduce-overhead: {amount} {word}"
    assert shown.case == ("inference", "full", "fp32", "cuda")
    assert shown.scope == (f"since {alert.first_bad.revision}", "stable", "box")


def test_a_drift_is_named_behind_its_amount() -> None:
    shown = title([make_alert(case=SWIN, kind="drift")], "slower by 8.3 % (drift)")
    assert shown.text == "swin / reduce-overhead: 20.0 % slower (drift)"


def test_titles_of_an_equal_subject_name_the_facts_that_differ() -> None:
    here, there = make_alert(case=SWIN), make_alert(case=SWIN, machine="lab")
    alone = make_alert(case=make_case("swin"))
    training = make_alert(case=make_case("swin", phase="training"), machine="lab")
    titles = [title([alert]) for alert in (here, there, alone, training)]
    facts = [re.findall(r"[(](.+)[)]: ", text) for text in distinct_titles(titles)]
    assert facts == [["box"], ["lab"], ["inference, box"], ["training, lab"]]
    assert distinct_titles(titles[1:3]) == [item.text for item in titles[1:3]]


@pytest.mark.parametrize("change", ["failing", "missing or overdue", "regression of graph breaks"])
def test_other_changes_are_as_they_were(change: str) -> None:
    shown = title([make_alert(case=SWIN, kind="outcome")], change)
    assert shown.text.endswith(f": {change}")


def test_of_one_case_the_latency_counts(words: SnapshotAssertion) -> None:
    alerts = [
        make_alert("a", case=SWIN, metric="speedup", change_pct=-7.0),
        make_alert("b", case=SWIN, change_pct=8.6),
    ]
    assert title(alerts, SLOWER).text == words
    other = make_alert("c", case=make_case("swin"), change_pct=9.9)
    several = title([*alerts, other], SLOWER, who="2 of 9 cases of swin")
    assert (several.text, several.case) == (words, ())


def test_an_event_that_the_revision_did_not_cause_has_a_chip(words: SnapshotAssertion) -> None:
    shown = title([make_alert()], SLOWER, who="3 of 20 cases", more=f" {UNCAUSED}")
    assert shown.scope == words
    assert shown.text == words


def test_reference_cases_of_an_event_are_a_chip() -> None:
    copying = make_case("copy", family="reference", mode="eager")
    alerts = [make_alert(id, case=case) for id, case in (("a", SWIN), ("b", copying))]
    who, references = "2 of 9 cases of swin", " and 1 reference case"
    shown = title(alerts, SLOWER, who=who + references)
    assert shown.subject == who
    assert shown.scope[0] == references.strip()
    named = make_alert(case=make_case(f"swin{references}s"), kind="outcome")
    assert title([named], "failing").subject.startswith(f"swin{references}s")


@pytest.mark.parametrize(
    "alert",
    [
        make_alert(change_pct=20.0),
        make_alert(change_pct=-12.5, verdict="improvement"),
        make_alert(metric="speedup", unit="x", change_pct=-7.5),
        make_alert(kind="outcome", change_pct=None),
    ],
    ids=["slower", "faster", "speedup", "failure"],
)
def test_a_single_alert_has_a_title_of_the_same_form(
    alert: Alert, words: SnapshotAssertion
) -> None:
    assert title([alert]).text == words


def test_a_model_may_have_any_name() -> None:
    name = "a: b since c"
    alert = make_alert(case=make_case(name), kind="outcome")
    assert title([alert], "failing").text.startswith(f"{name} / default: ")
