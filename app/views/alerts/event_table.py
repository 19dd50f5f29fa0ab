"""The events of the alerts page: a change that shows in many series is one event. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from compile_hud.app.components.alert_rows import case_of, is_by_machine, needs_attention
from compile_hud.app.ui.alert_text import alert_text
from compile_hud.app.ui.html import Cell, key_values, time_cell
from compile_hud.app.ui.urls import decide_url, event_url
from compile_hud.app.views.alerts.event_title import EventTitle, event_title, latency_of
from compile_hud.app.views.alerts.tables import run_ref_cell
from compile_hud.db.records.alerts import (
    DRIFT,
    Alert,
    AlertState,
    Event,
    alert_bounds,
    leading,
    onset_of,
)
from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import RunRef, Verdict
from compile_hud.db.records.triage import (
    ONGOING,
    is_higher_better,
    is_muted,
    worsening,
    worst_first,
)
from compile_hud.db.shared.text import counted

_UNKNOWN = "unknown"
# By whether the event is about several cases.
_CHANGE_LABELS = {False: "change", True: "worst change"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EventGroup:
    """The alerts of one event, the worst first; `event` is None for a single alert."""

    event: Event | None
    alerts: tuple[Alert, ...]

    @property
    def key(self) -> str:
        """Return a text that is the same for the same event at another time."""
        return self.alerts[0].event_id or f"alert {self.alerts[0].id}"

    @property
    def worst(self) -> Alert:
        """Return the worst of the ongoing alerts, else of the settled ones."""
        ongoing = (alert for alert in self.alerts if alert.state in ONGOING)
        return next(ongoing, self.alerts[0])

    @property
    def own(self) -> tuple[Alert, ...]:
        """Return the alerts without those of reference cases, which show the machine."""
        return tuple(alert for alert in self.alerts if not alert.case.is_reference)

    @property
    def title_alert(self) -> Alert:
        """Return the alert that the title is about: the latency of one case, else the worst."""
        alerts = self.own or self.alerts
        ongoing = (alert for alert in alerts if alert.state in ONGOING)
        return latency_of(alerts) or next(ongoing, alerts[0])

    @property
    def num_cases(self) -> int:
        """Return the number of cases; reference cases count if there are no others."""
        return len({alert.case.key for alert in self.own or self.alerts})

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
    def url(self) -> str:
        """Return the URL of the event's triage page; that of its alert for a single one."""
        if len(self.alerts) == 1:
            return decide_url(self.worst.id)
        return event_url(self.worst.event_id)

    @property
    def onset(self) -> Alert:
        """Return the leading alert that dates the event."""
        return onset_of(leading(self.alerts))


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


def events_heading(groups: Sequence[EventGroup]) -> str:
    """Return the number of alerts and of events in the list."""
    num_alerts = sum(len(group.alerts) for group in groups)
    return f"{counted(num_alerts, 'alert')} in {counted(len(groups), 'event')}".capitalize()


def attention_text(groups: Sequence[EventGroup], *, now: datetime) -> str:
    """Return the alerts and cases that need attention, and why the other alerts do not."""
    alerts = [alert for group in groups for alert in group.alerts]
    urgent = [alert for alert in alerts if needs_attention(alert, at=now)]
    verb = "needs" if len(urgent) == 1 else "need"
    cases = f" in {counted(len({case_of(alert) for alert in urgent}), 'case')}" if urgent else ""
    text = f"{counted(len(urgent), 'alert')}{cases} {verb} attention".capitalize()
    counts = Counter(filter(None, (_quiet_reason(alert, now=now) for alert in alerts)))
    others = ", ".join(
        counted(number, reason) if reason == Verdict.IMPROVEMENT else f"{number} {reason}"
        for reason, number in counts.most_common()
    )
    return f"{text}. Other alerts: {others}." if others else f"{text}."


def _quiet_reason(alert: Alert, *, now: datetime) -> str:
    """Return the reason why an alert needs no attention, "" if it does."""
    if needs_attention(alert, at=now):
        return ""
    if alert.state is not AlertState.OPEN:
        return str(alert.state)
    if alert.verdict is not Verdict.REGRESSION:
        return str(alert.verdict)
    return "attributed to the machine" if is_by_machine(alert) else "muted"


