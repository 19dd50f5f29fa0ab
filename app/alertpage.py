"""How alerts and their changes read on the alerts page. Pure: records in, HTML out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from datetime import datetime

from app.evidence import confirmation_text
from app.format import moment, percent_interval
from app.markup import Cell, Column, Note, facts, table
from app.ranking import (
    ALERT_COLUMNS,
    alert_metric,
    alert_row,
    alert_url,
    change_text,
    levels_text,
)
from app.state import ALL_STATES, decide_url, run_url
from db.metrics import METRICS
from db.ranking import worst_first
from db.records import Alert, AlertState
from db.sighting import Sighting
from db.triage import AlertChange, ChangedField, is_muted

ONGOING = (AlertState.OPEN, AlertState.ACKNOWLEDGED)
# What a button says, and the state it leads to.
DECISIONS = {
    "Acknowledge": AlertState.ACKNOWLEDGED,
    "Expected": AlertState.EXPECTED,
    "Noise": AlertState.NOISE,
    "Reopen": AlertState.OPEN,
}
DECISIONS_TEXT = (
    "Acknowledge: somebody looks after it until the level is back. Expected: the new level is"
    " right, and the baseline from the first bad run on. Noise: it means nothing and stays silent."
    " Reopen takes any of these back."
)
_COLUMNS = (Column(label="state", title="opens the alert, to decide about it"), *ALERT_COLUMNS)
_CHANGE_COLUMNS = (
    Column(label="when"),
    Column(label="who"),
    Column(label="what"),
    Column(label="was"),
    Column(label="is"),
    Column(label="why"),
)


def alerts_in(alerts: Iterable[Alert], *, state: str) -> list[Alert]:
    """Return the alerts in one state, in all, or for "" the ongoing ones, the worst first."""
    if state == ALL_STATES:
        return worst_first(alerts)
    wanted = (AlertState(state),) if state else ONGOING
    return worst_first(alert for alert in alerts if alert.state in wanted)


def alerts_table(alerts: Sequence[Alert], *, now: datetime) -> str:
    """Return a row for each alert; its state leads to its own page."""
    has_several = len({alert.toolchain for alert in alerts}) > 1
    rows = [
        (_state_cell(alert, now=now), *alert_row(alert, now=now, names_toolchain=has_several))
        for alert in alerts
    ]
    return table(_COLUMNS, rows, label="alerts")


def alert_facts(alert: Alert, *, now: datetime) -> str:
    """Return what is known of one alert."""
    interval = percent_interval(alert.interval_pct) if alert.interval_pct else ""
    metric = METRICS.get(alert.metric)
    state = dataclasses.replace(_state_cell(alert, now=now), href="")
    pairs = [
        ("alert", Cell(text=alert.id)),
        ("state", state),
        ("change", Cell(text=f"{change_text(alert)} {interval}".strip(), href=alert_url(alert))),
        ("level", Cell(text=levels_text(alert) or "-")),
        (
            "metric",
            Cell(
                text=alert_metric(alert) or alert.kind, title=metric.description if metric else ""
            ),
        ),
        ("first bad", _sighting(alert.first_bad, alert)),
        ("last good", _sighting(alert.last_good, alert)),
        ("last seen", Cell(text=moment(alert.last_seen))),
        ("where", Cell(text=f"{alert.machine}, toolchain {alert.toolchain}")),
        ("case", Cell(text=alert.case.key, href=alert_url(alert))),
        ("cause", Cell(text=alert.cause_text or alert.cause_kind, style="whole")),
    ]
    if told := confirmation_text(alert):
        pairs.append(("measured again", Cell(text=told, style="whole")))
    if alert.note:
        pairs.append(("note", Cell(text=alert.note, style="whole")))
    return facts(pairs)


def changes_table(changes: Sequence[AlertChange]) -> str:
    """Return a row for each change, the newest first."""
    rows = [
        (
            Cell(text=moment(change.at)),
            Cell(text=change.by),
            Cell(text=str(change.field).replace("_", " ")),
            Cell(text=_value(change.field, change.old)),
            Cell(text=_value(change.field, change.new)),
            Cell(text=change.why, style="prose"),
        )
        for change in reversed(changes)
    ]
    return table(_CHANGE_COLUMNS, rows, label="changes")


def _state_cell(alert: Alert, *, now: datetime) -> Cell:
    notes = [f"owner {alert.owner}"] if alert.owner else []
    if alert.muted_until is not None and is_muted(alert, at=now):
        notes.append(f"muted until {moment(alert.muted_until)}")
    return Cell(
        text=str(alert.state),
        href=decide_url(alert.id),
        title=alert.note,
        notes=tuple(Note(text=text) for text in notes),
    )


def _sighting(seen: Sighting | None, alert: Alert) -> Cell:
    if seen is None:
        return Cell(text="-")
    return Cell(
        text=seen.revision,
        href=run_url(seen.run_id, case_key=alert.case.key),
        notes=(Note(text=f"run {seen.run_id}, {moment(seen.at)}"),),
    )


def _value(field: ChangedField, text: str) -> str:
    if field is ChangedField.MUTED_UNTIL and text:
        return moment(datetime.fromisoformat(text))
    return text or "-"
