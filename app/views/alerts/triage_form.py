"""The triage of one alert or several at once: buttons in the header."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from typing import TypeVar

import streamlit as st

from compile_hud.app import clock
from compile_hud.app.auth import access
from compile_hud.app.components.author import name_field, remember_name
from compile_hud.app.components.page_frame import banners
from compile_hud.app.components.sign_in import sign_in_button
from compile_hud.app.data import triage
from compile_hud.app.data.triage import DecisionNote, SaveReport
from compile_hud.app.ui.format import local_moment
from compile_hud.app.ui.html import banner, caption
from compile_hud.app.views.alerts.data import needs_reason_to_expect
from compile_hud.app.views.alerts.tables import DECISION_HELP, DECISIONS, decidable
from compile_hud.app.views.alerts.undo import (
    SEEN_KEYS,
    done_text,
    offer_undo,
    state_word,
    was_just_decided,
)
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.triage import is_muted
from compile_hud.db.shared.access_rules import Person, Role
from compile_hud.db.shared.text import counted

_NAME = "decided-by"
# Days of the buttons that mute at once.
_MUTE_DAYS = {"1 day": 1, "3 days": 3, "1 week": 7}
# The calendar ends after this.
_MAX_MUTE_DAYS = 3650
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class _FormInput:
    """The typed texts and the pressed button, "" without one.

    `owner` is None if the shown one was left as it is.
    """

    note: DecisionNote
    owner: str | None
    until: date | None
    pressed: str
    has_new_end: bool

    def owner_of(self, alert: Alert) -> str:
        """Return the owner that was typed, else that of `alert`, which may differ from others."""
        return alert.owner if self.owner is None else self.owner


class _Memory:
    """The alerts of one form as this browser window has shown them.

    `round` counts the saved decisions, so that the next form begins empty.
    """

    def __init__(self, alerts: Sequence[Alert]) -> None:
        key = " ".join(sorted(alert.id for alert in alerts))
        self._seen, self._note, self._round = (f"{name}{key}" for name in (*SEEN_KEYS, "round "))

    @property
    def round(self) -> int:
        return int(st.session_state.get(self._round, 0))

    def seen(self, alerts: Sequence[Alert]) -> tuple[Alert, ...]:
        """Return the alerts as the page showed them last, and store them as they are now."""
        before: tuple[Alert, ...] = st.session_state.get(self._seen, tuple(alerts))
        if changed := triage.changed_since(before, alerts):
            st.session_state[self._note] = changed
        st.session_state[self._seen] = tuple(alerts)
        return before

    def meanwhile(self) -> list[str]:
        """Return the changes since the page was opened, until a decision is saved here."""
        changed: list[str] = st.session_state.get(self._note, [])
        return changed

    def forget(self) -> None:
        """Clear the form and the stored alerts after a decision was saved."""
        st.session_state[self._round] = self.round + 1
        st.session_state.pop(self._seen, None)
        st.session_state.pop(self._note, None)


def triage_form(alerts: Sequence[Alert]) -> None:
    """Draw the decisions that are possible about `alerts`, save the chosen one, and offer Undo."""
    person = access.present()
    if not person.may(Role.TRIAGER):
        _only_looking(person)
        return
    memory = _Memory(alerts)
    seen = memory.seen(alerts)
    problems = st.container()
    with st.form("decide", border=False, enter_to_submit=False):
        form_input = _ask(alerts, person=person, number=memory.round)
    report = _save(seen, form_input) if form_input.pressed else None
    if report is not None and not report.problem:
        memory.forget()
        remember_name(form_input.note.author)
        if report.undo is not None or not was_just_decided(seen, form_input.pressed):
            offer_undo(report, text=_done_text(report, form_input))
        st.rerun()
    with problems:
        banners([report.problem] if report else _changes_text(memory.meanwhile()))


def _only_looking(person: Person) -> None:
    why = access.refusal(person, Role.TRIAGER)
    st.html(banner(f"Read-only: {why}."))
    if access.rules().has_sign_in and not person.is_signed_in:
        sign_in_button("sign-in-to-decide")


def _changes_text(changed: Sequence[str]) -> list[str]:
    num_more = len(changed) - 1
    more = f"; {counted(num_more, 'more alert')} changed" if num_more > 0 else ""
    return [f"Changed while this page was open: {changed[0]}{more}."] if changed else []


def _ask(alerts: Sequence[Alert], *, person: Person, number: int) -> _FormInput:
    key = f"{alerts[0].id}-{len(alerts)}-{number}"
    shown_owner = _shared([alert.owner for alert in alerts], "")
    now = clock.now()
    shown_until = _shared([_day(alert.muted_until, now=now) for alert in alerts], None)
    pressed = []
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        for label, state in DECISIONS.items():
            can = bool(decidable(alerts, state))
            if not can and state is AlertState.OPEN:
                continue
            is_first = can and state is AlertState.ACKNOWLEDGED
            if _button(label, str(state), disabled=not can, primary=is_first):
                pressed.append(str(state))
        with st.popover("Assign"):
            owner = st.text_input("Owner", value=shown_owner, key=f"owner-{key}")
            if _button("Save owner", "owner"):
                pressed.append("owner")
        with st.popover("Mute"):
            with st.container(horizontal=True, gap="small"):
                pressed += [
                    f"mute-{days}"
                    for label, days in _MUTE_DAYS.items()
                    if _button(label, f"mute-{days}")
                ]
            until = _pick_day(shown_until, key=f"until-{key}-{shown_until}")
            if _button("Save mute", "mute"):
                pressed.append("mute")
        if any(is_muted(alert, at=now) for alert in alerts) and _button("Unmute", "unmute"):
            pressed.append("unmute")
        name = name_field(person, key=f"{_NAME}-{number}", width=160)
        is_failing = needs_reason_to_expect(alerts)
        why = st.text_input(
            "Reason or comment",
            key=f"why-{key}",
            width=220,
            placeholder="Expected needs one" if is_failing else "optional",
        )
        if _button("Comment only", "comment"):
            pressed.append("comment")
    return _FormInput(
        note=DecisionNote(author=name, reason=why.strip()),
        owner=None if owner.strip() == shown_owner else owner.strip(),
        until=until,
        pressed=pressed[0] if pressed else "",
        has_new_end=until != shown_until,
    )


def _pick_day(shown: date | None, *, key: str) -> date | None:
    """Draw the field of the end of a mute, which can be emptied."""
    today = clock.now().astimezone(clock.zone()).date()
    last = today + timedelta(days=_MAX_MUTE_DAYS)
    if shown is not None:
        # A field with a day as its `value` cannot be emptied.
        st.session_state.setdefault(key, shown)
    picked = st.date_input(
        "Muted until",
        value=None,
        min_value=today,
        max_value=max(last, shown or last),
        key=key,
        help="The first day on which it alerts again. Without a day it is not muted.",
    )
    return picked if isinstance(picked, date) else None


def _button(label: str, name: str, *, disabled: bool = False, primary: bool = False) -> bool:
    return bool(
        st.form_submit_button(
            label,
            key=f"decide-{name}",
            disabled=disabled,
            help=DECISION_HELP.get(label),
            type="primary" if primary else "secondary",
        )
    )


def _save(seen: Sequence[Alert], form_input: _FormInput) -> SaveReport:
    """Save the pressed decision."""
    pressed, note = form_input.pressed, form_input.note
    if pressed == "comment":
        return triage.comment(seen, note=note)
    if pressed == "owner":
        owned = [dataclasses.replace(alert, owner=form_input.owner_of(alert)) for alert in seen]
        return triage.decide_care(seen, owned, note=note)
    if pressed.startswith("mute"):
        return _save_mute(seen, form_input)
    if pressed == "unmute":
        audible = [dataclasses.replace(alert, muted_until=None) for alert in seen]
        return triage.decide_care(seen, audible, note=note)
    state = AlertState(pressed)
    return triage.decide_state(decidable(seen, state), state, note=note)


def _save_mute(seen: Sequence[Alert], form_input: _FormInput) -> SaveReport:
    days = form_input.pressed.partition("-")[2]
    if not (days or form_input.has_new_end):
        return triage.decide_care(seen, seen, note=form_input.note)
    end = clock.now() + timedelta(days=int(days)) if days else _midnight(form_input.until)
    if end is not None and end <= clock.now():
        return SaveReport(problem=f"{form_input.until} is over; choose a later day, or none.")
    muted = [dataclasses.replace(alert, muted_until=end) for alert in seen]
    return triage.decide_care(seen, muted, note=form_input.note)


def _done_text(report: SaveReport, form_input: _FormInput) -> str:
    """Return the text of the toast about a saved decision."""
    pressed = form_input.pressed
    after = report.undo.after if report.undo else ()
    if pressed == "comment":
        return "Comment saved."
    if pressed == "owner":
        word = f"assigned to {form_input.owner}" if form_input.owner else "without owner"
    elif pressed == "unmute" or pressed.startswith("mute"):
        end = after[0].muted_until if after else None
        word = f"muted until {local_moment(end)}" if end else "no longer muted"
    else:
        word = state_word(AlertState(pressed))
        before = report.undo.before if report.undo else ()
        word += ", no longer muted" if _is_unmuted(before, after) else ""
    return done_text(report, word=word)


def _is_unmuted(before: Sequence[Alert], after: Sequence[Alert]) -> bool:
    """Return whether a decision ended a mute that was in force."""
    return any(
        is_muted(old, at=clock.now()) and new.muted_until is None
        for old, new in zip(before, after, strict=True)
    )


def floor_form(alert: Alert) -> None:
    """Draw the field of the relevance floor in the series of `alert`, and save it."""
    person = access.present()
    if not person.may(Role.ADMIN) or alert.kind not in ("step", "drift"):
        return
    settings = triage.load_settings(alert)
    key = f"floor-{alert.id}-{st.session_state.get('floor-round', 0)}"
    if settings.floor is not None:
        # A field with a number as its `value` cannot be emptied, so the number is the placeholder.
        st.session_state.setdefault(key, 100 * settings.floor)
    with st.form("floor", border=False):
        with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
            least_pct = st.number_input(
                "Least change that matters in this series (%)",
                value=None,
                min_value=0.1,
                max_value=1000.0,
                step=0.5,
                format="%.1f",
                placeholder="that of the metric",
                key=key,
                width=320,
            )
            author = name_field(person, key=f"name-{key}", width=160)
            why = st.text_input("Reason", key=f"why-{key}", width=300)
            is_saving = st.form_submit_button("Save the floor", key="decide-floor")
        st.html(caption("Every later change of this series that is smaller stays silent."))
    if is_saving:
        floor = None if least_pct is None else round(least_pct / 100, 6)
        note = DecisionNote(author=author, reason=why.strip())
        if problem := triage.decide_floor(settings, floor, note=note):
            st.html(banner(problem))
        else:
            remember_name(author)
            st.session_state["floor-round"] = st.session_state.get("floor-round", 0) + 1
            st.rerun()


def _shared(values: Sequence[_Value], none: _Value) -> _Value:
    """Return the value that all have, `none` if they differ."""
    return values[0] if all(value == values[0] for value in values) else none


def _day(until: datetime | None, *, now: datetime) -> date | None:
    """Return the day on which a mute ends, None if it is over."""
    return None if until is None or until <= now else until.astimezone(clock.zone()).date()


def _midnight(day: date | None) -> datetime | None:
    """Return the midnight of `day` in the zone of the browser, in UTC."""
    if day is None:
        return None
    return datetime.combine(day, time(), clock.zone()).astimezone(timezone.utc)
