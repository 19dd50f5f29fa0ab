"""The form in which people decide about an alert."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time, timezone
from typing import Any

import streamlit as st

from app import data
from app.alertpage import DECISIONS, DECISIONS_TEXT
from app.markup import notice
from db.records import Alert
from db.triage import JUDGE

# Kept by the browser's session, so that one gives it once.
_NAME = "decided-by"


def decision_form(alert: Alert, *, num_changes: int) -> None:
    """Draw what people may decide about `alert`, and save what they chose.

    `num_changes` is how many changes there were: what was typed for the last is not the next one's.
    """
    key = f"{alert.id}-{num_changes}"
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
                    label, key=f"decide-{state}", disabled=state == alert.state
                )
            ]
        st.caption(DECISIONS_TEXT)
        with st.container(horizontal=True, gap="small", vertical_alignment="bottom"):
            owner = st.text_input("Owner", value=alert.owner, key=f"owner-{key}", width=200)
            until = st.date_input(
                "Muted until (UTC)", value=_day(alert.muted_until), key=f"until-{key}", width=200
            )
            is_saving = st.form_submit_button("Save owner and mute", key="decide-save")
    who = signed_in or name.strip()
    if who in ("", JUDGE) and (chosen or is_saving):
        st.html(
            notice(
                f"Who decides? Give your name, which is not {JUDGE}: it is kept with the change."
            )
        )
    elif chosen:
        _settle(data.decide_state(alert.id, chosen[0], by=who, why=why))
    elif is_saving:
        is_kept = until == _day(alert.muted_until)
        end = alert.muted_until if is_kept else _midnight(until)
        if not is_kept and end is not None and end <= data.now():
            st.html(notice(f"{until} is over; choose a later day, or none."))
            return
        _settle(data.decide_care(alert, owner=owner.strip(), until=end, by=who, why=why))


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
