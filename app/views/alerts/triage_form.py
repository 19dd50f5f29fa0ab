"""The form with which people triage one alert or several at once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timezone
from typing import TypeVar

import streamlit as st

from compile_hud.app import clock
from compile_hud.app.auth import access
from compile_hud.app.components.page_frame import banners
from compile_hud.app.components.sign_in import sign_in_button
from compile_hud.app.data import triage
from compile_hud.app.data.triage import DecisionNote
from compile_hud.app.ui.html import banner, caption
from compile_hud.app.views.alerts.tables import DECISIONS, DECISIONS_TEXT, EVENT_TEXT, decidable
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.shared.access_rules import Person, Role
from compile_hud.db.shared.text import counted

# The browser's session has the name, so that a person types it once.
_NAME = "decided-by"
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Care:
    """The owner and the last day of a mute that several alerts share, or that were typed."""

    owner: str
    until: date | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _FormInput:
    """The typed texts and the pressed button: at most one of the last three."""

    note: DecisionNote
    care: _Care
    state: AlertState | None
    is_care: bool
    is_comment: bool


class _Memory:
    """The alerts of one form as this browser window has shown them.

    `round` counts the saved decisions, so that the next form begins empty.
    """

    def __init__(self, alerts: Sequence[Alert]) -> None:
        key = " ".join(sorted(alert.id for alert in alerts))
        self._seen, self._note, self._round = (
            f"{name} {key}" for name in ("seen", "note", "round")
        )

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


def decision_form(alerts: Sequence[Alert], *, is_brief: bool = False) -> None:
    """Draw the decisions that are possible about `alerts`, and save the chosen one.

    A brief form has no explanation of the decisions and no floor.
    """
    person = access.present()
    if not person.may(Role.TRIAGER):
        _only_looking(person)
        return
    memory = _Memory(alerts)
    seen = memory.seen(alerts)
    shown = _Care(
        owner=_shared([alert.owner for alert in alerts], ""),
        until=_shared([_day(alert.muted_until) for alert in alerts], None),
    )
    problems = st.container()
    with st.form("decide", border=False):
        form_input = _ask(alerts, shown=shown, person=person, number=memory.round)
    if not is_brief:
        st.html(caption(DECISIONS_TEXT if len(alerts) == 1 else f"{DECISIONS_TEXT} {EVENT_TEXT}"))
    problem = _save(seen, form_input, shown=shown)
    if problem == "":
        memory.forget()
        st.rerun()
    with problems:
        banners([problem] if problem else _changes_text(memory.meanwhile()))
    if not is_brief and len(alerts) == 1 and alerts[0].kind in ("step", "drift"):
        _floor_form(alerts[0], person=person, memory=memory)


def _only_looking(person: Person) -> None:
    why = access.refusal(person, Role.TRIAGER)
    st.html(banner(f"Read-only: {why}."))
    if access.rules().has_sign_in and not person.is_signed_in:
        sign_in_button("sign-in-to-decide")


def _changes_text(changed: Sequence[str]) -> list[str]:
    num_more = len(changed) - 1
    more = f"; {counted(num_more, 'more alert')} changed" if num_more > 0 else ""
    return [f"Changed while this page was open: {changed[0]}{more}."] if changed else []


def _ask(alerts: Sequence[Alert], *, shown: _Care, person: Person, number: int) -> _FormInput:
    key = f"{alerts[0].id}-{len(alerts)}-{number}"
    with st.container(horizontal=True, gap="small"):
        name = _name_field(person)
        why = st.text_input("Reason or comment", key=f"why-{key}", width=420)
    with st.container(horizontal=True, gap="small"):
        chosen = [
            state
            for label, state in DECISIONS.items()
            if st.form_submit_button(
                label, key=f"decide-{state}", disabled=not decidable(alerts, state)
            )
        ]
        is_comment = st.form_submit_button("Comment only", key="decide-comment")
    with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
        owner = st.text_input("Owner", value=shown.owner, key=f"owner-{key}", width=200)
        until = st.date_input("Muted until (UTC)", value=shown.until, key=f"until-{key}", width=200)
        is_care = st.form_submit_button("Save owner and mute", key="decide-save")
    return _FormInput(
        note=DecisionNote(author=name, reason=why.strip()),
        care=_Care(owner=owner.strip(), until=until),
        state=chosen[0] if chosen else None,
        is_care=is_care,
        is_comment=is_comment,
    )


def _name_field(person: Person) -> str:
    if person.is_signed_in:
        st.text_input("Your name", value=person.name, key="signed-in-as", disabled=True, width=200)
        return ""
    return st.text_input("Your name", key=_NAME, width=200)


def _save(seen: Sequence[Alert], form_input: _FormInput, *, shown: _Care) -> str | None:
    """Save the pressed decision; return the reason if it is not saved, "" if it is, None for no
    press.
    """
    if form_input.state is not None:
        alerts = decidable(seen, form_input.state)
        return triage.decide_state(alerts, form_input.state, note=form_input.note)
    if form_input.is_comment:
        return triage.comment(seen, note=form_input.note)
    return _save_care(seen, form_input, shown=shown) if form_input.is_care else None


def _save_care(seen: Sequence[Alert], form_input: _FormInput, *, shown: _Care) -> str:
    """Save the owner and the mute that are `given`; each alert keeps the fields that did not
    change.
    """
    until = form_input.care.until
    end = _midnight(until)
    if until != shown.until and end is not None and end <= clock.now():
        return f"{until} is over; choose a later day, or none."
    cared = [
        dataclasses.replace(
            alert,
            owner=alert.owner if form_input.care.owner == shown.owner else form_input.care.owner,
            muted_until=alert.muted_until if until == shown.until else end,
        )
        for alert in seen
    ]
    return triage.decide_care(seen, cared, note=form_input.note)


def _floor_form(alert: Alert, *, person: Person, memory: _Memory) -> None:
    """Draw the field of the relevance floor in the series of `alert`, and save it."""
    if not person.may(Role.ADMIN):
        return
    settings = triage.load_settings(alert)
    key = f"floor-{alert.id}-{memory.round}"
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
            why = st.text_input("Reason", key=f"why-{key}", width=300)
            is_saving = st.form_submit_button("Save the floor", key="decide-floor")
        st.html(caption("Every later change of this series that is smaller stays silent."))
    if is_saving:
        floor = None if least_pct is None else round(least_pct / 100, 6)
        note = DecisionNote(author=str(st.session_state.get(_NAME, "")), reason=why.strip())
        if problem := triage.decide_floor(settings, floor, note=note):
            st.html(banner(problem))
        else:
            memory.forget()
            st.rerun()


def _shared(values: Sequence[_Value], none: _Value) -> _Value:
    """Return the value that all have, `none` if they differ."""
    return values[0] if all(value == values[0] for value in values) else none


def _day(until: datetime | None) -> date | None:
    return None if until is None else until.date()


def _midnight(day: date | None) -> datetime | None:
    return None if day is None else datetime.combine(day, time(), timezone.utc)
