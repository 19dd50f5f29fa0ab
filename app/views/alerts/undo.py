"""The toast of the last triage decision of a browser window, with Undo."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import streamlit as st

from compile_hud.app import clock
from compile_hud.app.components.author import remembered_name
from compile_hud.app.data import triage
from compile_hud.app.data.triage import DecisionNote, SaveReport, Undo
from compile_hud.app.ui.templates.environment import render
from compile_hud.app.views.alerts.new_alerts import mark_seen
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.shared.text import counted

# The toast of this window, and the number of the next one.
_TOAST, _NUMBER = "undo-triage", "undo-number"
# The style sheet fades the toast out at this time.
_SHOWN_FOR = timedelta(seconds=25)
# The keys under which a window stores the alerts of its forms begin with these.
SEEN_KEYS = ("seen ", "note ")
_DONE_WORDS = {
    AlertState.OPEN: "reopened",
    AlertState.ACKNOWLEDGED: "acknowledged",
    AlertState.EXPECTED: "expected",
    AlertState.NOISE: "marked as noise",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Toast:
    """The text of a decision, with Undo if the decision can be taken back."""

    number: int
    at: datetime
    text: str
    undo: Undo | None


def done_text(report: SaveReport, *, word: str) -> str:
    """Return the text of the toast about a decision, of which `word` names the result."""
    after = report.undo.after if report.undo else ()
    if not after:
        return "Nothing to change."
    subject = f"{after[0].case.model} / {after[0].case.variant}"
    return f"{subject if len(after) == 1 else counted(len(after), 'alert')}: {word}."


def state_word(state: AlertState) -> str:
    """Return the result of a decision for `state` in words."""
    return _DONE_WORDS[state]


def offer_undo(report: SaveReport, *, text: str) -> None:
    """Show `text` in the next toast, with Undo if the decision can be taken back."""
    number = st.session_state.get(_NUMBER, 0)
    st.session_state[_NUMBER] = number + 1
    toast = _Toast(number=number, at=clock.now(), text=text, undo=report.undo)
    st.session_state[_TOAST] = toast
    if report.undo is not None:
        # The person who decides knows of it.
        mark_seen(report.undo.after)


def drop_toast() -> None:
    """Forget the toast, since the person has left its page."""
    st.session_state.pop(_TOAST, None)


def acknowledge(alerts: tuple[Alert, ...]) -> None:
    """Acknowledge open alerts as they were shown; the next toast has the result."""
    state = AlertState.ACKNOWLEDGED
    note = DecisionNote(author=remembered_name())
    report = triage.decide_state(alerts, state, note=note)
    after = _just_decided(alerts, state) if report.problem else ()
    if after and not triage.decide_state(after, state, note=note).problem:
        # The second click of a double click finds its decision saved.
        return
    offer_undo(report, text=report.problem or done_text(report, word=state_word(state)))


def was_just_decided(alerts: Sequence[Alert], state: str) -> bool:
    """Return whether the present toast is about `alerts` in this state."""
    toast = _present_toast()
    if toast is None or toast.undo is None:
        return False
    after = {alert.id: alert for alert in toast.undo.after}
    return all(alert.id in after and str(after[alert.id].state) == state for alert in alerts)


def _just_decided(alerts: Sequence[Alert], state: AlertState) -> tuple[Alert, ...]:
    """Return `alerts` as the present toast has left them, none if that is another decision."""
    toast = _present_toast()
    if toast is None or toast.undo is None or not was_just_decided(alerts, state):
        return ()
    ids = {alert.id for alert in alerts}
    is_same = ids <= {alert.id for alert in toast.undo.before if alert in alerts}
    return tuple(alert for alert in toast.undo.after if alert.id in ids) if is_same else ()


def _present_toast() -> _Toast | None:
    toast = st.session_state.get(_TOAST)
    is_present = isinstance(toast, _Toast) and clock.now() - toast.at <= _SHOWN_FOR
    return toast if is_present else None


def show_undo() -> None:
    """Draw the toast of this page's last decision, with the button that takes it back."""
    toast = _present_toast()
    if toast is None:
        return
    # A browser fades an element once, so the style sheet has two fades, and toasts alternate.
    key = f"hud-toast-{toast.number % 2}"
    with st.container(key=key, horizontal=True, vertical_alignment="center", gap="small"):
        st.html(render("parts.html", "status", words=toast.text), width="content")
        if toast.undo is not None and st.button("Undo", key="decide-undo", type="tertiary"):
            # The author is the one of the decision.
            problem = triage.take_back(toast.undo, note=DecisionNote(author=remembered_name()))
            _forget_seen()
            mark_seen(toast.undo.before)
            offer_undo(SaveReport(), text=problem or "Taken back.")
            st.rerun()


def _forget_seen() -> None:
    """Clear the stored alerts of every form, since Undo changed some of them."""
    for key in [key for key in st.session_state if str(key).startswith(SEEN_KEYS)]:
        del st.session_state[key]
