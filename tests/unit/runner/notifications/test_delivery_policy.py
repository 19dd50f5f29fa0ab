"""The next delivery to a receiver, and its outcome."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from compile_hud.db.records.notifications import (
    AlertChangeKind,
    Notification,
    NotificationState,
    Queue,
    ReceiverHealth,
    Severity,
    urgent,
)
from compile_hud.runner.notifications.delivery_policy import (
    MAX_RETRY_AFTER_S,
    Attempt,
    Delivery,
    DeliveryContext,
    Policy,
    Response,
    ResponseKind,
    apply_response,
    next_delivery,
)
from tests.support.builders import START, make_notification

SENT = Response(kind=ResponseKind.SENT)
ERROR = Response(kind=ResponseKind.FAILED, text="500 Internal Server Error")
DOWN = Response(kind=ResponseKind.FAILED, text="connection refused", is_down=True)
DISCONNECTED = Response(kind=ResponseKind.FAILED, text="timed out", is_certain=False)
REFUSED = Response(kind=ResponseKind.REFUSED, text="404 Not Found")
PATIENT = Policy(digest_above=1000)


def context(
    at: datetime = START, *, holder: str = "me", policy: Policy | None = None
) -> DeliveryContext:
    return DeliveryContext(
        at=at,
        holder=holder,
        jitter=lambda limit_s: limit_s,
        is_gone={"gone": True, "alive": False}.get,
        policy=policy or PATIENT,
    )


def queue(*waiting: Notification, num_failures: int = 0) -> Queue:
    health = ReceiverHealth(receiver="ops", num_failures=num_failures)
    return Queue(health=health, waiting=waiting)


def taken(outbox: Queue, **options: object) -> tuple[Queue, Delivery]:
    after, delivery = next_delivery(outbox, context=context(**options))  # type: ignore[arg-type]
    assert delivery is not None
    return after, delivery


def ids(delivery: Delivery) -> list[str]:
    return [item.id for item in delivery.notifications]


def states(outbox: Queue) -> list[str]:
    return [str(item.state) for item in outbox.waiting]


def many(number: int) -> list[Notification]:
    return [make_notification(f"n{index:02}", number=index) for index in range(number)]


def test_the_oldest_is_taken_under_its_own_key_and_marked() -> None:
    after, delivery = taken(queue(*many(2)))
    assert (delivery.id, ids(delivery)) == ("n00", ["n00"])
    assert states(after) == ["sending", "pending"]
    assert (after.waiting[0].holder, after.waiting[0].attempted_at) == ("me", START)


def test_what_is_not_due_waits_and_so_does_what_follows_about_the_same_alert() -> None:
    first, second, other = many(3)
    later = replace(first, due_at=START + timedelta(seconds=1))
    same = replace(second, alert_ids=later.alert_ids)
    _, delivery = taken(queue(later, same, other))
    assert ids(delivery) == ["n02"]
    assert next_delivery(queue(later, same), context=context()) == (queue(later, same), None)


def test_what_was_answered_with_success_is_sent() -> None:
    after, delivery = taken(queue(*many(1)))
    done = apply_response(after, Attempt(delivery=delivery, response=SENT), context=context())
    assert states(done) == ["sent"]
    assert done.waiting[0].num_attempts == 1


def test_a_failure_is_tried_again_and_the_receiver_rests_twice_as_long_each_time() -> None:
    outbox, at, pauses = queue(*many(1)), START, []
    for _ in range(12):
        after, delivery = taken(outbox, at=at)
        outbox = apply_response(
            after, Attempt(delivery=delivery, response=ERROR), context=context(at)
        )
        paused_until = outbox.health.held_until
        assert paused_until is not None
        assert (
            next_delivery(outbox, context=context(paused_until - timedelta(seconds=1)))[1] is None
        )
        pauses.append((paused_until - at).total_seconds())
        at = paused_until
    assert pauses == [10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600, 3600]
    assert outbox.waiting[0].last_error == "500 Internal Server Error"


def test_a_pause_is_drawn_from_all_of_its_range() -> None:
    whole = context()
    none = replace(whole, jitter=lambda _: 0.0)
    assert none.pause(5) == START
    assert whole.pause(5) == START + timedelta(seconds=160)
    assert whole.pause(10**6) == START + timedelta(seconds=3600)


def test_a_receiver_that_asks_for_time_gets_it_up_to_a_day() -> None:
    for requested_s, retry_after_s in ((5.0, 10.0), (900.0, 900.0), (10.0**9, MAX_RETRY_AFTER_S)):
        after, delivery = taken(queue(*many(1)))
        answer = replace(ERROR, retry_after_s=requested_s)
        done = apply_response(after, Attempt(delivery=delivery, response=answer), context=context())
        assert done.health.held_until == START + timedelta(seconds=retry_after_s)


def test_what_is_refused_is_dead_at_once_and_the_receiver_is_not_down() -> None:
    after, delivery = taken(queue(*many(2)))
    done = apply_response(after, Attempt(delivery=delivery, response=REFUSED), context=context())
    assert states(done) == ["dead", "pending"]
    assert done.health.num_failures == 0


def test_what_failed_for_the_last_time_is_dead() -> None:
    last = replace(many(1)[0], num_attempts=PATIENT.max_attempts - 1)
    after, delivery = taken(queue(last))
    done = apply_response(after, Attempt(delivery=delivery, response=DOWN), context=context())
    assert states(done) == ["dead"]


def test_after_a_failure_something_about_other_alerts_is_tried() -> None:
    first, second, other = many(3)
    after, delivery = taken(queue(first, replace(second, alert_ids=first.alert_ids), other))
    failed = apply_response(after, Attempt(delivery=delivery, response=ERROR), context=context())
    assert next_delivery(failed, context=context(), attempted={"n00"})[1] is None
    probing, probe = next_delivery(failed, context=context(), attempted={"n00"}, is_probe=True)
    assert probe is not None
    assert ids(probe) == ["n02"]
    done = apply_response(
        probing, Attempt(delivery=probe, response=SENT), context=context(), attempted={"n00"}
    )
    assert states(done) == ["failed", "pending", "sent"]
    assert done.health == ReceiverHealth(receiver="ops")
    assert done.waiting[0].due_at == START + timedelta(seconds=10)


def test_what_failed_while_the_receiver_was_down_goes_when_it_is_back() -> None:
    first, second = many(2)
    later = START + timedelta(hours=1)
    deferred = replace(second, state=NotificationState.FAILED, due_at=later)
    after, delivery = taken(queue(first, deferred, num_failures=3), policy=Policy(max_together=1))
    done = apply_response(after, Attempt(delivery=delivery, response=SENT), context=context())
    assert done.waiting[1].due_at == START


def test_many_go_together_in_order_under_one_key() -> None:
    policy = Policy(digest_above=3, max_together=5)
    assert ids(taken(queue(*many(3)), policy=policy)[1]) == ["n00"]
    after, digest = taken(queue(*many(8)), policy=policy)
    assert ids(digest) == ["n00", "n01", "n02", "n03", "n04"]
    assert {item.delivery_id for item in after.waiting[:5]} == {digest.id}
    assert digest.id not in ids(digest)
    assert taken(queue(*many(8)), policy=policy)[1].id == digest.id


def test_what_a_run_tells_is_one_message() -> None:
    assert ids(taken(queue(*many(1)), policy=Policy())[1]) == ["n00"]
    assert ids(taken(queue(*many(2)), policy=Policy())[1]) == ["n00", "n01"]
    assert len(taken(queue(*many(10)), policy=Policy())[1].notifications) == 10


def test_a_weekly_digest_goes_alone() -> None:
    first, weekly, last = many(3)
    weekly = replace(weekly, kind=AlertChangeKind.WEEKLY)
    assert ids(taken(queue(first, weekly, last), policy=Policy())[1]) == ["n00", "n02"]
    assert ids(taken(queue(weekly, first, last), policy=Policy())[1]) == ["n01"]


def test_what_piled_up_while_a_receiver_was_down_is_one_digest() -> None:
    assert ids(taken(queue(*many(2), num_failures=1))[1]) == ["n00", "n01"]


def test_a_digest_that_was_answered_with_an_error_is_halved_one_without_answer_is_not() -> None:
    policy = Policy()
    after, digest = taken(queue(*many(8)), policy=policy)
    for answer, number in ((ERROR, 4), (REFUSED, 4), (DOWN, 8)):
        done = apply_response(after, Attempt(delivery=digest, response=answer), context=context())
        assert states(done) == ["failed"] * 8
        later = START + timedelta(hours=1)
        assert len(taken(done, at=later, policy=policy)[1].notifications) == number


def test_a_delivery_that_may_have_arrived_is_repeated_unchanged_three_times() -> None:
    outbox, at, sizes = queue(*many(4)), START, []
    for _ in range(4):
        after, digest = taken(outbox, at=at, policy=Policy())
        sizes.append((digest.id, len(digest.notifications)))
        failed = apply_response(
            after, Attempt(delivery=digest, response=DISCONNECTED), context=context(at)
        )
        more = make_notification("new", number=99)
        outbox = replace(failed, waiting=(*(n for n in failed.waiting if n.id != "new"), more))
        at += timedelta(hours=2)
    assert [size for _, size in sizes] == [4, 4, 4, 2]
    assert len({key for key, _ in sizes[:3]}) == 1


def test_what_a_dead_process_was_sending_is_sent_again_under_the_same_key() -> None:
    after, digest = taken(queue(*many(4)), holder="gone", policy=Policy())
    again, repeated = next_delivery(after, context=context(policy=Policy()))
    assert repeated is not None
    assert (repeated.id, ids(repeated)) == (digest.id, ids(digest))
    assert {item.holder for item in again.waiting} == {"me"}


def test_a_delivery_in_progress_is_not_sent_twice() -> None:
    after, _ = taken(queue(*many(2)), holder="alive")
    assert next_delivery(after, context=context())[1] is None


def test_a_process_on_another_host_counts_as_alive_until_its_lease_ends() -> None:
    after, _ = taken(queue(*many(2)), holder="elsewhere")
    lease = timedelta(seconds=PATIENT.lease_s)
    assert next_delivery(after, context=context(START + lease - timedelta(seconds=1)))[1] is None
    assert ids(taken(after, at=START + lease)[1]) == ["n00"]


def test_a_dropped_message_does_not_change_the_health_of_the_receiver() -> None:
    after, delivery = taken(queue(*many(1), num_failures=2))
    attempt = Attempt(delivery=delivery, response=SENT, dropped=frozenset({"n00"}))
    done = apply_response(after, attempt, context=context())
    assert states(done) == ["dropped"]
    assert done.health.num_failures == 2


def severe(item: Notification, **fields: object) -> Notification:
    return replace(item, severity=Severity.SEVERE, **fields)  # type: ignore[arg-type]


def test_what_is_severe_goes_ahead_of_a_digest() -> None:
    waiting = many(6)
    waiting[5] = severe(waiting[5])
    after, first = taken(queue(*waiting), policy=Policy())
    assert ids(first) == ["n05"]
    done = apply_response(after, Attempt(delivery=first, response=SENT), context=context())
    _, digest = taken(done, policy=Policy())
    assert ids(digest) == ["n00", "n01", "n02", "n03", "n04"]


def test_each_of_a_few_severe_goes_alone_and_more_are_one_digest() -> None:
    few, many_more = ([severe(item) for item in many(number)] for number in (3, 4))
    assert ids(taken(queue(*few), policy=Policy())[1]) == ["n00"]
    calm = make_notification("calm", number=99)
    assert ids(taken(queue(*many_more, calm), policy=Policy())[1]) == ["n00", "n01", "n02", "n03"]


def test_what_came_before_about_the_same_alert_goes_with_what_is_severe() -> None:
    waiting = many(6)
    waiting[1] = replace(waiting[1], alert_ids=("shared",))
    waiting[3] = replace(waiting[3], subject=waiting[1].subject)
    waiting[5] = severe(waiting[5], subject=waiting[3].subject, alert_ids=("other",))
    after, first = taken(queue(*waiting))
    assert ids(first) == ["n01"]
    done = apply_response(after, Attempt(delivery=first, response=SENT), context=context())
    assert ids(taken(done)[1]) == ["n03"]
    assert [item.id for item in urgent(waiting)] == ["n01", "n03", "n05"]


def test_that_something_severe_is_over_can_wait() -> None:
    waiting = many(2)
    waiting[1] = severe(waiting[1], kind=AlertChangeKind.FIXED)
    assert ids(taken(queue(*waiting))[1]) == ["n00"]


def test_what_follows_a_delivery_that_is_repeated_waits_behind_it() -> None:
    first, second, third = many(3)
    repeated = replace(second, state=NotificationState.FAILED, delivery_id="digest")
    same = replace(third, alert_ids=second.alert_ids)
    _, delivery = taken(queue(first, repeated, same, num_failures=1))
    assert ids(delivery) == ["n00"]


@given(
    answers=st.lists(st.sampled_from([SENT, ERROR, DOWN, DISCONNECTED, REFUSED]), max_size=60),
    abouts=st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from(Severity)), min_size=1, max_size=8
    ),
)
def test_notifications_about_one_alert_never_overtake_each_other(
    answers: Sequence[Response], abouts: Sequence[tuple[int, Severity]]
) -> None:
    waiting = [
        make_notification(
            f"n{number}", number=number, alert_ids=[f"alert-{about}"], severity=severity
        )
        for number, (about, severity) in enumerate(abouts)
    ]
    outbox, at, order = queue(*waiting), START, []
    for answer in [*answers, *[SENT] * 60]:
        now = context(at, policy=Policy())
        outbox, delivery = next_delivery(outbox, context=now)
        at += timedelta(hours=2)
        if delivery is None:
            continue
        outbox = apply_response(outbox, Attempt(delivery=delivery, response=answer), context=now)
        if answer is SENT:
            order += delivery.notifications
    assert {item.state for item in outbox.waiting} <= {
        NotificationState.SENT,
        NotificationState.DEAD,
    }
    for about in {about for about, _ in abouts}:
        numbers = [item.number for item in order if item.alert_ids == (f"alert-{about}",)]
        assert numbers == sorted(set(numbers))


def receiver_test(id: str = "test") -> Notification:
    return make_notification(id, kind=AlertChangeKind.TEST, alert_ids=(), severity=Severity.MINOR)


def test_a_test_message_precedes_all_others_and_goes_alone() -> None:
    severe = make_notification("severe", severity=Severity.SEVERE)
    _, delivery = taken(queue(*many(3), severe, receiver_test()), policy=Policy())
    assert ids(delivery) == ["test"]


def test_a_pause_does_not_defer_a_test_message() -> None:
    health = ReceiverHealth(
        receiver="ops", num_failures=7, held_until=START + timedelta(minutes=20)
    )
    paused = Queue(health=health, waiting=(*many(2), receiver_test()))
    after, delivery = next_delivery(paused, context=context())
    assert delivery is not None
    assert ids(delivery) == ["test"]
    assert next_delivery(paused, context=context(), attempted=["test"])[1] is None
    # The receiver works again, so what waits is sent as well.
    done = apply_response(after, Attempt(delivery=delivery, response=SENT), context=context())
    assert (states(done)[2], done.health.num_failures, done.health.held_until) == ("sent", 0, None)
    assert ids(taken(done)[1]) == ["n00"]


@given(answer=st.sampled_from([ERROR, DOWN, DISCONNECTED, REFUSED]), num_failures=st.integers(0, 9))
def test_a_failed_test_message_is_not_repeated_and_changes_no_pause(
    answer: Response, num_failures: int
) -> None:
    before = queue(*many(1), receiver_test(), num_failures=num_failures)
    after, delivery = taken(before)
    done = apply_response(after, Attempt(delivery=delivery, response=answer), context=context())
    assert states(done) == ["pending", "dropped"]
    assert done.waiting[1].last_error == answer.text
    assert done.health == before.health


def test_a_test_message_of_a_process_that_died_is_sent_again_under_its_key() -> None:
    after, delivery = taken(queue(receiver_test("t7")), holder="gone")
    again, repeated = taken(after)
    assert (repeated.id, delivery.id) == ("t7", "t7")
    assert again.waiting[0].holder == "me"
    alive, _ = taken(queue(receiver_test()), holder="alive")
    assert next_delivery(alive, context=context())[1] is None
