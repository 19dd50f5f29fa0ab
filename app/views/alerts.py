"""The alerts: all of them by state, and one of them with what people may decide about it."""

from __future__ import annotations

import streamlit as st

from app import data
from app.alertpage import (
    alert_facts,
    alerts_in,
    alerts_table,
    changes_table,
)
from app.components import choose, notices, stale_note, state_page
from app.deciding import decision_form
from app.evidence import difference_table
from app.markup import heading
from app.pages import AlertsPage
from app.ranking import change_text
from app.state import ALL_STATES, AlertsState, parse_alerts
from db.records import Alert, AlertState

_STATE_LABELS = {"": "open and acknowledged", ALL_STATES: "all"}


def show() -> None:
    """Draw the list of alerts, or the one that the URL names."""
    state, problems = parse_alerts(st.query_params.to_dict())
    loaded = data.load_alerts_page()
    notices(problems)
    stale_note(loaded)
    if not state.alert:
        _show_list(loaded.value, state)
        return
    alert = next((item for item in loaded.value.alerts if item.id == state.alert), None)
    if alert is None:
        text = f"The store has no alert {state.alert}. The list shows every one in state all."
        state_page("No such alert", text=[text])
        return
    _show_alert(alert, loaded.value)


def _show_list(page: AlertsPage, state: AlertsState) -> None:
    st.html(heading("Alerts"))
    choose(
        "State",
        name="state",
        options=["", *(str(item) for item in AlertState), ALL_STATES],
        value=state.state,
        format_func=lambda value: _STATE_LABELS.get(value, value),
        width=260,
    )
    found = alerts_in(page.alerts, state=state.state)
    if found:
        st.html(alerts_table(found, now=data.now()))
        return
    text = "No alert is in this state. Choose all to see what there was."
    if not page.alerts:
        text = "A change that lasts, a case that fails or one that vanishes makes the first line."
    state_page("No alerts", text=[text])


def _show_alert(alert: Alert, page: AlertsPage) -> None:
    case = alert.case
    st.html(heading(f"{case.model} {case.variant} {change_text(alert)}"))
    st.html(alert_facts(alert, now=data.now()))
    if differences := difference_table(alert):
        st.html(differences)
    changes = [change for change in page.changes if change.alert_id == alert.id]
    st.html(heading("Decide", level=2))
    decision_form(alert, num_changes=len(changes))
    st.html(heading("Changes", level=2))
    if changes:
        st.html(changes_table(changes))
    else:
        st.caption("Nobody has changed anything yet.")
