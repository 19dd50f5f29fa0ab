"""Replies to messages: where they are read, what they are bound to, and that each counts once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Select, and_, delete, exists, func, insert, select, update
from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session

from db import fetch
from db.alerts import put_revisions
from db.message_tables import (
    MessageAlertTable,
    MessageTable,
    MessageVersionTable,
    OutboxTable,
    ReplyTable,
    ReplyThreadTable,
)
from db.records import Alert, AlertState
from db.rows import clean_text, utc
from db.store import Store
from db.tables import AlertChangeTable, AlertTable
from db.triage import ChangedField, Revision


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """Where replies are read, or (`name` is empty) how the reading of a receiver does.

    `position` is where the next reading begins and `tag` what the service calls what it has shown
    of that. Replies from before `since` are left alone.
    """

    name: str
    since: datetime
    due_at: datetime
    position: str = ""
    tag: str = ""
    num_failures: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptReply:
    """A reply that was a command; `answer` is what is still to be said to it, "" for nothing."""

    id: str
    thread: str
    by: str
    at: datetime
    text: str
    answer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The alerts of a notification, each with the newest change that its message had shown.

    The numbers are those of changes, -1 where nobody knows what was shown.
    """

    numbers: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What becomes of a reply: `revisions` are saved, `answer` is said in its thread."""

    revisions: tuple[Revision, ...] = ()
    answer: str = ""


# Of the alerts as they are, and of the number of the newest change of the state of each that is not
# said in the thread of the reply.
Rule = Callable[[Sequence[Alert], Mapping[str, int]], Ruling]


def load_watched(store: Store, receiver: str, *, since: datetime) -> dict[str, datetime]:
    """Return when each message was sent, since a time, that tells of an alert which is not fixed.

    By its reference, the newest first.
    """
    is_unsettled = exists().where(
        MessageAlertTable.receiver == MessageTable.receiver,
        MessageAlertTable.reference == MessageTable.reference,
        AlertTable.id == MessageAlertTable.alert_id,
        AlertTable.state != str(AlertState.FIXED),
    )
    wanted = (
        select(MessageTable.reference, MessageTable.sent_at)
        .where(MessageTable.receiver == receiver, MessageTable.sent_at >= utc(since), is_unsettled)
        .order_by(MessageTable.sent_at.desc(), MessageTable.reference)
    )
    with store.read() as connection:
        return {row.reference: utc(row.sent_at) for row in connection.execute(wanted)}


def load_threads(store: Store, receiver: str) -> dict[str, Thread]:
    """Return what is known of the threads of `receiver`, by their names."""
    wanted = select(ReplyThreadTable.__table__).where(ReplyThreadTable.receiver == receiver)
    with store.read() as connection:
        return {
            row.thread: Thread(
                name=row.thread,
                since=utc(row.since),
                due_at=utc(row.due_at),
                position=row.position,
                tag=row.tag,
                num_failures=row.num_failures,
            )
            for row in connection.execute(wanted)
        }


def put_threads(
    store: Store, receiver: str, threads: Sequence[Thread], *, gone: Collection[str] = ()
) -> None:
    """Keep what is known of `threads`, and forget those that are `gone`."""
    names = {*gone, *(item.name for item in threads)}
    rows = [
        {
            "receiver": receiver,
            "thread": item.name,
            "position": item.position,
            "tag": item.tag,
            "since": utc(item.since),
            "due_at": utc(item.due_at),
            "num_failures": item.num_failures,
        }
        for item in threads
    ]
    here = (ReplyThreadTable.receiver == receiver) & ReplyThreadTable.thread.in_(names)
    with store.write(is_news=False) as session:
        session.execute(delete(ReplyThreadTable).where(here))
        session.execute(insert(ReplyThreadTable), rows)


def load_bound(
    store: Store, receiver: str, *, at: datetime, reference: str = "", subject: str = ""
) -> tuple[Bound, ...]:
    """Return what a reply of a time is bound to, in the order of what its message tells.

    The message has that `reference`; without one, all messages about `subject` are one.
    """
    with store.read() as connection:
        wanted = select(MessageTable.reference, MessageTable.notification_ids).where(
            MessageTable.receiver == receiver
        )
        if reference:
            wanted = wanted.where(MessageTable.reference == reference)
        messages = connection.execute(wanted).all()
        shown = _numbers_shown(connection, receiver, at=at)
        ids = {id for row in messages for id in row.notification_ids}
        is_told = OutboxTable.id.in_(ids) if reference else OutboxTable.subject == subject
        told = _alerts_told(connection, is_told & (OutboxTable.receiver == receiver))
    pairs = [
        (told[id], shown.get(row.reference, -1))
        for row in messages
        for id in row.notification_ids
        if id in told
    ]
    bound = tuple(Bound(numbers=dict.fromkeys(alerts, number)) for alerts, number in pairs)
    return bound if reference else _as_one(bound)


def _as_one(bound: Sequence[Bound]) -> tuple[Bound, ...]:
    numbers: dict[str, int] = {}
    for item in bound:
        for id, number in item.numbers.items():
            numbers[id] = max(number, numbers.get(id, -1))
    return (Bound(numbers=numbers),)


def _numbers_shown(connection: Connection, receiver: str, *, at: datetime) -> dict[str, int]:
    """Return the newest change that each message had shown at a time, by its reference."""
    wanted = select(MessageVersionTable.__table__).where(MessageVersionTable.receiver == receiver)
    found: dict[str, int] = {}
    for row in connection.execute(wanted.order_by(MessageVersionTable.number)):
        # Nobody replies to a message before it is there, whatever the clocks say.
        if row.reference not in found or utc(row.shown_at) <= at:
            found[row.reference] = row.number
    return found


def _alerts_told(connection: Connection, is_told: ColumnElement[bool]) -> dict[str, list[str]]:
    wanted = select(OutboxTable.id, OutboxTable.alert_ids).where(is_told)
    return {row.id: list(row.alert_ids) for row in connection.execute(wanted)}


def load_known_replies(store: Store, receiver: str, ids: Collection[str]) -> set[str]:
    """Return those of `ids` that counted already."""
    wanted = select(ReplyTable.id).where(ReplyTable.receiver == receiver, ReplyTable.id.in_(ids))
    with store.read() as connection:
        return set(connection.execute(wanted).scalars())


def take_reply(
    store: Store, receiver: str, reply: KeptReply, *, rule: Rule, at: datetime
) -> str | None:
    """Save what `rule` makes of `reply`, once; return its answer, None where it had counted.

    What it changes and that it counted are one transaction. Raises HeldByPattern.
    """
    with store.write() as session:
        if _is_known(session, receiver, reply.id):
            return None
        connection = session.connection()
        seen = _numbers_seen(connection, receiver, reply)
        ruling = rule(fetch.alerts(connection), _newest_numbers(connection, besides=seen))
        before = _last_number(session)
        if ruling.revisions:
            put_revisions(session, ruling.revisions, by=reply.by, at=at)
        numbers = range(before + 1, _last_number(session) + 1)
        _put_reply(session, receiver, reply, numbers=numbers)
    return ruling.answer


def note_reply(store: Store, receiver: str, reply: KeptReply) -> bool:
    """Keep that a reply which changes nothing counted; return whether it had not before."""
    with store.write(is_news=False) as session:
        if _is_known(session, receiver, reply.id):
            return False
        _put_reply(session, receiver, reply, numbers=())
    return True


def load_unanswered(store: Store, receiver: str, *, limit: int) -> tuple[KeptReply, ...]:
    """Return replies of `receiver` with an answer that is still to be said, oldest first."""
    wanted: Select[tuple[ReplyTable]] = (
        select(ReplyTable.__table__)
        .where(ReplyTable.receiver == receiver, ReplyTable.answer != "")
        .order_by(ReplyTable.at, ReplyTable.id)
        .limit(limit)
    )
    with store.read() as connection:
        return tuple(
            KeptReply(
                id=row.id,
                thread=row.thread,
                by=row.by,
                at=utc(row.at),
                text=row.text,
                answer=row.answer,
            )
            for row in connection.execute(wanted)
        )


def put_answer(store: Store, receiver: str, reply_id: str, *, answer: str) -> None:
    """Keep what is still to be said to a reply, "" for nothing."""
    with store.write(is_news=False) as session:
        here = _is_reply(receiver, reply_id)
        session.execute(update(ReplyTable).where(here).values(answer=clean_text(answer)))


def _last_number(session: Session) -> int:
    return session.execute(select(func.max(AlertChangeTable.number))).scalar() or 0


def _numbers_seen(connection: Connection, receiver: str, reply: KeptReply) -> list[int]:
    """Return the changes that replies of before in the same thread made: who replies sees those."""
    wanted = select(ReplyTable.numbers).where(
        ReplyTable.receiver == receiver,
        ReplyTable.thread == reply.thread,
        ReplyTable.at <= utc(reply.at),
    )
    return [number for row in connection.execute(wanted) for number in row.numbers]


def _newest_numbers(connection: Connection, *, besides: Collection[int]) -> dict[str, int]:
    wanted = (
        select(AlertChangeTable.alert_id, func.max(AlertChangeTable.number).label("number"))
        .where(
            AlertChangeTable.field == str(ChangedField.STATE),
            AlertChangeTable.number.not_in(besides),
        )
        .group_by(AlertChangeTable.alert_id)
    )
    return {row.alert_id: row.number for row in connection.execute(wanted)}


def _is_known(session: Session, receiver: str, reply_id: str) -> bool:
    wanted = select(ReplyTable.id).where(_is_reply(receiver, reply_id))
    return session.execute(wanted).first() is not None


def _is_reply(receiver: str, reply_id: str) -> ColumnElement[bool]:
    return and_(ReplyTable.receiver == receiver, ReplyTable.id == reply_id)


def _put_reply(
    session: Session, receiver: str, reply: KeptReply, *, numbers: Iterable[int]
) -> None:
    session.execute(
        insert(ReplyTable).values(
            receiver=receiver,
            id=reply.id,
            thread=reply.thread,
            by=clean_text(reply.by),
            at=utc(reply.at),
            text=clean_text(reply.text),
            numbers=list(numbers),
            answer=clean_text(reply.answer),
        )
    )
