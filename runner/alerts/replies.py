"""Read the replies to messages, and do what they ask for.

Nothing calls us, so the services are asked, seldom and little: see MAX_THREADS and the pauses. What
a reply decides is saved in the transaction in which it counts as read, so each counts once whatever
dies when. An answer to it is said at most once: where a process dies right then, it is not said.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from db.errors import HeldByPattern
from db.replies import (
    Bound,
    KeptReply,
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
from db.text import one_line, shortened
from runner.alerts.conversation import Conversation, Reply
from runner.alerts.deliveries import MAX_RETRY_AFTER_S, Answer, AnswerKind, Policy
from runner.alerts.dispatch import answered, is_over
from runner.alerts.reply_words import WrongCommand, first_words, is_command, parse, rule_of

logger = logging.getLogger(__name__)

# Whoever replies to what is older decides in the dashboard.
LOOK_BACK = timedelta(days=14)
# Of one receiver, in one pass; the rest has its turn in the next one.
MAX_THREADS, MAX_COMMANDS, MAX_ANSWERS = 10, 20, 5
_INTERVAL_S = 60.0
# What is to be sent waits behind it.
_PASS_S = 30.0
# A message that nobody has any more is not asked for again soon.
_GONE_S = 24 * 3600.0
_MAX_ANSWER = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Replies:
    """Reads the `conversations` of receivers, by their names.

    Of each it begins to read no thread after `limit_s`.
    """

    store: Store
    conversations: Mapping[str, Conversation]
    now: Callable[[], datetime]
    jitter: Callable[[float], float]
    policy: Policy = field(default_factory=Policy)
    limit_s: float = _PASS_S

    def read(self) -> dict[str, str]:
        """Do what new replies ask for; return the last trouble of each receiver that had some.

        Raises what the store raises.
        """
        trouble = {}
        for name, conversation in self.conversations.items():
            if text := _Round(self, name, conversation).go():
                trouble[name] = f"replies are not read: {text}"
        return trouble


class _Round:
    """One pass over the threads of one receiver."""

    def __init__(self, replies: Replies, name: str, conversation: Conversation) -> None:
        self._store = replies.store
        self._replies = replies
        self._name = name
        self._conversation = conversation
        self._at = replies.now()
        self._num_commands = 0
        self._failure: Answer | None = None
        self._trouble = ""

    def go(self) -> str:
        """Read what is due; return what went wrong, "" for nothing."""
        known = load_threads(self._store, self._name)
        own = known.pop("", None)
        if own is None:
            # What was said before somebody allowed replies was no command.
            own = Thread(name="", since=self._at, due_at=self._at)
            put_threads(self._store, self._name, [own])
        if own.due_at > self._at:
            return ""
        watched = load_watched(self._store, self._name, since=self._at - LOOK_BACK)
        if not watched:
            return ""
        names = self._conversation.threads(watched)
        threads = [known.get(name) or self._new(name, own) for name in names]
        read = self._guarded(threads, own)
        put_threads(
            self._store, self._name, [self._rested(own), *read], gone=known.keys() - set(names)
        )
        return self._trouble

    def _guarded(self, threads: Sequence[Thread], own: Thread) -> list[Thread]:
        """Return what became of those of `threads` that were read."""
        read: list[Thread] = []
        due = sorted((item for item in threads if item.due_at <= self._at), key=_turn)

        def read_all() -> Answer:
            self._say_what_is_left()
            for thread in due[:MAX_THREADS]:
                if self._may_go_on():
                    read.append(self._read(thread, own))
            return Answer(kind=AnswerKind.SENT)

        answer = answered(read_all, what=f"reading the replies to receiver {self._name}")
        if answer.kind is AnswerKind.FAILED:
            self._fail(answer)
        return read

    def _fail(self, answer: Answer) -> None:
        """Note what went wrong; who is down or does not answer is asked no more in this pass."""
        self._trouble = answer.text
        if answer.is_down or answer.retry_after_s is not None or not answer.is_certain:
            self._failure = answer

    def _new(self, name: str, own: Thread) -> Thread:
        position = self._conversation.begin(name, since=own.since)
        return Thread(name=name, since=own.since, due_at=own.since, position=position)

    def _may_go_on(self) -> bool:
        replies = self._replies
        is_late = is_over(self._at, at=replies.now(), limit_s=replies.limit_s)
        return self._failure is None and not is_late

    def _rested(self, own: Thread) -> Thread:
        """Return how the receiver does after this pass: when it is asked again."""
        if self._failure is not None:
            return self._put_off(own, self._failure)
        due_at = self._at + timedelta(seconds=_INTERVAL_S)
        return replace(own, due_at=due_at, num_failures=0)

    def _put_off(self, thread: Thread, answer: Answer) -> Thread:
        num_failures = thread.num_failures + 1
        asked_s = min(answer.retry_after_s or 0.0, MAX_RETRY_AFTER_S)
        limit_s = self._replies.policy.limit_s(num_failures)
        pause_s = max(_INTERVAL_S, self._replies.jitter(limit_s), asked_s)
        due_at = self._at + timedelta(seconds=pause_s)
        return replace(thread, num_failures=num_failures, due_at=due_at)

    def _read(self, thread: Thread, own: Thread) -> Thread:
        """Do what is new in `thread`; return it as it is to be kept."""
        reading = self._conversation.read(thread, now=self._at)
        if reading.answer.kind is AnswerKind.REFUSED:
            logger.info("thread %s cannot be read: %s", thread.name, reading.answer.text)
            return replace(thread, due_at=self._at + timedelta(seconds=_GONE_S))
        if reading.answer.kind is AnswerKind.FAILED:
            self._fail(reading.answer)
            return self._put_off(thread, reading.answer)
        position = self._handle(reading.replies, thread, own)
        # A tag is one of what follows a position.
        is_same = position == thread.position
        read = replace(
            thread, position=position, tag=reading.tag if is_same else "", num_failures=0
        )
        pause_s = self._conversation.pause_s(read, now=self._at)
        return replace(read, due_at=self._at + timedelta(seconds=pause_s))

    def _handle(self, replies: Sequence[Reply], thread: Thread, own: Thread) -> str:
        """Do what each of `replies` asks for; return the position up to which that was done."""
        commands = [
            item for item in replies if item.at >= own.since and is_command(first_words(item.text))
        ]
        ids = [item.id for item in commands]
        counted = load_known_replies(self._store, self._name, ids) if ids else set()
        new = {item.id for item in commands} - counted
        position = thread.position
        for reply in replies:
            if reply.id in new:
                self._num_commands += 1
                if self._num_commands > MAX_COMMANDS or not self._obey(reply):
                    break
            position = reply.position
        return position

    def _obey(self, reply: Reply) -> bool:
        """Do what `reply` asks for, once; return whether reading goes on after it."""
        answer, context = self._conversation.context(reply, now=self._at)
        if answer.kind is AnswerKind.FAILED:
            self._fail(answer)
            return False
        if context is None:
            return True
        bound = load_bound(
            self._store,
            self._name,
            at=reply.at,
            reference=context.reference,
            subject=context.subject,
        )
        if any(item.numbers for item in bound):
            kept = KeptReply(
                id=reply.id,
                thread=reply.thread,
                by=f"{context.name} ({self._name} reply)",
                at=reply.at,
                text=first_words(reply.text),
            )
            said = self._decided(kept, bound)
            if said:
                self._say(kept, shortened(one_line(said), limit=_MAX_ANSWER))
        return True

    def _decided(self, kept: KeptReply, bound: Sequence[Bound]) -> str | None:
        """Save what `kept` decides; return what is said to it, None where it had counted."""
        try:
            rule = rule_of(parse(kept.text, now=self._at), bound)
            return take_reply(self._store, self._name, kept, rule=rule, at=self._at)
        except (WrongCommand, HeldByPattern) as error:
            return str(error) if note_reply(self._store, self._name, kept) else None

    def _say(self, kept: KeptReply, text: str) -> None:
        answer = self._conversation.say(text, thread=kept.thread, reply_id=kept.id, now=self._at)
        if answer.kind is AnswerKind.FAILED and answer.is_certain:
            put_answer(self._store, self._name, kept.id, answer=text)
            self._fail(answer)
        elif answer.kind is not AnswerKind.SENT:
            logger.warning("the answer to reply %s may be lost: %s", kept.id, answer.text)

    def _say_what_is_left(self) -> None:
        """Say what could not be said before."""
        for kept in load_unanswered(self._store, self._name, limit=MAX_ANSWERS):
            if self._failure is None:
                # First: said twice is worse than not at all.
                put_answer(self._store, self._name, kept.id, answer="")
                self._say(kept, kept.answer)


def _turn(thread: Thread) -> tuple[datetime, str]:
    return (thread.due_at, thread.name)
