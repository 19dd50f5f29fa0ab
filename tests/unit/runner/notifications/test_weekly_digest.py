"""The digest of a week: what is open, what was fixed, which series are noise."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from syrupy.assertion import SnapshotAssertion

from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.triage import AlertChange, ChangedField
from compile_hud.runner.notifications.dispatcher import Item, Message
from compile_hud.runner.notifications.message_text import render_message
from compile_hud.runner.notifications.receivers.webhook import envelope
from compile_hud.runner.notifications.weekly_digest import (
    MAX_SHOWN,
    WeeklyDigest,
    fixed_between,
    make_weekly,
    relevant_alerts,
    weekly_notification,
)
from tests.support.builders import START, make_alert, make_case, make_run_ref

WEEK = timedelta(days=7)


def alert(id: str, *, days: int = 0, model: str = "bert", **fields: object) -> Alert:
    run_ref = replace(make_run_ref(), at=START - timedelta(days=days))
    made = make_alert(id, case=make_case(model), first_bad=run_ref)
    return replace(made, **fields)  # type: ignore[arg-type]


def digest(*alerts: Alert, fixed: tuple[str, ...] = ()) -> WeeklyDigest:
    return make_weekly(
        alerts, fixed_ids=fixed, since=START - WEEK, until=START, url="http://hud/alerts"
    )


def test_a_digest_needs_no_alert_that_is_long_over() -> None:
    alerts = [
        alert("open"),
        alert("fixed", state=AlertState.FIXED),
        alert("over", state=AlertState.FIXED, model="vit"),
        alert("noise", state=AlertState.NOISE, model="gpt"),
        alert("counted", state=AlertState.FIXED, model="gpt"),
    ]
    relevant = relevant_alerts(alerts, fixed_ids=["fixed"])
    assert [item.id for item in relevant] == ["open", "fixed", "noise", "counted"]


def test_what_is_open_comes_oldest_first_with_its_age_and_who_looks_after_it() -> None:
    lines = digest(
        alert("a", days=2),
        alert("b", days=30, model="gpt", state=AlertState.ACKNOWLEDGED, owner="eva"),
        alert("c", days=40, state=AlertState.EXPECTED),
    ).lines()
    assert lines[0] == "open: 2"
    assert lines[1].startswith("30 days: gpt/")
    assert lines[1].endswith("latency +20.0 %, acknowledged, eva")
    assert lines[2].startswith("2 days: bert/")


def test_a_change_from_zero_has_its_levels() -> None:
    from_zero = alert("a", metric="errors", unit="1", baseline=0.0, candidate=3.0, change_pct=None)
    assert digest(from_zero).lines()[1].partition(", open")[0].endswith("errors 0 -> 3")


def test_muted_and_refuted_alerts_are_left_out() -> None:
    muted = alert("a", muted_until=START + WEEK)
    refuted = alert("b", is_confirmed=False)
    assert digest(muted, refuted).open == ()


def test_what_was_fixed_and_broke_again_is_open() -> None:
    digest_content = digest(
        alert("a", state=AlertState.FIXED),
        alert("b", state=AlertState.FIXED),
        alert("c"),
        fixed=("a", "c"),
    )
    assert [item.id for item in digest_content.fixed] == ["a"]
    assert [item.id for item in digest_content.open] == ["c"]


def test_only_changes_of_that_week_count() -> None:
    def change(id: str, at: datetime, new: str = "fixed") -> AlertChange:
        return AlertChange(
            id=f"{id} {at}",
            alert_id=id,
            pattern="",
            at=at,
            by="judge",
            field=ChangedField.STATE,
            old="open",
            new=new,
        )

    changes = [
        change("old", START - WEEK),
        change("new", START),
        change("later", START + timedelta(seconds=1)),
        change("noise", START, new="noise"),
    ]
    assert fixed_between(changes, since=START - WEEK, until=START) == {"new"}


def test_the_noisiest_series_come_first() -> None:
    noise = AlertState.NOISE
    digest_content = digest(
        alert("a", state=noise),
        alert("b"),
        alert("c", model="gpt", state=noise),
        alert("d", model="vit"),
    ).noise
    assert [
        (item.series.partition("/")[0], item.num_noise, item.num_alerts) for item in digest_content
    ] == [
        ("gpt", 1, 1),
        ("bert", 1, 2),
    ]


def test_the_share_of_noise_is_a_sentence_for_one_alert_and_for_many(
    words: SnapshotAssertion,
) -> None:
    noisy = alert("a", state=AlertState.NOISE)
    assert [digest(noisy).lines()[-1], digest(noisy, alert("b")).lines()[-1]] == words


def test_an_empty_week_says_so() -> None:
    assert digest().lines() == ["open: nothing", "fixed: nothing", "noisy series: nothing"]


def test_long_lists_are_cut_and_counted() -> None:
    lines = digest(*(alert(str(number)) for number in range(MAX_SHOWN + 5))).lines()
    assert lines[0] == f"open: {MAX_SHOWN + 5}"
    assert lines[MAX_SHOWN + 1] == "and 5 more"


def test_a_week_has_one_id_however_its_time_is_moved() -> None:
    monday, friday = START.replace(day=5), START.replace(day=9)
    ids = {weekly_notification("ops", due=due, at=START).id for due in (monday, friday)}
    assert len(ids) == 1
    assert weekly_notification("ops", due=monday + WEEK, at=START).id not in ids
    assert weekly_notification("team", due=monday, at=START).id not in ids


def test_words_and_webhooks_carry_the_digest(words: SnapshotAssertion) -> None:
    notification = weekly_notification("ops", due=START, at=START)
    digest_item = Item(
        notification=notification, alerts=(), num_alerts=0, weekly=digest(alert("a"))
    )
    message = Message(id="msg_1", at=START, items=(digest_item,))
    (paragraph,) = render_message(message).sections
    assert paragraph.title == words
    assert paragraph.lines[0] == "open: 1"
    assert paragraph.url == "http://hud/alerts"
    document = envelope(message)
    assert document["type"] == "alerts.weekly"
    assert document["data"]["notifications"][0]["weekly"] == {
        "since": "2025-12-25T02:30:00+00:00",
        "until": "2026-01-01T02:30:00+00:00",
        "open": ["a"],
        "fixed": [],
        "noise": [],
        "url": "http://hud/alerts",
    }
