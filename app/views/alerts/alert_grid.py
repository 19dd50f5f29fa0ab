"""The grids of events and of alerts, and the filters of the list. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from compile_hud.app.components.alert_rows import confirmed_text
from compile_hud.app.components.shared_filters import first_moment, range_label
from compile_hud.app.components.table.columns import (
    ChangeColumn,
    DataTable,
    Link,
    LinkColumn,
    NumberColumn,
    TextColumn,
    TimeColumn,
    TrendColumn,
    VerdictColumn,
    data_table,
)
from compile_hud.app.components.table.filters import Filter, FilterBar, options_of
from compile_hud.app.ui.alert_text import alert_text, case_title
from compile_hud.app.ui.urls import (
    ALL_STATES,
    DAY_RANGES,
    AlertsState,
    decide_url,
    run_url,
)
from compile_hud.app.views.alerts.event_table import (
    EventGroup,
    cause_text,
    cause_texts,
    is_ongoing_and_muted,
    kind_text,
    num_series,
    states_text,
)
from compile_hud.app.views.alerts.event_title import case_chips, distinct_titles
from compile_hud.db.records.alerts import LATE, Alert, AlertState, began
from compile_hud.db.records.notifications import Severity
from compile_hud.db.records.triage import search_fields
from compile_hud.db.shared.text import has_words, short_revision

_STATE_LABELS = {"": "open and acknowledged", ALL_STATES: "all"}
# The severity that comes first is the worst.
_SEVERITIES = (Severity.SEVERE, Severity.MAJOR, Severity.MINOR)
_TITLE_WIDTH, _CAUSE_WIDTH, _TREND_WIDTH = 330, 260, 110
_TREND = TrendColumn(label="last runs", help="medians over their own median", width=_TREND_WIDTH)
_REVISION = LinkColumn(
    label="first bad revision", help="opens the run; of a drift, the one where it began"
)
_ATTRIBUTED = TextColumn(label="attributed to", help="the side that changed, if it is known")
_SINCE = TimeColumn(label="since")


def filter_bar(state: AlertsState, alerts: Sequence[Alert]) -> FilterBar:
    """Return the filters of the list; `alerts` are those in the selected state."""
    return FilterBar(
        filters=(
            Filter(
                name="state",
                label="State",
                value=state.state,
                options=(*map(str, AlertState), ALL_STATES),
                text_of=lambda value: _STATE_LABELS.get(value, value),
                width=210,
            ),
            Filter(
                name="model",
                label="Model",
                value=state.model,
                options=options_of(alert.case.model for alert in alerts),
                width=170,
            ),
            Filter(
                name="mode",
                label="Mode",
                value=state.mode,
                options=options_of(alert.case.variant for alert in alerts),
                width=170,
            ),
            Filter(
                name="severity",
                label="Severity",
                value=state.severity,
                options=tuple(map(str, _SEVERITIES)),
                width=110,
            ),
            Filter(
                name="machine",
                label="Machine",
                value=state.machine,
                options=options_of(alert.machine for alert in alerts),
            ),
            Filter(
                name="owner",
                label="Owner",
                value=state.owner,
                options=options_of(alert.owner for alert in alerts),
                width=130,
            ),
            Filter(
                name="began",
                label="Began",
                value=state.began,
                options=DAY_RANGES,
                text_of=lambda value: f"in the last {range_label(value)}" if value else "any time",
                width=190,
            ),
        ),
        text=state.text,
    )


def matching_groups(
    groups: Sequence[EventGroup],
    state: AlertsState,
    *,
    severities: Mapping[str, Severity],
    now: datetime,
) -> list[EventGroup]:
    """Return the events of which an alert passes the filters of `state`."""
    return [
        group
        for group in groups
        if any(_passes(alert, state, severities=severities, now=now) for alert in group.alerts)
        and has_words(state.text, _searched(group, now=now))
    ]


def _passes(
    alert: Alert, state: AlertsState, *, severities: Mapping[str, Severity], now: datetime
) -> bool:
    filters = (
        (state.model, alert.case.model),
        (state.mode, alert.case.variant),
        (state.severity, severities.get(alert.id, "")),
        (state.machine, alert.machine),
        (state.owner, alert.owner),
    )
    since = first_moment(state.began, now=now) if state.began else None
    return all(value in ("", str(actual)) for value, actual in filters) and (
        since is None or began(alert).at >= since
    )


def _searched(group: EventGroup, *, now: datetime) -> list[str]:
    states = states_text(group.alerts, now=now)
    titles = [group.title, group.short_title.text, cause_text(group), states]
    return titles + [
        part for alert in group.alerts for part in (alert_text(alert).topic, *search_fields(alert))
    ]


def event_grid(
    groups: Sequence[EventGroup],
    *,
    severities: Mapping[str, Severity],
    trends: Mapping[str, tuple[float, ...]],
    now: datetime,
) -> DataTable:
    """Return a row for each event; its title opens the page on which it is triaged."""
    every = [alert for group in groups for alert in group.alerts]
    columns = (
        LinkColumn(label="event", help="opens its triage page", width=_TITLE_WIDTH, is_pinned=True),
        VerdictColumn(label="verdict"),
        ChangeColumn(label="change", help="of several cases, the worst"),
        TextColumn(label="metric"),
        _TREND,
        TextColumn(label="severity"),
        _ATTRIBUTED,
        TextColumn(label="state", help="of its alerts"),
        TextColumn(label="owner", is_hidden=not any(alert.owner for alert in every)),
        NumberColumn(label="series"),
        NumberColumn(label="cases", help="without reference cases"),
        _REVISION,
        _SINCE,
        TextColumn(label="cause", width=_CAUSE_WIDTH),
        *_scope_columns(every),
    )
    titles = distinct_titles([group.short_title for group in groups])
    rows = (
        (Link(title, group.url), *_event_row(group, severities=severities, trends=trends, now=now))
        for title, group in zip(titles, groups, strict=True)
    )
    return data_table(columns, rows, label="events")


def _event_row(
    group: EventGroup,
    *,
    severities: Mapping[str, Severity],
    trends: Mapping[str, tuple[float, ...]],
    now: datetime,
) -> tuple[object, ...]:
    worst = group.worst
    kinds, cause = cause_texts(group)
    owners = sorted({alert.owner for alert in group.alerts if alert.owner})
    return (
        worst.verdict,
        group.title_alert.change_pct,
        alert_text(group.title_alert).topic,
        trends.get(group.title_alert.series_key, ()),
        str(severities[worst.id]),
        kinds or None,
        states_text(group.alerts, now=now),
        ", ".join(owners) or None,
        num_series(group),
        group.num_cases,
        *_onset(group.onset),
        cause or None,
        *_scope(worst),
    )


def alert_grid(
    alerts: Sequence[Alert],
    *,
    severities: Mapping[str, Severity],
    trends: Mapping[str, tuple[float, ...]],
    now: datetime,
) -> DataTable:
    """Return a row for each alert; its case opens the page on which it is triaged."""
    columns = (
        LinkColumn(label="case", help="opens the alert for triage", is_pinned=True),
        VerdictColumn(label="verdict"),
        ChangeColumn(label="change"),
        TextColumn(label="95 % interval"),
        TextColumn(label="metric"),
        TextColumn(label="before and after"),
        _TREND,
        TextColumn(label="severity"),
        _ATTRIBUTED,
        TextColumn(label="state"),
        TextColumn(label="owner", is_hidden=not any(alert.owner for alert in alerts)),
        _REVISION,
        _SINCE,
        TextColumn(label="evidence"),
        TextColumn(label="cause", width=_CAUSE_WIDTH),
        LinkColumn(label="history", help="the series of the metric"),
        *_scope_columns(alerts),
    )
    rows = (_alert_row(alert, severities=severities, trends=trends, now=now) for alert in alerts)
    return data_table(columns, rows, label="alerts")


def _alert_row(
    alert: Alert,
    *,
    severities: Mapping[str, Severity],
    trends: Mapping[str, tuple[float, ...]],
    now: datetime,
) -> tuple[object, ...]:
    text = alert_text(alert)
    return (
        Link(case_title(alert.case), decide_url(alert.id)),
        alert.verdict,
        alert.change_pct,
        text.interval or None,
        text.topic,
        # A failure or a missing case has no number, and its word stands in for one.
        text.values or (text.change if alert.change_pct is None else None),
        trends.get(alert.series_key, ()),
        str(severities[alert.id]),
        kind_text(alert.cause_kind) or None,
        f"{alert.state}, muted" if is_ongoing_and_muted(alert, now=now) else str(alert.state),
        alert.owner or None,
        *_onset(alert),
        confirmed_text(alert),
        alert.cause_text or None,
        Link("history", text.url),
        *_scope(alert),
    )


def _scope_columns(alerts: Sequence[Alert]) -> tuple[TextColumn, ...]:
    machines = {alert.machine for alert in alerts}
    toolchains = {alert.toolchain for alert in alerts}
    return (
        TextColumn(label="case details", help="phase, shape, dtype and device"),
        TextColumn(label="machine", is_hidden=len(machines) < 2),
        TextColumn(label="toolchain", is_hidden=len(toolchains) < 2),
    )


def _scope(alert: Alert) -> tuple[str, str, str]:
    return (" ".join(case_chips(alert.case)), alert.machine, alert.toolchain)


def _onset(alert: Alert) -> tuple[Link | None, object]:
    """Return the revision where an alert began and its time; an overdue case has a time only."""
    seen = began(alert)
    if alert.kind == LATE:
        return None, seen.at
    url = run_url(seen.run_id, case_key=alert.case.key)
    return Link(short_revision(seen.revision), url), seen.at
