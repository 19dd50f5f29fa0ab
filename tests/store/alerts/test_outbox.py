"""Notifications are written with their alerts and sent at least once, in order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from compile_hud.db.alerts.outbox import (
    count_outbox,
    load_outbox,
    receivers_to_serve,
    release,
    resend,
    revise_queue,
)
from compile_hud.db.queries.alerts import load_alerts
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.notifications import Notification, NotificationState, Queue, Severity
from compile_hud.db.records.triage import JUDGE, Revision
from compile_hud.db.rows.mapping import put_notifications
from compile_hud.db.store import Store
from compile_hud.runner.analysis.confirmation.confirmation import Confirmed
from compile_hud.runner.detection.detect import detect
from compile_hud.runner.notifications.delivery_policy import Policy, Response, ResponseKind
from compile_hud.runner.notifications.dispatcher import (
    DEFECT,
    PASS_S,
    SLOW_RECEIVER,
    UNKNOWN,
    Dispatcher,
    Item,
    Message,
)
from compile_hud.runner.notifications.routes import Route
from compile_hud.runner.notifications.routing import NotificationPlanner
from tests.store.detection.test_detect import nights, put
from tests.support.builders import START, make_alert, make_notification
from tests.support.fakes import FakeClock, FakeReceiver

SENT = Response(kind=ResponseKind.SENT)
DOWN = Response(kind=ResponseKind.FAILED, text="connection refused", is_down=True)
ERROR = Response(kind=ResponseKind.FAILED, text="500 Internal Server Error")
SILENT = Response(kind=ResponseKind.FAILED, text="timed out", is_certain=False)
# Everything on its own.
SINGLY = Policy(digest_above=99)
STEP = [2.0] * 12 + [1.4] * 4


def fill(store: Store, *notifications: Notification) -> None:
    with store.write() as connection:
        put_notifications(connection, notifications)


def states(store: Store) -> list[str]:
    return [str(item.state) for item in load_outbox(store)]


def alert_ids_sent(receiver: FakeReceiver) -> list[list[str]]:
    return [[item.notification.id for item in message.items] for message in receiver.messages]


def plain(notifications: Sequence[Notification]) -> list[Item]:
    return [Item(notification=item, alerts=(), num_alerts=0) for item in notifications]


def dispatcher(
    store: Store, now: FakeClock, *, policy: Policy | None = None, **receivers: FakeReceiver
) -> Dispatcher:
    return Dispatcher(
        store=store,
        receivers=receivers,
        build_messages=plain,
        now=now,
        jitter=lambda limit_s: limit_s,
        policy=policy or Policy(),
    )  # fmt: skip


def test_what_is_severe_is_seen_however_many_wait_before_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("compile_hud.db.alerts.outbox.MAX_LOOKED_AT", 2)
    waiting = [make_notification(f"n{number}") for number in range(6)]
    waiting[3] = replace(waiting[3], subject="shared")
    waiting[4] = replace(waiting[4], subject="shared", severity=Severity.SEVERE)
    fill(store, *waiting)
    sent = FakeReceiver()
    dispatcher(store, FakeClock(), policy=SINGLY, ops=sent).dispatch()
    assert alert_ids_sent(sent) == [["n3"], ["n4"], ["n0"], ["n1"], ["n2"], ["n5"]]


def test_what_waits_for_a_receiver_that_is_no_more_is_reported_and_stays(store: Store) -> None:
    fill(store, make_notification("a", receiver="old"), make_notification("b"))
    now, sent = FakeClock(), FakeReceiver()
    report = dispatcher(store, now, ops=sent).dispatch()
    assert (alert_ids_sent(sent), report.num_sent, dict(report.errors)) == (
        [["b"]],
        1,
        {"old": UNKNOWN},
    )
    dispatcher(store, now, old=sent).dispatch()
    assert alert_ids_sent(sent) == [["b"], ["a"]]


def test_a_notification_survives_the_store(store: Store) -> None:
    item = replace(make_notification(), title="a \x1b[31m title\n", alert_ids=("a", "b"))
    fill(store, item)
    assert load_outbox(store) == (replace(item, title="a ?[31m title"),)
    assert count_outbox(store) == {("ops", NotificationState.PENDING): 1}
    assert load_outbox(store, states=[NotificationState.DEAD]) == ()


def test_a_key_is_there_once_and_its_first_position_counts(store: Store) -> None:
    fill(store, make_notification("b"), make_notification("a"))
    fill(store, make_notification("a"), make_notification("c"))
    assert [(item.id, item.number) for item in load_outbox(store)] == [("b", 1), ("a", 2), ("c", 3)]


def test_a_dropped_change_is_notified_when_it_recurs(store: Store) -> None:
    fill(store, make_notification("a"))
    revise_queue(store, "ops", lambda queue: _with_state(queue, NotificationState.DROPPED))
    assert states(store) == ["dropped"]
    fill(store, make_notification("a"))
    assert states(store) == ["pending"]


def _with_state(queue: Queue, state: NotificationState) -> Queue:
    return replace(queue, waiting=tuple(replace(item, state=state) for item in queue.waiting))


def test_alert_and_notification_are_saved_together_or_not_at_all(store: Store) -> None:
    planner = NotificationPlanner(routes=[Route(name="all", receivers=("ops",))], now=lambda: START)
    confirmed = Confirmed((Revision(alert=make_alert()),))

    def tell(before: Sequence[Alert], decided: Confirmed) -> Sequence[Notification]:
        return planner.notifications(before, decided.revisions, events={})

    def fail(before: Sequence[Alert], decided: Confirmed) -> Sequence[Notification]:
        tell(before, decided)
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        store.revise_alerts(lambda _: confirmed, by=JUDGE, tell=fail)
    assert (load_alerts(store), load_outbox(store)) == ((), ())
    store.revise_alerts(lambda _: confirmed, by=JUDGE, tell=tell)
    assert [alert.id for alert in load_alerts(store)] == ["alert-1"]
    assert [item.alert_ids for item in load_outbox(store)] == [("alert-1",)]


def test_judging_a_step_tells_of_it_once_and_of_its_end(store: Store, now: FakeClock) -> None:
    planner = NotificationPlanner(routes=[Route(name="all", receivers=("ops",))], now=now)
    put(store, nights(STEP))
    detect(store, planner=planner)
    detect(store, planner=planner)
    (opened,) = load_outbox(store)
    assert (opened.kind, opened.receiver, opened.severity) == ("opened", "ops", "severe")
    put(store, nights([2.0] * 4, first=len(STEP)))
    detect(store, planner=planner)
    assert [str(item.kind) for item in load_outbox(store)] == ["opened", "fixed"]


def test_detection_without_routes_notifies_no_receiver(store: Store) -> None:
    put(store, nights(STEP))
    assert len(detect(store).new) == 1
    assert load_outbox(store) == ()


def test_what_is_leased_goes_when_its_process_releases_it(store: Store) -> None:
    later = START + timedelta(hours=6)
    notification = replace(make_notification("held", due_at=later), holder="me")
    fill(store, notification, replace(notification, id="other", holder="other"))
    assert receivers_to_serve(store, at=START) == set()
    release(store, holder="me", at=START)
    assert receivers_to_serve(store, at=START) == {"ops"}
    assert [item.due_at for item in load_outbox(store)] == [START, later]
    before = store.store_version()
    release(store, holder="me", at=START)
    assert store.store_version() == before


def test_everything_due_is_sent_in_order_and_once(store: Store, now: FakeClock) -> None:
    fill(store, *(make_notification(f"n{number}") for number in range(3)))
    ops = FakeReceiver()
    report = dispatcher(store, now, policy=SINGLY, ops=ops).dispatch()
    assert (report.num_sent, report.num_failed) == (3, 0)
    assert ops.keys() == ["n0", "n1", "n2"]
    assert states(store) == ["sent"] * 3
    before = store.store_version()
    dispatcher(store, now, ops=ops).dispatch()
    assert (len(ops.messages), store.store_version()) == (3, before)


def test_one_receiver_that_is_down_does_not_keep_another_waiting(
    store: Store, now: FakeClock
) -> None:
    fill(store, make_notification("a"), make_notification("b", receiver="dev"))
    ops, dev = FakeReceiver([DOWN]), FakeReceiver()
    report = dispatcher(store, now, ops=ops, dev=dev).dispatch()
    assert (report.num_sent, report.num_failed) == (1, 1)
    assert report.errors == {"ops": "connection refused"}
    assert states(store) == ["failed", "sent"]


@pytest.mark.parametrize(
    ("limit_s", "num_sent", "errors"), [(PASS_S, 2, {"ops": SLOW_RECEIVER}), (math.inf, 5, {})]
)
def test_a_receiver_that_answers_slowly_ends_its_pass(
    limit_s: float, num_sent: int, errors: dict[str, str]
) -> None:
    store, now = Store("duckdb:///:memory:"), FakeClock()
    fill(store, *(make_notification(f"n{number}") for number in range(5)))

    class Slow(FakeReceiver):
        def send(self, message: Message) -> Response:
            now.advance(PASS_S / 2)
            return super().send(message)

    slow = Slow()
    sender = replace(dispatcher(store, now, policy=SINGLY, ops=slow), limit_s=limit_s)
    report = sender.dispatch()
    assert (report.num_sent, report.errors) == (num_sent, errors)
    while NotificationState.PENDING in states(store):
        sender.dispatch()
    assert slow.keys() == [f"n{number}" for number in range(5)]


def test_a_receiver_dead_for_three_days_gets_one_digest_in_order() -> None:
    store, now = Store("duckdb:///:memory:"), FakeClock()
    ops = FakeReceiver([DOWN] * 10_000)
    sender = dispatcher(store, now, ops=ops)
    names = [f"n{number:02}" for number in range(12)]
    for name in names:
        fill(store, make_notification(name, alert_ids=["the same alert"]))
        sender.dispatch()
        now.advance(6 * 3600)
    assert set(states(store)) == {"failed"}
    ops.answers, ops.messages = [], []
    sender.dispatch()
    (digest,) = ops.messages
    assert [item.notification.id for item in digest.items] == names
    assert set(states(store)) == {"sent"}


@pytest.mark.parametrize("response", [ERROR, SILENT], ids=["error", "silent"])
def test_three_dead_days_end_in_digests_with_what_is_severe_ahead(response: Response) -> None:
    store, now = Store("duckdb:///:memory:"), FakeClock()
    ops = FakeReceiver([response] * 10_000)
    sender = dispatcher(store, now, ops=ops)
    notifications: list[Notification] = []
    for number in range(24):
        # Four about each of six alerts; two of these get severe.
        about = number % 6
        is_severe = number >= 18 and about in (2, 4)
        notifications.append(
            make_notification(
                f"n{number:02}",
                subject=f"event {about}",
                alert_ids=[f"alert {about}"],
                severity="severe" if is_severe else "minor",
            )
        )
        fill(store, notifications[-1])
        sender.dispatch()
        now.advance(3 * 3600)
    assert NotificationState.DEAD not in states(store)
    ops.answers, ops.messages = [], []
    sender.dispatch()
    now.advance(8 * 3600)
    sender.dispatch()
    order = [id for ids in alert_ids_sent(ops) for id in ids]
    subjects = {item.id: item.subject for item in notifications}
    severe = {item.id for item in notifications if item.severity is Severity.SEVERE}
    # The severe ones come first, after earlier ones about the same alerts.
    last = max(order.index(id) for id in severe)
    assert {subjects[id] for id in order[: last + 1]} == {subjects[id] for id in severe}
    assert sorted(order) == [item.id for item in notifications]
    for subject in subjects.values():
        of_one = [id for id in order if subjects[id] == subject]
        assert of_one == sorted(of_one)
    assert [len(ids) for ids in alert_ids_sent(ops)] == [1, 7, 16]


def test_a_message_that_a_receiver_chokes_on_does_not_stop_the_others() -> None:
    store, now = Store("duckdb:///:memory:"), FakeClock()
    fill(store, *(make_notification(f"n{number}") for number in range(8)))
    error = Response(kind=ResponseKind.FAILED, text="500 Internal Server Error")
    ops = FakeReceiver(choke={"n5": error})
    sender = dispatcher(store, now, ops=ops)
    for _ in range(12):
        sender.dispatch()
        now.advance(3600)
    assert states(store) == [*["sent"] * 5, "failed", *["sent"] * 2]


def test_dead_letters_are_sent_again_on_demand(store: Store, now: FakeClock) -> None:
    response = Response(kind=ResponseKind.REFUSED, text="410 Gone")
    fill(store, make_notification("a"), make_notification("b"))
    ops = FakeReceiver([response, response])
    sender = dispatcher(store, now, policy=SINGLY, ops=ops)
    sender.dispatch()
    assert [(item.last_error, item.num_attempts) for item in load_outbox(store)] == [
        ("410 Gone", 1),
        ("410 Gone", 1),
    ]
    assert states(store) == ["dead", "dead"]
    assert resend(store, ["b", "unknown"], at=now()) == 1
    assert resend(store, None, at=now()) == 1
    sender.dispatch()
    assert states(store) == ["sent", "sent"]
    assert resend(store, None, at=now()) == 0


def test_what_need_not_be_reported_any_more_is_dropped_unsent(store: Store, now: FakeClock) -> None:
    fill(store, make_notification("a"), make_notification("b"))
    ops = FakeReceiver()
    sender = replace(
        dispatcher(store, now, policy=SINGLY, ops=ops),
        build_messages=lambda items: [item for item in plain(items) if item.notification.id != "a"],
    )
    assert sender.dispatch().num_sent == 1
    assert ops.keys() == ["b"]
    assert states(store) == ["dropped", "sent"]


def test_a_defect_in_one_message_ends_nothing(
    store: Store, now: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    fill(store, make_notification("a"), make_notification("b"))

    class Defective(FakeReceiver):
        def send(self, message: Message) -> Response:
            if message.id == "a":
                raise KeyError("no such word")
            return super().send(message)

    ops = Defective()
    report = dispatcher(store, now, policy=SINGLY, ops=ops).dispatch()
    assert report.errors == {"ops": DEFECT}
    assert (states(store), ops.keys()) == (["failed", "sent"], ["b"])
    (record,) = caplog.records
    assert isinstance(record.args, tuple)
    assert record.args[:2] == ("a", "ops")


def test_what_a_killed_process_left_is_sent_under_the_same_key(
    store: Store, now: FakeClock
) -> None:
    fill(store, make_notification("a"))

    class Killed(FakeReceiver):
        def send(self, message: Message) -> Response:
            super().send(message)
            raise KeyboardInterrupt

    killed, ops = Killed(), FakeReceiver()
    with pytest.raises(KeyboardInterrupt):
        dispatcher(store, now, ops=killed).dispatch()
    assert states(store) == ["sending"]
    dispatcher(store, now, ops=ops).dispatch()
    assert (killed.keys(), ops.keys()) == (["a"], ["a"])
    assert states(store) == ["sent"]
