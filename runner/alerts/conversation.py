"""What replies to messages look like, wherever they are written."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from db.replies import Thread
from runner.alerts.deliveries import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """Something that was written at a time in `thread`; reading goes on after its `position`.

    `text` is empty where it cannot be a command, whatever it says: who wrote it may not decide, or
    is no person.
    """

    id: str
    thread: str
    position: str
    at: datetime
    author: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What came of reading a thread: its new replies, oldest first, and a tag of what is there."""

    answer: Answer
    replies: tuple[Reply, ...] = ()
    tag: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """Which message a reply is about: that with a `reference`, or all those about `subject`.

    `name` is what who wrote it is called on record.
    """

    name: str
    reference: str = ""
    subject: str = ""


class Conversation(Protocol):
    """Where people reply to messages of a receiver. Its methods raise nothing.

    Answers other than SENT say that the service was not reached or refused.
    """

    def threads(self, references: Collection[str]) -> Collection[str]:
        """Return the names of what is to be read for the messages with these `references`."""
        ...

    def begin(self, thread: str, *, since: datetime) -> str:
        """Return the position from which `thread` is read at first."""
        ...

    def pause_s(self, thread: Thread, *, now: datetime) -> float:
        """Return after how many seconds a thread that was read is read again."""
        ...

    def read(self, thread: Thread, *, now: datetime) -> Reading:
        """Read what is new in `thread`, with a bounded number of requests."""
        ...

    def context(self, reply: Reply, *, now: datetime) -> tuple[Answer, Context | None]:
        """Return what `reply` is about, None where it or who wrote it has no say."""
        ...

    def say(self, text: str, *, thread: str, reply_id: str, now: datetime) -> Answer:
        """Say something below a message, which calls nobody."""
        ...
