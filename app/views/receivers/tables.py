"""The facts and the sentences of the page of receivers. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from compile_hud.app.ui.format import age, local_moment, moment
from compile_hud.app.ui.html import Cell, Note, key_values
from compile_hud.app.views.receivers.records import ReceiverCard, ReceiversPage
from compile_hud.db.records.notifications import WAITING, NotificationState
from compile_hud.db.shared.text import counted

# A receiver for each of the common cases; the documents have the others.
SNIPPET = """\
[receivers.team]
kind = "slack"              # or discord, teams, email, github, webhook, apprise
url = "env:HUD_SLACK_URL"   # the address is a secret: set the variable where hud runs
weekly = "mon 09:00"

[routes.important]
receivers = "team"
severity = ["severe", "major"]"""
_NO_ROUTE = "none: no route of hud.toml leads to it"
_NO_ROUTES = "all regressions"
_SENDERS = "`hud up`, `hud schedule` or `hud alerts send`"


def headline(page: ReceiversPage) -> str:
    """Return the number of receivers, and of those that need attention."""
    num_shown = sum(card.shown is not None for card in page.cards)
    num_failing = sum(card.is_failing for card in page.cards)
    num_dead = sum(len(card.dead) for card in page.cards)
    problems = [
        f"{num_failing} failing" if num_failing else "",
        counted(num_dead, "dead letter") if num_dead else "",
    ]
    summary = ", ".join(text for text in problems if text)
    receivers = counted(num_shown, "receiver")
    return f"{receivers}: {summary}" if summary else f"{receivers}, no failed delivery"


def state_text(card: ReceiverCard, *, now: datetime) -> str:
    """Return the state of a receiver in a few words."""
    state = card.state
    if card.shown is None:
        return "not in hud.toml"
    if not card.is_failing and state.last_sent_at:
        return "working"
    if not card.is_failing:
        return "no delivery yet" if state.num_waiting or state.num_dead else "not used yet"
    text = f"failing: {counted(state.num_failures, 'attempt')} in a row"
    if state.held_until is not None and card.is_paused(now=now):
        return f"{text}, next one after {local_moment(state.held_until)}"
    return text


def receiver_facts(card: ReceiverCard, *, has_routes: bool, now: datetime) -> str:
    """Return the settings of a receiver and the counts of its notifications."""
    shown, state = card.shown, card.state
    pairs: list[tuple[str, Cell]] = []
    if shown is not None:
        pairs = [
            ("kind", Cell(text=shown.kind)),
            ("address", _address_cell(shown.address)),
            *([("to", Cell(text=shown.recipients))] if shown.recipients else []),
            ("routes", _routes_cell(shown.routes, has_routes=has_routes)),
        ]
    pairs.append(("last delivery", _time_cell(state.last_sent_at, now=now, empty="never")))
    if state.oldest_waiting_at is not None:
        pairs.append(("oldest pending", _time_cell(state.oldest_waiting_at, now=now, empty="-")))
    numbers = ((state.num_waiting, "pending"), (state.num_sent, "sent"), (state.num_dead, "dead"))
    pairs.append(("notifications", Cell(text=", ".join(f"{num} {name}" for num, name in numbers))))
    if shown is not None:
        pairs.append(("weekly digest", Cell(text=shown.weekly or "off")))
    return key_values(pairs)


def problem_texts(card: ReceiverCard) -> list[str]:
    """Return the last error of a delivery, and what sends notifications that nothing sends."""
    texts = [f"Last error: {card.state.last_error}"] if card.state.last_error else []
    if card.is_unclaimed:
        waiting = counted(card.state.num_waiting, "notification")
        texts.append(f"{waiting} pending. A [receivers.NAME] of this name in hud.toml sends them.")
    return texts


def test_text(card: ReceiverCard, *, has_sender: bool, now: datetime) -> str:
    """Return the answer to the newest test message, "" without one."""
    test = card.test
    if test is None:
        return ""
    at = test.attempted_at or test.created_at
    if test.state in WAITING:
        if has_sender:
            return "Test message: queued. The scheduler sends it within a minute, between runs."
        return f"Test message: queued. No scheduler is running: {_SENDERS} sends it."
    if test.state is NotificationState.SENT:
        note = f": {test.last_error}" if test.last_error else ""
        return f"Test message: sent {age(at, now=now)}{note}."
    if test.last_error:
        return f"Test message: failed {age(at, now=now)}: {test.last_error}."
    return "Test message: expired. No process sent notifications for a day."


def _address_cell(address: str) -> Cell:
    source, _, name = address.partition(":")
    if source == "env":
        return Cell(text=f"in the variable {name}")
    if source == "file":
        return Cell(text=f"in the file {name}")
    return Cell(text=address)


def _routes_cell(routes: Sequence[tuple[str, str]], *, has_routes: bool) -> Cell:
    if not routes:
        return Cell(text=_NO_ROUTE, style="strong") if has_routes else Cell(text=_NO_ROUTES)
    return Cell(
        text=", ".join(name for name, _ in routes),
        notes=tuple(Note(text=f"{name}: {text or 'all regressions'}") for name, text in routes),
    )


def _time_cell(at: datetime | None, *, now: datetime, empty: str) -> Cell:
    return Cell(text=empty) if at is None else Cell(text=age(at, now=now), title=moment(at))
