"""Records of messages that can be changed, on every kind of store."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from compile_hud.db.alerts.sent_messages import (
    SentMessage,
    forget_message,
    load_outdated,
    load_reported,
    put_message,
)
from compile_hud.db.records.alerts import AlertState
from compile_hud.db.store import Store
from tests.support.builders import START, make_alert, make_case
from tests.support.stores.stored_results import save_alerts

MESSAGE = SentMessage(
    receiver="team",
    reference="C1 1.2",
    notification_ids=("msg_1", "msg_2"),
    reported_states={"a": "open", "b": "open"},
    sent_at=START,
)
ALERTS = [make_alert(name, case=make_case(name)) for name in "ab"]


def put(store: Store, *messages: SentMessage) -> None:
    with store.write() as connection:
        for message in messages:
            put_message(connection, message)


def outdated(store: Store, *, receivers: tuple[str, ...] = ("team",)) -> list[str]:
    return [item.reference for item in load_outdated(store, receivers=receivers, at=START)]


def test_a_message_is_outdated_as_long_as_it_says_what_is_not_so(store: Store) -> None:
    other = replace(MESSAGE, reference="C1 1.3", reported_states={"b": "open"})
    elsewhere = replace(MESSAGE, receiver="ops")
    save_alerts(store, ALERTS)
    put(store, MESSAGE, other, elsewhere)
    assert outdated(store) == []
    fixed = replace(ALERTS[0], state=AlertState.FIXED)
    save_alerts(store, [fixed])
    (message,) = load_outdated(store, receivers=["team"], at=START)
    assert message == replace(MESSAGE, reported_states={})
    put(store, replace(message, reported_states={"a": "fixed", "b": "open"}))
    assert outdated(store) == []
    assert outdated(store, receivers=("ops", "nobody")) == ["C1 1.2"]
    assert load_reported(store, receiver="team", states={"a": "fixed", "b": "fixed"}) == {"a"}
    assert load_reported(store, receiver="ops", states={"a": "fixed"}) == set()


def test_an_update_that_failed_waits_and_forgets_nothing_that_was_reported(store: Store) -> None:
    save_alerts(store, [replace(ALERTS[0], state=AlertState.FIXED), ALERTS[1]])
    put(store, MESSAGE)
    (message,) = load_outdated(store, receivers=["team"], at=START)
    later = START + timedelta(seconds=60)
    put(store, replace(message, num_failures=1, due_at=later))
    assert outdated(store) == []
    (again,) = load_outdated(store, receivers=["team"], at=later)
    assert (again.num_failures, again.due_at) == (1, later)


def test_what_is_forgotten_is_never_outdated(store: Store) -> None:
    save_alerts(store, [replace(ALERTS[0], state=AlertState.FIXED)])
    put(store, MESSAGE, replace(MESSAGE, receiver="ops"))
    with store.write() as connection:
        forget_message(connection, MESSAGE)
    assert outdated(store, receivers=("team", "ops")) == ["C1 1.2"]
    assert load_reported(store, receiver="team", states={"a": "open"}) == set()


def test_of_an_alert_that_is_gone_no_message_is_outdated(store: Store) -> None:
    put(store, MESSAGE)
    assert outdated(store) == []
