"""Alerts that come while a dashboard is open: announced once, shown until the list is opened."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import streamlit as st
from markupsafe import Markup

from compile_hud.app import clock
from compile_hud.app.data.latest_results import load_open_regressions
from compile_hud.app.ui.alert_text import alert_text
from compile_hud.app.ui.templates.environment import render
from compile_hud.app.ui.urls import AlertsState, alerts_url, decide_url
from compile_hud.db.errors import StoreError
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.triage import is_muted
from compile_hud.db.shared.text import counted

# Ids of the alerts that a browser window has seen, and of those that were announced in it.
_SEEN = "alerts-seen"
_ANNOUNCED = "alerts-told"
# The others are behind one link.
_NUM_NAMED = 3


def show_new_alerts() -> None:
    """Draw a line about the open regressions that are new since this window was opened."""
    try:
        regressions = load_open_regressions().value
    except StoreError:
        # The page itself reports an error of the store.
        return
    now = clock.now()
    alerts = [alert for alert in regressions if not is_muted(alert, at=now)]
    seen: set[str] = st.session_state.setdefault(_SEEN, {alert.id for alert in alerts})
    announced: set[str] = st.session_state.setdefault(_ANNOUNCED, set())
    new = [alert for alert in alerts if alert.id not in seen]
    if not new:
        return
    if {alert.id for alert in new} - announced:
        announced.update(alert.id for alert in new)
        st.toast(f"{counted(len(new), 'new alert')} since you opened this page.", duration="long")
    st.html(new_alerts_html(new))


def see_all() -> None:
    """Mark all alerts as seen: this is the page that lists them."""
    st.session_state.pop(_SEEN, None)


def mark_seen(alerts: Iterable[Alert]) -> None:
    """Mark alerts as seen: the person looks at them, or has decided about them."""
    seen: set[str] | None = st.session_state.get(_SEEN)
    if seen is not None:
        seen.update(alert.id for alert in alerts)


def new_alerts_html(new: Sequence[Alert]) -> Markup:
    """Return a line that names the first new alerts, each a link to it."""
    links = [(alert_text(alert).title, decide_url(alert.id)) for alert in new[:_NUM_NAMED]]
    if len(new) > _NUM_NAMED:
        links.append((f"{len(new) - _NUM_NAMED} more", alerts_url(AlertsState())))
    return render("views.html", "new_alerts", title=counted(len(new), "new alert"), links=links)
