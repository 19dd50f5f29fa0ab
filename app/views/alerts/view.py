"""One alert or one event: what is behind it, and what people decide about it."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from compile_hud.app.components.alert_rows import alert_metric
from compile_hud.app.components.annotations import show_annotations
from compile_hud.app.components.evidence import difference_table
from compile_hud.app.components.page_frame import notices, stale_note
from compile_hud.app.components.trend.view import TREND_KEY, show_repro, show_trend
from compile_hud.app.data import store as data
from compile_hud.app.data.annotations import annotated
from compile_hud.app.ui.html import caption, heading
from compile_hud.app.ui.share import Share, file_name, show_share
from compile_hud.app.ui.urls import DEFAULT_SERIES_METRIC, decide_url, event_url, kernel_diff_url
from compile_hud.app.views.alerts.event_table import EventGroup, event_facts
from compile_hud.app.views.alerts.markdown import alert_markdown, event_markdown
from compile_hud.app.views.alerts.tables import (
    alert_facts,
    alert_title,
    alerts_table,
    changes_table,
)
from compile_hud.app.views.alerts.triage_form import decision_form
from compile_hud.app.views.kernel_diff import data as diff_data
from compile_hud.app.views.kernel_diff.links import alert_kernel_table, alert_kernel_text
from compile_hud.db.records._merge_ranking import worst_first
from compile_hud.db.records.alerts import DRIFT, end_words
from compile_hud.db.records.results import Alert
from compile_hud.db.records.triage import AlertChange

_DRIFT_TEXT = (
    "All that is different between the run in which the drift began and the one in which it was"
    " first seen. It took many nights: no single one of these stands for it."
)


def show_event(event_id: str) -> None:
    """Draw an event with its alerts; raise NotFoundError."""
    loaded = data.load_event_page(event_id)
    stale_note(loaded)
    page = loaded.value
    group = EventGroup(event=page.event, alerts=tuple(worst_first(page.alerts)))
    st.html(heading(group.words))
    st.html(event_facts(group))
    command = data.repro(group.worst.case, toolchain=group.worst.toolchain)
    show_share(
        Share(
            name=file_name("event", event_id),
            url=event_url(event_id),
            markdown=event_markdown(group.title, group.alerts, command=command),
            command=command,
        )
    )
    st.html(alerts_table(group.alerts, now=data.now()))
    _show_decisions(group.alerts, page.changes)


def show_alert(alert_id: str) -> None:
    """Draw one alert with what is behind it; raise NotFoundError."""
    loaded = data.load_alert_page(alert_id)
    stale_note(loaded)
    page = loaded.value
    alert = page.alert
    case = alert.case
    st.html(heading(alert_title(alert)))
    st.html(alert_facts(page, now=data.now()))
    metric = alert_metric(alert) or DEFAULT_SERIES_METRIC
    if page.series is not None and page.series.points:
        series = annotated(page.series, metric=metric)
        show_trend(series, metric=metric, generation=loaded.generation)
    else:
        show_repro(case, toolchain=alert.toolchain)
    command = data.repro(case, toolchain=alert.toolchain)
    show_share(
        Share(
            name=file_name("alert", alert.id),
            url=decide_url(alert.id),
            markdown=alert_markdown(alert, command=command),
            command=command,
            chart=TREND_KEY if page.series is not None and page.series.points else "",
        )
    )
    if page.series is not None:
        show_annotations(annotated(page.series, metric=metric), metric=metric)
    _show_kernels(alert)
    differences = difference_table(
        alert.environment_diff or {},
        ends=end_words(alert.kind),
        label="what the two ends differ in",
    )
    if differences:
        st.html(heading("What the environments differ in", level=2))
        if alert.kind == DRIFT:
            st.html(caption(_DRIFT_TEXT))
        st.html(differences)
    _show_decisions([alert], page.changes)


def _show_kernels(alert: Alert) -> None:
    kernels = diff_data.load_alert_kernels(alert).value
    if kernels is None:
        return
    st.html(heading("Kernels behind it", level=2))
    notices([kernels.noise] if kernels.noise else [])
    if content := alert_kernel_table(kernels):
        st.html(content)
        st.html(caption(alert_kernel_text(kernels)))
    else:
        st.html(caption("No kernel changed beyond noise in the direction of the alert."))
    st.link_button("What changed in the kernels", kernel_diff_url(kernels.state))


def _show_decisions(alerts: Sequence[Alert], changes: Sequence[AlertChange]) -> None:
    st.html(heading("Decide", level=2))
    decision_form(alerts)
    st.html(heading("Changes", level=2))
    if changes:
        st.html(changes_table(changes, alerts=alerts))
    else:
        st.html(caption("Nobody has changed anything yet."))
