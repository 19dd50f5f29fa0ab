"""Alert changes that cause notifications. Pure.

Method: compare the alerts before and after a decision of the detector. Alerts of one event that
changed in the same way form one group, so a step in many series causes one notification.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from compile_hud.db.records.alerts import Alert, AlertState, Event, subject_text
from compile_hud.db.records.json_fields import time_to_json
from compile_hud.db.records.notifications import AlertChangeKind, ChangeGroup
from compile_hud.db.records.triage import ONGOING, is_muted
from compile_hud.runner.analysis.alerts.severity import SEVERITY_RANKS, severity_of
from compile_hud.runner.analysis.confirmation.confirmation import is_refuted
from compile_hud.runner.format import levels, percent


def diff_alerts(
    before: Iterable[Alert],
    after: Iterable[Alert],
    *,
    events: Mapping[str, Event],
    at: datetime,
) -> list[ChangeGroup]:
    """Return the changes from `before` to `after`, grouped by event and kind.

    `events` maps the id of an alert to its event. Muted alerts are left out.
    """
    known = {alert.id: alert for alert in before}
    groups: dict[tuple[AlertChangeKind, str], list[Alert]] = defaultdict(list)
    for alert in after:
        kind = _kind(known.get(alert.id), alert)
        if kind is not None and not is_muted(alert, at=at):
            event = events.get(alert.id)
            subject = alert.event_id or alert.id if event is None else event.id
            groups[kind, subject].append(alert)
    return [
        ChangeGroup(
            kind=kind,
            subject=subject,
            title=_title(alerts, events.get(alerts[0].id)),
            alerts=tuple(alerts),
            stamps=tuple(_stamp(kind, alert) for alert in alerts),
        )
        for (kind, subject), alerts in groups.items()
    ]


def _kind(before: Alert | None, alert: Alert) -> AlertChangeKind | None:
    was_ongoing = before is not None and before.state in ONGOING
    if alert.state is AlertState.OPEN:
        if is_refuted(alert):
            return None
        if before is None or is_refuted(before):
            return AlertChangeKind.OPENED
        if before.state is not AlertState.OPEN:
            # An unconfirmed suspicion of one run was never reported.
            is_same = before.verdict is alert.verdict
            return AlertChangeKind.REOPENED if is_same else AlertChangeKind.OPENED
    if before is None or not was_ongoing or is_refuted(before):
        return None
    if alert.state is AlertState.FIXED:
        return AlertChangeKind.FIXED
    if alert.state in ONGOING and is_bisected(alert) and not is_bisected(before):
        return AlertChangeKind.BISECTED
    got_worse = SEVERITY_RANKS.index(severity_of(alert)) > SEVERITY_RANKS.index(severity_of(before))
    return AlertChangeKind.WORSENED if alert.state in ONGOING and got_worse else None


def is_bisected(alert: Alert) -> bool:
    """Return whether launches were compared in a search for the revision behind `alert`."""
    return bool((alert.bisection or {}).get("bisection_id"))


def _stamp(kind: AlertChangeKind, alert: Alert) -> str:
    """Return a stable key of this change among the changes of its kind."""
    if kind is AlertChangeKind.OPENED:
        return alert.first_bad.run_id
    if kind is AlertChangeKind.BISECTED:
        return str((alert.bisection or {}).get("bisection_id"))
    if kind is AlertChangeKind.WORSENED:
        # Each severity counts once, even if the change oscillates about its limit.
        return f"{alert.first_bad.run_id} {severity_of(alert)}"
    return f"{alert.first_bad.run_id} {time_to_json(alert.last_seen)}"


def _title(alerts: Sequence[Alert], event: Event | None) -> str:
    if event is not None and len(alerts) > 1:
        # The size in the event's title is the event's; these alerts may be only some of its alerts.
        return event.title
    worst = max(alerts, key=lambda alert: SEVERITY_RANKS.index(severity_of(alert)))
    others = f" and {len(alerts) - 1} more" if len(alerts) > 1 else ""
    change = levels(worst.baseline, worst.candidate, unit=worst.unit)
    if worst.change_pct:
        change = percent(worst.change_pct)
    # The rest of a cause is below the title.
    cause = "" if change else worst.cause_text.partition(";")[0]
    subject = subject_text(worst.metric, kind=worst.kind, verdict=worst.verdict)
    text = ", ".join(filter(None, (f"{subject} {change}".rstrip(), cause)))
    return f"{worst.case.key}: {text}{others}"


def is_current(kind: AlertChangeKind, alert: Alert, *, at: datetime) -> bool:
    """Return whether a change of `kind` still applies to `alert`."""
    if is_muted(alert, at=at):
        return False
    is_settled = alert.state in (AlertState.NOISE, AlertState.EXPECTED) or is_refuted(alert)
    return kind is AlertChangeKind.FIXED or not is_settled
