"""The events of the alerts page: a change that shows in many series is one row. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from compile_hud.app.components.alert_rows import revision_cell
from compile_hud.app.ui.alert_text import alert_text
from compile_hud.app.ui.html import Cell, ExpandableRow, HtmlColumn, Note, grouped_table, key_values
from compile_hud.app.ui.urls import decide_url, event_url
from compile_hud.app.views.alerts.event_title import EventTitle, event_title, latency_of
from compile_hud.app.views.alerts.tables import alerts_table, pick_cell, pick_column, run_ref_cell
from compile_hud.db.records.alerts import Alert, AlertState, Event, alert_bounds, began, leading
from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.triage import ONGOING, is_higher_better, worsening, worst_first
from compile_hud.db.shared.text import counted

_COLUMNS = (
    HtmlColumn(label="event", title="one change, however many series show it"),
    HtmlColumn(label="worst change", is_number=True),
    HtmlColumn(label="series", is_number=True),
    HtmlColumn(
        label="first bad revision",
        title="that of most of its alerts; that a drift was first seen with; opens the run",
    ),
    HtmlColumn(label="cause", title="as far as the measurements tell"),
)
_UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventGroup:
    """The alerts of one event, the worst first; `event` is None for a single alert."""

    event: Event | None
    alerts: tuple[Alert, ...]

    @property
    def worst(self) -> Alert:
        """Return the worst of the ongoing alerts, else of the settled ones."""
        ongoing = (alert for alert in self.alerts if alert.state in ONGOING)
        return next(ongoing, self.alerts[0])

    @property
    def title(self) -> str:
        """Return the title of the event, else the text of its worst alert."""
        if self.event is not None:
            return self.event.title
        return f"{self.worst.case.key}: {alert_text(self.worst).named_change}"

    @property
    def short_title(self) -> EventTitle:
        """Return the title in its parts, for pages."""
        return event_title(self.event, self.alerts, onset=self.onset)

    @property
    def words(self) -> str:
        """Return the title without the parts that other columns and facts have."""
        return self.short_title.text

    @property
    def url(self) -> str:
        """Return the URL of the event's triage page; that of its alert for a single one."""
        if len(self.alerts) == 1:
            return decide_url(self.worst.id)
        return event_url(self.worst.event_id)

    @property
    def onset(self) -> Alert:
        """Return the first alert of the run with which most leading alerts begin; on a tie, the
        earlier one.
        """
        alerts = leading(self.alerts)
        counts = Counter(began(alert).run_id for alert in alerts)
        return min(alerts, key=lambda alert: (-counts[began(alert).run_id], alert.first_bad.at))


def event_groups(alerts: Iterable[Alert], *, events: Mapping[str, Event]) -> list[EventGroup]:
    """Return the events of `alerts`, the one with the worst ongoing alert first."""
    by_event: dict[str, list[Alert]] = defaultdict(list)
    for alert in worst_first(alerts):
        by_event[alert.event_id or f"alert {alert.id}"].append(alert)
    groups = [
        EventGroup(event=events.get(together[0].event_id), alerts=tuple(together))
        for together in by_event.values()
    ]
    by_worst = {group.worst.id: group for group in groups}
    return [by_worst[alert.id] for alert in worst_first(group.worst for group in groups)]


def event_table(groups: Sequence[EventGroup], *, now: datetime, can_pick: bool = False) -> str:
    """Return a row for each event; it opens to its alerts, and boxes can select them."""
    every = [alert for group in groups for alert in group.alerts]
    num_places = len({(alert.machine, alert.toolchain) for alert in every})
    rows = [
        ExpandableRow(
            row=(
                *([pick_cell(group.alerts, group.title)] if can_pick else []),
                *_row(group, now=now, names_scope=num_places > 1),
            ),
            summary=counted(len(group.alerts), "alert"),
            content=alerts_table(group.alerts, now=now, can_pick=can_pick),
        )
        for group in groups
    ]
    return grouped_table((*pick_column(every, can_pick=can_pick), *_COLUMNS), rows, label="events")


def events_heading(groups: Sequence[EventGroup]) -> str:
    """Return the number of alerts and of events in the list."""
    num_alerts = sum(len(group.alerts) for group in groups)
    return f"{counted(num_alerts, 'alert')} in {counted(len(groups), 'event')}".capitalize()


