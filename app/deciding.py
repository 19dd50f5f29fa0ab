"""The form in which people decide about an alert, or about all alerts of an event."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timezone
from typing import Any, TypeVar

import streamlit as st

from app import data
from app.alertpage import DECISIONS, DECISIONS_TEXT, EVENT_TEXT, decidable
from app.markup import notice
from db.records import Alert, AlertState
from db.triage import JUDGE

# Kept by the browser's session, so that one gives it once.
_NAME = "decided-by"
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """What was typed and pressed; `state` is None and `is_saving` False where nothing was."""

    name: str
    why: str
    owner: str
    until: date | None
    state: AlertState | None
    is_saving: bool


def decision_form(alerts: Sequence[Alert], *, num_changes: int) -> None:
    """Draw what people may decide about `alerts` at once, and save what they chose.

    `num_changes` is how many changes there were: what was typed for the last is not the next one's.
    """
    owner = _shared([alert.owner for alert in alerts], "")
    until = _shared([_day(alert.muted_until) for alert in alerts], None)
    key = f"{alerts[0].id}-{len(alerts)}-{num_changes}"
    given = _ask(alerts, owner=owner, until=until, key=key)
    if given.state is None and not given.is_saving:
        return
    if given.name in ("", JUDGE):
        st.html(
            notice(
                f"Who decides? Give your name, which is not {JUDGE}: it is kept with the change."
            )
        )
    elif given.state is not None:
        ids = [alert.id for alert in decidable(alerts, given.state)]
        _settle(data.decide_state(ids, given.state, by=given.name, why=given.why))
    else:
        _save_care(alerts, given, owner=owner, until=until)


def _ask(alerts: Sequence[Alert], *, owner: str, until: date | None, key: str) -> _Given:
    signed_in = signed_in_name(st.user.to_dict())
    with st.form("decide", border=False):
        with st.container(horizontal=True, gap="small"):
            name = st.text_input(
                "Your name", value=signed_in, key=_NAME, disabled=bool(signed_in), width=200
            )
            why = st.text_input("Reason", key=f"why-{key}", width=420)
        with st.container(horizontal=True, gap="small"):
            chosen = [
                state
                for label, state in DECISIONS.items()
                if st.form_submit_button(
                    label, key=f"decide-{state}", disabled=not decidable(alerts, state)
                )
            ]
        st.caption(DECISIONS_TEXT if len(alerts) == 1 else f"{DECISIONS_TEXT} {EVENT_TEXT}")
        with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
            new_owner = st.text_input("Owner", value=owner, key=f"owner-{key}", width=200)
            end = st.date_input("Muted until (UTC)", value=until, key=f"until-{key}", width=200)
            is_saving = st.form_submit_button("Save owner and mute", key="decide-save")
    return _Given(
        name=signed_in or name.strip(),
        why=why,
        owner=new_owner.strip(),
        until=end,
        state=chosen[0] if chosen else None,
        is_saving=is_saving,
    )


def _save_care(alerts: Sequence[Alert], given: _Given, *, owner: str, until: date | None) -> None:
    """Save the owner and the mute that are `given`, what is as it was before left to each alert."""
    end = _midnight(given.until)
    if given.until != until and end is not None and end <= data.now():
        st.html(notice(f"{given.until} is over; choose a later day, or none."))
        return
    cared = [
        dataclasses.replace(
            alert,
            owner=alert.owner if given.owner == owner else given.owner,
            muted_until=alert.muted_until if given.until == until else end,
        )
        for alert in alerts
    ]
    _settle(data.decide_care(alerts, cared, by=given.name, why=given.why))


def _shared(values: Sequence[_Value], none: _Value) -> _Value:
    """Return the value that all have, `none` where they differ."""
    return values[0] if all(value == values[0] for value in values) else none


def _settle(problem: str) -> None:
    if problem:
        st.html(notice(problem))
    else:
        st.rerun()


def signed_in_name(user: Mapping[str, Any]) -> str:
    """Return the name of who is signed in, "" where nobody has to."""
    if not user.get("is_logged_in"):
        return ""
    return str(user.get("email") or user.get("name") or user.get("sub") or "")


def _day(until: datetime | None) -> date | None:
    return None if until is None else until.date()


def _midnight(day: date | None) -> datetime | None:
    return None if day is None else datetime.combine(day, time(), timezone.utc)
