"""The alerts by event, and one event or alert with what people may decide about it."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from compile_hud.app.auth import access
from compile_hud.app.components.page_frame import choose, notices, stale_note, state_page
from compile_hud.app.data import store as data
from compile_hud.app.ui.html import heading
from compile_hud.app.ui.scripts import KEYS_LEGEND, picked
from compile_hud.app.ui.urls import ALL_STATES, parse_alerts
from compile_hud.app.views.alerts.event_table import event_groups, event_table, events_heading
from compile_hud.app.views.alerts.new_alerts import see_all
from compile_hud.app.views.alerts.triage_form import decision_form
from compile_hud.app.views.alerts.view import show_alert, show_event
from compile_hud.db.errors import NotFoundError
from compile_hud.db.records.results import Alert, AlertState
from compile_hud.db.shared.access_rules import Role

_STATE_LABELS = {"": "open and acknowledged", ALL_STATES: "all"}


def show() -> None:
    """Draw the list of events, or the event or the alert that the URL names."""
    state, problems = parse_alerts(st.query_params.to_dict())
    notices(problems)
    try:
        if state.alert:
            show_alert(state.alert)
        elif state.event:
            show_event(state.event)
        else:
            _show_list(state.state)
    except NotFoundError as error:
        text = [f"{error}.", "The list of alerts shows every one in state all."]
        state_page("No such alert" if state.alert else "No such event", text=text)


def _show_list(state: str) -> None:
    loaded = data.load_alert_list(state)
    see_all()
    stale_note(loaded)
    page = loaded.value
    groups = event_groups(page.alerts, events=page.events)
    st.html(heading(events_heading(groups) if groups else "Alerts"))
    choose(
        "State",
        name="state",
        options=["", *(str(item) for item in AlertState), ALL_STATES],
        value=state,
        format_func=lambda value: _STATE_LABELS.get(value, value),
        width=260,
    )
    if groups:
        can_pick = access.present().may(Role.TRIAGER)
        st.html(event_table(groups, now=data.now(), can_pick=can_pick))
        st.html(KEYS_LEGEND)
        if can_pick:
            _show_picked(page.alerts)
        return
    text = "No alert is in this state. Choose all to see what there was."
    if not page.has_others:
        text = "A change that lasts, a case that fails or one that vanishes makes the first line."
    state_page("No alerts", text=[text])


def _show_picked(alerts: Sequence[Alert]) -> None:
    """Draw the decision about what is selected in the table, once something is."""
    ids = picked([alert.id for alert in alerts], key="picked")
    chosen = [alert for alert in alerts if alert.id in ids]
    if chosen:
        with st.container(key="decide-picked"):
            st.html(heading(f"Decide about {len(chosen)} selected", level=2))
            decision_form(chosen, is_brief=True)
