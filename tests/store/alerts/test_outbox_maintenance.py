"""Old notifications lose their text and are not sent again; receivers report their state."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from compile_hud.db.alerts.outbox import (
    MAX_LOOKED_AT,
    load_outbox,
    receivers_to_serve,
    revise_queue,
)
from compile_hud.db.alerts.outbox_maintenance import (
    ReceiverState,
    find_old_notifications,
    forget_notifications,
    load_newest_tests,
    load_receiver_states,
    put_missing,
)
from compile_hud.db.records.alerts import AlertState
from compile_hud.db.records.notifications import (
    Notification,
    NotificationState,
    Queue,
    ReceiverHealth,
    make_receiver_test,
)
from compile_hud.db.rows.mapping import put_notifications
from compile_hud.db.store import Store
from tests.support.builders import START, make_alert, make_notification
from tests.support.stores.stored_results import save_alerts

LATER = START + timedelta(days=90)


def fill(store: Store, *notifications: Notification) -> None:
    with store.write() as connection:
        put_notifications(connection, notifications)


def sent(id: str, **fields: object) -> Notification:
    item = make_notification(id, **fields)  # type: ignore[arg-type]
    return replace(item, state=NotificationState.SENT, last_error="did not reach b@x.org")


def test_only_what_is_old_and_over_is_forgotten(store: Store) -> None:
    save_alerts(store, [make_alert("open"), make_alert("over", state=AlertState.FIXED)])
    fill(
        store,
        sent("old", alert_ids=["over", "gone"]),
        sent("open", alert_ids=["over", "open"]),
        sent("new", created_at=LATER),
        replace(make_notification("dropped"), state=NotificationState.DROPPED),
        replace(make_notification("dead"), state=NotificationState.DEAD),
        make_notification("waits"),
    )
    ids = find_old_notifications(store, before=LATER)
    assert ids == ["old"]
    forget_notifications(store, ids)
    assert find_old_notifications(store, before=LATER) == []
    old = next(item for item in load_outbox(store) if item.id == "old")
    assert (old.title, old.alert_ids, old.last_error) == ("", (), "")
    assert len(load_outbox(store)) == 6


def test_what_is_forgotten_is_not_reported_again(store: Store) -> None:
    fill(store, sent("old"))
    forget_notifications(store, ["old"])
    version = store.store_version()
    put_missing(store, [make_notification("old")])
    assert store.store_version() == version
    fill(store, make_notification("old"))
    assert [str(item.state) for item in load_outbox(store)] == ["sent"]


def test_receivers_say_how_they_do(store: Store) -> None:
    attempt_at = START + timedelta(hours=1)
    dead = replace(
        make_notification("dead", receiver="team"),
        state=NotificationState.DEAD,
        attempted_at=attempt_at,
        last_error="410 Gone",
    )
    earlier = replace(
        make_notification("early", receiver="team"),
        state=NotificationState.FAILED,
        attempted_at=START,
        last_error="500 Internal Server Error",
    )
    waits = make_notification("waits", receiver="team", created_at=attempt_at)
    fill(store, dead, earlier, waits, replace(sent("sent"), attempted_at=attempt_at))

    def rest(queue: Queue) -> Queue:
        health = ReceiverHealth(receiver="team", num_failures=3, held_until=attempt_at)
        return replace(queue, health=health)

    revise_queue(store, "team", rest)
    assert load_receiver_states(store) == (
        ReceiverState(receiver="ops", num_sent=1, last_sent_at=attempt_at),
        ReceiverState(
            receiver="team",
            num_waiting=2,
            num_dead=1,
            oldest_waiting_at=START,
            num_failures=3,
            held_until=attempt_at,
            last_error="410 Gone",
        ),
    )


def test_an_empty_outbox_has_no_receivers(store: Store) -> None:
    assert load_receiver_states(store) == ()


def test_the_newest_test_message_of_each_receiver_is_returned(store: Store) -> None:
    assert load_newest_tests(store) == {}
    put_missing(
        store,
        [
            make_receiver_test("chat", at=START),
            make_notification("msg_9", receiver="mail"),
            make_receiver_test("ops", at=START),
            make_receiver_test("chat", at=LATER),
        ],
    )
    tests = load_newest_tests(store)
    assert {name: item.created_at for name, item in tests.items()} == {"chat": LATER, "ops": START}


def test_a_test_message_is_served_in_a_pause_and_behind_a_long_queue(store: Store) -> None:
    waiting = [make_notification(f"n{number:03}") for number in range(MAX_LOOKED_AT + 5)]
    fill(store, *waiting)
    paused = ReceiverHealth(receiver="ops", num_failures=3, held_until=LATER)
    revise_queue(store, "ops", lambda queue: replace(queue, health=paused))
    assert receivers_to_serve(store, at=START) == set()
    test = make_receiver_test("ops", at=START)
    put_missing(store, [test])
    assert receivers_to_serve(store, at=START) == {"ops"}
    queues: list[Queue] = []

    def look(queue: Queue) -> Queue:
        queues.append(queue)
        return queue

    revise_queue(store, "ops", look, looks_first=True)
    assert [item.id for item in queues[0].waiting].count(test.id) == 1
    assert len(queues[0].waiting) == MAX_LOOKED_AT + 1