def event_facts(group: EventGroup, *, now: datetime) -> str:
    """Return the facts of one event."""
    worst, onset = group.worst, group.onset
    text = alert_text(group.title_alert)
    change = f"{text.mark} {text.interval}".rstrip()
    references = {alert.case.key for alert in group.alerts if alert.case.is_reference}
    models = {alert.case.model for alert in group.alerts if not alert.case.is_reference}
    pairs = [
        ("alerts", Cell(text=states_text(group.alerts, now=now))),
        ("series", Cell(text=str(num_series(group)))),
        *([("cases", Cell(text=str(group.num_cases)))] if group.own else []),
        ("models", Cell(text=", ".join(sorted(models)) or "-")),
        *([("reference cases", Cell(text=str(len(references))))] if references else []),
        (
            _CHANGE_LABELS[group.num_cases > 1],
            Cell(text=", ".join(filter(None, (change, _in_time(group.title_alert))))),
        ),
        *((name, run_ref_cell(seen)) for name, seen in _dated_runs(onset)),
        *(
            [("last seen", time_cell(max(item.last_seen for item in group.alerts)))]
            if onset.kind == DRIFT
            else []
        ),
        ("where", Cell(text=f"{worst.machine}, toolchain {worst.toolchain}")),
        ("cause", Cell(text=cause_text(group), style="whole")),
    ]
    return key_values(pairs)


def _dated_runs(onset: Alert) -> list[tuple[str, RunRef | None]]:
    """Return the first bad and the last good run; of a drift, only the one where it began."""
    bounds = alert_bounds(onset)
    return list(bounds[:1] if onset.kind == DRIFT else bounds)


def cause_texts(group: EventGroup) -> tuple[str, str]:
    """Return the kinds of the causes, the most frequent first, and the text of the worst one.

    Alerts without a known cause do not count; without any there is no kind.
    """
    kinds = Counter(item.cause_kind for item in group.alerts if item.cause_kind != _UNKNOWN)
    if not kinds:
        return "", group.worst.cause_text or _UNKNOWN
    first_known = next(item for item in group.alerts if item.cause_kind != _UNKNOWN)
    named = ", ".join(kind_text(kind) for kind, _ in kinds.most_common())
    return named, first_known.cause_text


def cause_text(group: EventGroup) -> str:
    """Return the causes in one line; a kind that the text itself names is not repeated."""
    kinds, text = cause_texts(group)
    return text if not kinds or f"{kinds} side" in text else f"{kinds}: {text}"


def kind_text(kind: str) -> str:
    """Return the kind of a cause in words, "" for an unknown one."""
    return "" if kind == _UNKNOWN else kind.replace("_", " ")


def states_text(alerts: Sequence[Alert], *, now: datetime) -> str:
    """Return the number of alerts in each state, `19 open, 2 noise`, and of the muted ones."""
    counts = Counter(alert.state for alert in alerts)
    texts = [f"{counts[state]} {state}" for state in AlertState if counts[state]]
    num_ongoing = sum(alert.state in ONGOING for alert in alerts)
    if num_muted := sum(is_ongoing_and_muted(alert, now=now) for alert in alerts):
        texts.append("muted" if num_muted == num_ongoing else f"{num_muted} muted")
    return ", ".join(texts)


def is_ongoing_and_muted(alert: Alert, *, now: datetime) -> bool:
    """Return whether an alert is silent for its mute alone: a settled one is silent anyway."""
    return alert.state in ONGOING and is_muted(alert, at=now)


def _in_time(alert: Alert) -> str:
    """Return a change as a change of time, "" if its metric has that already.

    This is for metrics of which more is better: 13.5 % more speedup is 11.9 % less time.
    """
    metric = METRICS.get(alert.metric)
    has_ideal = metric is not None and metric.ideal is not None
    has_time = alert.change_pct is not None and alert.change_pct > -100
    if not has_time or has_ideal or not is_higher_better(alert):
        return ""
    factor = worsening(alert)
    word = "slower" if factor > 1 else "faster"
    return f"{word} by {abs(100 * factor - 100):.1f} %"


def num_series(group: EventGroup) -> int:
    """Return the number of series that show the event."""
    return len({alert.series_key for alert in group.alerts})