def event_facts(group: EventGroup) -> str:
    """Return the facts of one event."""
    worst, onset = group.worst, group.onset
    text = alert_text(worst)
    change = f"{text.topic} {text.change} {text.interval}".rstrip()
    cases = {alert.case.key for alert in group.alerts}
    pairs = [
        ("alerts", Cell(text=states_text(group.alerts))),
        ("series", Cell(text=str(_num_series(group)))),
        ("cases", Cell(text=str(len(cases)))),
        ("models", Cell(text=", ".join(sorted({alert.case.model for alert in group.alerts})))),
        (
            "worst change",
            Cell(text=", ".join(filter(None, (change, _in_time(group))))),
        ),
        *((name, run_ref_cell(seen)) for name, seen in alert_bounds(onset)),
        ("where", Cell(text=f"{worst.machine}, toolchain {worst.toolchain}")),
        ("cause", Cell(text=cause_text(group), style="whole")),
    ]
    return key_values(pairs)


def cause_texts(group: EventGroup) -> tuple[str, str]:
    """Return the kinds of the causes, the most frequent first, and the text of the worst one.

    Alerts without a known cause do not count; without any there is no kind.
    """
    kinds = Counter(item.cause_kind for item in group.alerts if item.cause_kind != _UNKNOWN)
    if not kinds:
        return "", group.worst.cause_text or _UNKNOWN
    first_known = next(item for item in group.alerts if item.cause_kind != _UNKNOWN)
    named = ", ".join(kind for kind, _ in kinds.most_common())
    return named.replace("_", " "), first_known.cause_text


def cause_text(group: EventGroup) -> str:
    """Return the causes in one line; a kind that the text itself names is not repeated."""
    kinds, text = cause_texts(group)
    return text if not kinds or f"{kinds} side" in text else f"{kinds}: {text}"


def states_text(alerts: Sequence[Alert]) -> str:
    """Return the number of alerts in each state, `19 open, 2 noise`."""
    counts = Counter(alert.state for alert in alerts)
    return ", ".join(f"{counts[state]} {state}" for state in AlertState if counts[state])


def _row(group: EventGroup, *, now: datetime, names_scope: bool) -> Sequence[Cell]:
    worst, text = group.worst, alert_text(group.worst)
    kinds, cause = cause_texts(group)
    owners = sorted({alert.owner for alert in group.alerts if alert.owner})
    notes = [states_text(group.alerts), *(f"owner {owner}" for owner in owners)]
    if names_scope:
        notes.append(f"{worst.toolchain} on {worst.machine}")
    num_cases = len({alert.case.key for alert in group.alerts})
    return (
        Cell(
            text=group.words,
            href=group.url,
            style="strong symbol jump",
            title="opens its triage page",
            notes=tuple(
                Note(text=item)
                for item in (" ".join(group.short_title.case), ", ".join(notes))
                if item
            ),
        ),
        Cell(
            text=text.change,
            style=text.style,
            title=worst.case.key,
            notes=tuple(Note(text=item) for item in (text.topic, _in_time(group)) if item)
            if text.topic != worst.kind
            else (),
        ),
        Cell(text=str(_num_series(group)), notes=(Note(text=counted(num_cases, "case")),)),
        revision_cell(group.onset, now=now),
        Cell(
            text=kinds or cause,
            style="prose clip",
            title=cause,
            notes=(Note(text=cause),) if kinds else (),
        ),
    )


def _in_time(group: EventGroup) -> str:
    """Return the worst change as a change of time, "" if its metric or the title has that.

    This is for metrics of which more is better: 13.5 % more speedup is 11.9 % less time.
    """
    alert = group.worst
    if latency_of(group.alerts) is not None:
        return ""
    metric = METRICS.get(alert.metric)
    has_ideal = metric is not None and metric.ideal is not None
    has_time = alert.change_pct is not None and alert.change_pct > -100
    if not has_time or has_ideal or not is_higher_better(alert):
        return ""
    factor = worsening(alert)
    word = "slower" if factor > 1 else "faster"
    return f"{word} by {abs(100 * factor - 100):.1f} %"


def _num_series(group: EventGroup) -> int:
    return len({alert.series_key for alert in group.alerts})
