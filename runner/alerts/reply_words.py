"""What a reply to a message asks for, and what becomes of that. Pure.

A reply is a command when its first line begins with one of the words of `Verb`. It decides by what
its message had shown when it was written, and the replies above it said: an alert whose state
changed otherwise after that stays as it is.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timezone
from enum import StrEnum

from db.records import Alert, AlertState
from db.replies import Bound, Ruling
from db.text import one_line, shortened
from db.triage import ONGOING
from runner.analysis.triage import Decide, set_muted, set_owner, set_state

# As much of a reason as the page of a link takes.
MAX_REASON = 500
MAX_OWNER = 100
# Of a wrong command, to show which one is meant.
_MAX_ECHO = 60
NOBODY = "none"
_ALL = "all"
_NUMBER = re.compile(r"#([0-9]{1,3})")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


class Verb(StrEnum):
    """What a command begins with."""

    ACK = "ack"
    EXPECTED = "expected"
    NOISE = "noise"
    REOPEN = "reopen"
    OWNER = "owner"
    MUTE = "mute"


TAKEN = (
    "A reply takes: ack [REASON], expected REASON, noise REASON, reopen [REASON], owner NAME,"
    " mute DATE [REASON]"
)
_STATES = {
    Verb.ACK: AlertState.ACKNOWLEDGED,
    Verb.EXPECTED: AlertState.EXPECTED,
    Verb.NOISE: AlertState.NOISE,
    Verb.REOPEN: AlertState.OPEN,
}
# In ordinary talk these words begin sentences as well; a reason is also what others need.
_NEED_REASON = (Verb.EXPECTED, Verb.NOISE)
_SETTLED = (AlertState.ACKNOWLEDGED, AlertState.EXPECTED, AlertState.NOISE)


class WrongCommand(ValueError):
    """A reply begins as a command and is none; the message says what is taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """What a reply asks for, of the alerts of one notification of its message or of `is_all`.

    `number` counts notifications from 1, None where none is named. `owner` is empty for nobody,
    `until` None for the end of a mute.
    """

    verb: Verb
    text: str
    number: int | None = None
    is_all: bool = False
    reason: str = ""
    owner: str = ""
    until: datetime | None = None


