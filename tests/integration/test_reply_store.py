"""What is kept of replies, on every kind of store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from db.errors import HeldByPattern
from db.messages import SentMessage, forget_message, put_message
from db.notification_rows import put_notifications
from db.queries import load_alerts, load_changes
from db.records import Alert, AlertState
from db.replies import (
    KeptReply,
    Ruling,
    Thread,
    load_bound,
    load_known_replies,
    load_threads,
    load_unanswered,
    load_watched,
    note_reply,
    put_answer,
    put_threads,
    take_reply,
)
from db.store import Store
from db.triage import Revision
from tests.builders import START, make_alert, make_case, make_notification
from tests.stored import save_alerts

MESSAGE = SentMessage(
    receiver="team",
    reference="C1 1.2",
    notification_ids=("msg_1", "msg_2"),
    told={"a": "open", "b": "open"},
    sent_at=START,
    number=4,
)
REPLY = KeptReply(id="1", thread="C1 1.2", by="ann (team reply)", at=START, text="ack seen")
ALERTS = [make_alert(name, case=make_case(name)) for name in "ab"]
MINUTE = timedelta(minutes=1)


def put(store: Store, *messages: SentMessage) -> None:
    told = [
        make_notification(f"msg_{number}", receiver="team", subject=f"e{number}", alert_ids=[name])
        for number, name in enumerate("ab", 1)
    ]
    with store.write() as session:
        put_notifications(session, told)
        for message in messages:
            put_message(session, message)


def acknowledge(alerts: Sequence[Alert], newest: Mapping[str, int]) -> Ruling:
    del newest
    revised = tuple(replace(item, state=AlertState.ACKNOWLEDGED) for item in alerts)
    return Ruling(revisions=tuple(Revision(alert=item, why="seen") for item in revised))


def numbers(store: Store, *, minutes: int = 0, **of: str) -> list[Mapping[str, int]]:
    at = START + minutes * MINUTE
    return [item.numbers for item in load_bound(store, "team", at=at, **of)]


def test_a_reply_is_bound_to_what_its_message_showed_when_it_was_written(store: Store) -> None:
    here = {"reference": "C1 1.2"}
    # What was sent by an older release: nobody knows what it showed.
    put(store, replace(MESSAGE, number=None))
    assert numbers(store, **here) == [{"a": -1}, {"b": -1}]
    put(store, MESSAGE, replace(MESSAGE, number=9, shown_at=START + 10 * MINUTE))
    for minutes, number in ((-5, 4), (5, 4), (10, 9), (60, 9)):
        assert numbers(store, minutes=minutes, **here) == [{"a": number}, {"b": number}]
    # Messages about one event are one, and the newest of them counts.
    put(store, replace(MESSAGE, reference="C1 1.3", number=7, sent_at=START + MINUTE))
    assert numbers(store, minutes=1, subject="e1") == [{"a": 7}]
    assert numbers(store, minutes=1, subject="another") == [{}]
    with store.write() as session:
        forget_message(session, MESSAGE)
    assert numbers(store, **here) == []
    put(store, replace(MESSAGE, number=None))
    assert numbers(store, **here) == [{"a": -1}, {"b": -1}]


def test_a_reply_counts_once_and_with_what_it_decides_or_not_at_all(store: Store) -> None:
    found: list[Mapping[str, int]] = []

    def fail(*_: object) -> Ruling:
        raise HeldByPattern("held")

    def own(alerts: Sequence[Alert], newest: Mapping[str, int]) -> Ruling:
        found.append(newest)
        return Ruling(revisions=tuple(Revision(alert=replace(a, owner="ann")) for a in alerts))

    save_alerts(store, ALERTS)
    with pytest.raises(HeldByPattern):
        take_reply(store, "team", REPLY, rule=fail, at=START)
    said = [take_reply(store, "team", REPLY, rule=acknowledge, at=START) for _ in range(2)]
    assert said == ["", None]
    assert {alert.state for alert in load_alerts(store)} == {AlertState.ACKNOWLEDGED}
    assert [(item.by, item.why) for item in load_changes(store)] == [
        ("ann (team reply)", "seen")
    ] * 2
    assert not note_reply(store, "team", REPLY)
    assert note_reply(store, "ops", REPLY)
    assert load_known_replies(store, "team", ["1", "2"]) == {"1"}
    # Changes of something else than states are none that a reply must have known, nor are those of
    # replies of before in its thread.
    for number, (thread, minutes) in enumerate((("t", 0), ("t", 0), ("C1 1.2", -1)), 2):
        at = START + minutes * MINUTE
        other = replace(REPLY, id=str(number), thread=thread, at=at)
        take_reply(store, "team", other, rule=own, at=START)
        assert found[-1] == {"a": 1, "b": 2}
    take_reply(store, "team", replace(REPLY, id="5"), rule=own, at=START)
    assert found[-1] == {}


def test_what_is_read_again_when_and_what_is_still_to_be_said(store: Store) -> None:
    for id, answer in (("1", ""), ("2", "no\0"), ("3", "never")):
        note_reply(store, "team", replace(REPLY, id=id, answer=answer))
    assert [item.id for item in load_unanswered(store, "team", limit=5)] == ["2", "3"]
    put_answer(store, "team", "2", answer="")
    assert load_unanswered(store, "team", limit=5) == (replace(REPLY, id="3", answer="never"),)
    threads = [Thread(name=name, since=START, due_at=START) for name in ("", "t1", "t2")]
    put_threads(store, "team", threads)
    later = replace(threads[1], position="1.5", tag='"x"', due_at=START + MINUTE, num_failures=2)
    put_threads(store, "team", [later], gone=["t2"])
    assert load_threads(store, "team") == {"": threads[0], "t1": later}
    assert load_threads(store, "ops") == {}
    # Messages are watched while something that they tell of is not fixed.
    save_alerts(store, [ALERTS[0], replace(ALERTS[1], state=AlertState.FIXED)])
    over = replace(MESSAGE, reference="C1 1.3", told={"b": "fixed"})
    put(store, MESSAGE, over, replace(MESSAGE, reference="C1 1.1", sent_at=START - MINUTE))
    assert load_watched(store, "team", since=START) == {"C1 1.2": START}
    assert list(load_watched(store, "team", since=START - MINUTE)) == ["C1 1.2", "C1 1.1"]
