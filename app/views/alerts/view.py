"""The alerts by event, and one event or alert with its evidence and its triage form."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from compile_hud.app import clock
from compile_hud.app.auth import access
from compile_hud.app.components.annotations import show_annotations
from compile_hud.app.components.breadcrumbs import alert_path
from compile_hud.app.components.code_diff import show_code_diff
from compile_hud.app.components.evidence import difference_table
from compile_hud.app.components.page_frame import banners, link_button, stale_note, state_page
from compile_hud.app.components.table.filters import (
    draw_count,
    draw_filter_bar,
    show_no_match,
)
from compile_hud.app.components.table.view import draw_choice, draw_table
from compile_hud.app.components.trend.view import TREND_KEY, show_repro, show_trend
from compile_hud.app.data.annotations import annotated
from compile_hud.app.data.commands import repro, transplanting_command
from compile_hud.app.data.page_records import AlertList, AlertPage
from compile_hud.app.ui.html import caption, chips, command_line, heading, keys_legend
from compile_hud.app.ui.share import Share, file_name, show_share
from compile_hud.app.ui.urls import (
    FINDINGS,
    AlertsState,
    KernelDiffState,
    decide_url,
    event_url,
    kernel_diff_url,
    parse_alerts,
    run_url,
)
from compile_hud.app.views.alerts.alert_grid import (
    alert_grid,
    event_grid,
    filter_bar,
    matching_groups,
)
from compile_hud.app.views.alerts.data import load_alert_list, load_alert_page, load_event_page
from compile_hud.app.views.alerts.event_table import (
    EventGroup,
    attention_text,
    event_facts,
    event_groups,
    events_heading,
)
from compile_hud.app.views.alerts.event_title import case_chips
from compile_hud.app.views.alerts.failure import failure_html
from compile_hud.app.views.alerts.markdown import alert_markdown, event_markdown
from compile_hud.app.views.alerts.new_alerts import mark_seen, see_all
from compile_hud.app.views.alerts.tables import alert_facts, changes_table
from compile_hud.app.views.alerts.triage_form import floor_form, triage_form
from compile_hud.app.views.alerts.undo import show_undo
from compile_hud.app.views.kernel_diff.data import load_alert_kernels
from compile_hud.app.views.kernel_diff.links import alert_kernel_table
from compile_hud.app.views.memory.data import load_alert_memory
from compile_hud.app.views.memory.view import show_memory_changes
from compile_hud.app.views.runs.data import load_new_findings
from compile_hud.app.views.runs.findings import findings_table
from compile_hud.db.errors import NotFoundError
from compile_hud.db.records.alerts import DRIFT, Alert, bound_labels
from compile_hud.db.records.summaries import ResultSummary
from compile_hud.db.records.triage import AlertChange, worst_first
from compile_hud.db.shared.access_rules import Role
from compile_hud.db.shared.text import counted

_DRIFT_TEXT = (
    "From the first run of the drift to the run where it was first seen. No single night explains"
    " a drift."
)
# A longer log is shown in a box of this height, in pixels.
_SHORT_LOG_LINES, _LOG_HEIGHT = 20, 420


def show() -> None:
    """Draw the list of events, or the event or the alert that the URL names."""
    state, problems = parse_alerts(st.query_params.to_dict())
    banners(problems)
    try:
        if state.alert:
            show_alert(state.alert)
        elif state.event:
            show_event(state.event)
        else:
            _show_list(state)
    except NotFoundError as error:
        text = [f"{error}.", "The list of alerts shows every one in state all."]
        state_page("No such alert" if state.alert else "No such event", text=text)
    show_undo()


def _show_list(state: AlertsState) -> None:
    loaded = load_alert_list(state.state)
    see_all()
    stale_note(loaded)
    page = loaded.value
    groups = event_groups(page.alerts, events=page.events)
    now = clock.now()
    shown = matching_groups(groups, state, severities=page.severities, now=now)
    st.html(heading(events_heading(shown) if shown else "Alerts"))
    bar = filter_bar(state, page.alerts)
    draw_filter_bar(bar)
    if shown:
        draw_count(len(shown), len(groups), noun="event")
        st.html(caption(attention_text(shown, now=now)))
        _show_events(page, shown)
        return
    if groups:
        show_no_match(bar, len(groups), noun="event")
        return
    text = "No alert is in this state. Choose all to see earlier ones."
    if not page.has_others:
        text = "Alerts appear when a case gets slower, fails or stops reporting."
    state_page("No alerts", text=[text])


def _show_events(page: AlertList, groups: Sequence[EventGroup]) -> None:
    """Draw the events, and the form for those that are selected."""
    table = event_grid(groups, severities=page.severities, trends=page.trends, now=clock.now())
    if not access.present().may(Role.TRIAGER):
        draw_table(table, key="events")
        st.html(keys_legend())
        return
    chosen = draw_choice(table, key="events", ids=[group.key for group in groups])
    st.html(keys_legend())
    alerts = [alert for group in groups if group.key in chosen for alert in group.alerts]
    if alerts:
        with st.container(key="decide-picked"):
            st.html(heading(f"Triage {counted(len(alerts), 'selected alert')}", level=2))
            triage_form(alerts)


def show_event(event_id: str) -> None:
    """Draw an event with its alerts; raise NotFoundError."""
    loaded = load_event_page(event_id)
    stale_note(loaded)
    page = loaded.value
    mark_seen(page.alerts)
    group = EventGroup(event=page.event, alerts=tuple(worst_first(page.alerts)))
    title = group.short_title
    st.html(alert_path(title.text))
    st.html(heading(title.text))
    st.html(chips((*title.case, *title.scope)))
    triage_form(group.alerts)
    st.html(event_facts(group, now=clock.now()))
    command = repro(group.worst.case, toolchain=group.worst.toolchain)
    show_share(
        Share(
            name=file_name("event", event_id),
            url=event_url(event_id),
            markdown=event_markdown(group.title, group.alerts, command=command),
            command=command,
        )
    )
    draw_table(
        alert_grid(group.alerts, severities=page.severities, trends=page.trends, now=clock.now()),
        key="alerts",
    )
    _show_changes(group.alerts, page.changes)


def show_alert(alert_id: str) -> None:
    """Draw one alert with its evidence; raise NotFoundError."""
    loaded = load_alert_page(alert_id)
    stale_note(loaded)
    page = loaded.value
    alert = page.alert
    mark_seen([alert])
    case = alert.case
    event = None if page.event is None else (page.event.id, "event")
    st.html(alert_path(page.text.title, event=event if page.num_other_alerts else None))
    st.html(heading(page.text.title))
    st.html(chips((*case_chips(case), alert.toolchain, alert.machine)))
    triage_form([alert])
    if page.failure is not None:
        _show_failure(page, page.failure)
    else:
        st.html(alert_facts(page, now=clock.now()))
    metric = page.text.shown_metric
    if page.series is not None and page.series.points:
        series = annotated(page.series, metric=metric)
        show_trend(series, metric=metric, version=loaded.version)
    else:
        show_repro(case, toolchain=alert.toolchain)
    command = repro(case, toolchain=alert.toolchain)
    show_share(
        Share(
            name=file_name("alert", alert.id),
            url=decide_url(alert.id),
            markdown=alert_markdown(alert, text=page.text, command=command),
            command=command,
            chart=TREND_KEY if page.series is not None and page.series.points else "",
        )
    )
    if page.series is not None:
        show_annotations(annotated(page.series, metric=metric), metric=metric)
    if page.failure is None:
        _show_code(page)
        _show_findings(alert)
        _show_kernels(alert)
        _show_memory(alert)
        _show_environment(alert)
    _show_changes([alert], page.changes)
    floor_form(alert)


def _show_failure(page: AlertPage, failure: ResultSummary) -> None:
    """Draw the exception and its stack, then since when, then what differs."""
    st.html(failure_html(failure))
    if failure.log_tail.strip():
        is_long = failure.log_tail.count("\n") > _SHORT_LOG_LINES
        st.code(
            failure.log_tail.rstrip(), language=None, height=_LOG_HEIGHT if is_long else "content"
        )
    else:
        st.html(caption("The worker left no log."))
    st.html(heading("Since when", level=2))
    st.html(alert_facts(page, now=clock.now()))
    if page.code is None and not page.alert.environment_diff:
        st.html(heading("What differs", level=2))
        st.html(caption("No recorded fact differs between the last good and the first bad run."))
    _show_environment(page.alert, title="What differs")
    _show_code(page)
    st.html(heading("History", level=2))


def _show_code(page: AlertPage) -> None:
    if page.code is not None and page.alert.kind != DRIFT:
        st.html(heading("Model code", level=2))
        show_code_diff(page.code)


def _show_environment(alert: Alert, *, title: str = "Environment changes") -> None:
    differences = difference_table(
        alert.environment_diff or {},
        ends=bound_labels(alert.kind),
        label="environment changes",
    )
    if differences:
        st.html(heading(title, level=2))
        if alert.kind == DRIFT:
            st.html(caption(_DRIFT_TEXT))
        st.html(differences)


def _show_findings(alert: Alert) -> None:
    findings = load_new_findings(alert)
    if not findings:
        return
    st.html(heading("New findings since the last good run", level=2))
    run_id, key = alert.first_bad.run_id, alert.case.key
    st.html(findings_table(findings, run_id=run_id, case_key=key, latency_s=None))
    link_button("Open all findings", run_url(run_id, case_key=key, tab=FINDINGS))


def _show_kernels(alert: Alert) -> None:
    kernels = load_alert_kernels(alert).value
    if kernels is None:
        return
    st.html(heading("Kernel-level cause", level=2))
    banners([kernels.noise] if kernels.noise else [])
    if content := alert_kernel_table(kernels):
        st.html(content)
        st.html(caption(kernels.share_text))
    else:
        st.html(caption("No kernel changed beyond noise in the direction of the alert."))
    if command := transplanting_command(alert):
        st.html(command_line(command))
    link_button("Open kernel diff", kernel_diff_url(kernels.state))


def _show_memory(alert: Alert) -> None:
    memory = load_alert_memory(alert).value
    if memory is not None:
        show_memory_changes(memory)
        good, bad = alert.last_good, alert.first_bad
        assert good is not None
        state = KernelDiffState(
            baseline_run=good.run_id, baseline_case=alert.case.key, candidate_run=bad.run_id
        )
        link_button("Open kernel diff", kernel_diff_url(state))


def _show_changes(alerts: Sequence[Alert], changes: Sequence[AlertChange]) -> None:
    st.html(heading("Changes", level=2))
    if changes:
        st.html(changes_table(changes, alerts=alerts))
    else:
        st.html(caption("No changes yet."))