def first_words(text: str) -> str:
    """Return the first line of a reply that is not empty, cleaned and cut."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    return shortened(one_line(line), limit=MAX_REASON + MAX_OWNER)


def is_command(text: str) -> bool:
    """Return whether `text`, as `first_words` returns it, begins as a command."""
    return _split(text)[0].lower() in list(Verb)


def parse(text: str, *, now: datetime) -> Command:
    """Return the command that `text`, for which `is_command` is true, stands for.

    Raises WrongCommand.
    """
    word, rest = _split(text)
    verb = Verb(word.lower())
    target, after = _split(rest)
    number = _NUMBER.fullmatch(target)
    is_all = target.lower() == _ALL
    named = functools.partial(
        Command, verb=verb, text=text, number=int(number[1]) if number else None, is_all=is_all
    )
    rest = after if number or is_all else rest
    if verb is Verb.OWNER:
        return named(owner=_owner(rest, text=text))
    if verb is Verb.MUTE:
        day, reason = _split(rest)
        return named(until=_until(day, text=text, now=now), reason=_reason(reason))
    if verb in _NEED_REASON and not rest:
        raise _wrong(text, f'say why, as in "{verb} the driver was updated"')
    return named(reason=_reason(rest))


def _split(text: str) -> tuple[str, str]:
    first, _, rest = text.partition(" ")
    return first.removesuffix(":"), rest.strip()


def _reason(text: str) -> str:
    return shortened(text, limit=MAX_REASON)


def _owner(name: str, *, text: str) -> str:
    found = name.removeprefix("@")
    # "owner of this?" is talk.
    if not found or len(found) > MAX_OWNER or " " in found or found.startswith("<"):
        raise _wrong(text, f"takes a name of one word, which is no mention, or {NOBODY}")
    return "" if found.lower() == NOBODY else found


def _until(day: str, *, text: str, now: datetime) -> datetime | None:
    if day.lower() == NOBODY:
        return None
    try:
        found = date.fromisoformat(day) if _DAY.fullmatch(day) else None
    except ValueError:
        found = None
    until = None if found is None else datetime.combine(found, time(), tzinfo=timezone.utc)
    if until is None or until <= now:
        raise _wrong(text, f"takes a day to come, such as {now.year + 1}-01-31, or {NOBODY}")
    return until


def _wrong(text: str, problem: str) -> WrongCommand:
    return WrongCommand(f'"{shortened(text, limit=_MAX_ECHO)}": {problem}. {TAKEN}.')


def rule_of(command: Command, bound: Sequence[Bound]) -> Callable[..., Ruling]:
    """Return what becomes of `command` by a reply that is `bound`, for the alerts as they are.

    Raises WrongCommand where it does not say which of several notifications it is about.
    """
    numbers = _meant(command, bound)

    def rule(stored: Sequence[Alert], newest: Mapping[str, int]) -> Ruling:
        here = [alert for alert in stored if alert.id in numbers]
        wanted = [alert for alert in here if _is_wanted(alert, command.verb)]
        later = {alert.id for alert in wanted if newest.get(alert.id, 0) > numbers[alert.id]}
        ids = [alert.id for alert in wanted if alert.id not in later]
        made = _decision(command, ids)(stored)
        told = _told(command, num=len(ids), num_later=len(later))
        return Ruling(revisions=made.revisions, answer=told)

    return rule


def _meant(command: Command, bound: Sequence[Bound]) -> Mapping[str, int]:
    """Return the alerts that are meant, each with the newest change that was shown of it."""
    if command.number is not None:
        if not 1 <= command.number <= len(bound):
            raise _wrong(command.text, f"this message tells of {len(bound)}")
        return bound[command.number - 1].numbers
    if len(bound) > 1 and not command.is_all:
        raise _wrong(
            command.text,
            f'this message tells of {len(bound)} things: say which, as in "{command.verb} #2 ..."'
            f' for the second of them, or "{command.verb} all ..."',
        )
    numbers: dict[str, int] = {}
    for item in bound:
        for id, number in item.numbers.items():
            numbers[id] = max(number, numbers.get(id, -1))
    return numbers


def _is_wanted(alert: Alert, verb: Verb) -> bool:
    """Return whether there is something to decide: what is fixed stays fixed."""
    if verb is Verb.REOPEN:
        return alert.state in _SETTLED
    return alert.state in ONGOING and alert.state is not _STATES.get(verb)


def _decision(command: Command, ids: Sequence[str]) -> Decide:
    if command.verb is Verb.OWNER:
        return set_owner(ids, command.owner)
    if command.verb is Verb.MUTE:
        return set_muted(ids, command.until, why=command.reason)
    return set_state(ids, _STATES[command.verb], why=command.reason)


def _told(command: Command, *, num: int, num_later: int) -> str:
    """Return what is said of a command that was taken, "" where its message says it."""
    if not num and not num_later:
        return f'"{_short(command)}": there is nothing to change about these alerts.'
    parts = [_done(command, num=num)] if num else []
    if num_later:
        parts.append(
            f"{_alerts(num_later)} changed after what you replied to, and stayed as"
            f" {'it is' if num_later == 1 else 'they are'}: look again, and reply again"
        )
    text = ". ".join(part for part in parts if part)
    return f'"{_short(command)}": {text}.' if text else ""


def _done(command: Command, *, num: int) -> str:
    """Return what no message shows by itself."""
    if command.verb is Verb.OWNER:
        return f"{_alerts(num)} of {command.owner or 'nobody'} now"
    if command.verb is Verb.MUTE:
        until = f"muted until {command.until:%Y-%m-%d}" if command.until else "not muted any more"
        return f"{_alerts(num)} {until}"
    return ""


def _alerts(num: int) -> str:
    return "1 alert" if num == 1 else f"{num} alerts"


def _short(command: Command) -> str:
    return shortened(command.text, limit=_MAX_ECHO)
