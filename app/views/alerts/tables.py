"""Tables of alerts and their changes on the alerts page. Pure: records in, HTML out."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import datetime

from compile_hud.app.data.page_records import AlertPage
from compile_hud.app.ui.alert_text import alert_text
from compile_hud.app.ui.format import local_moment
from compile_hud.app.ui.html import Cell, HtmlColumn, Note, key_values, table, time_cell
from compile_hud.app.ui.urls import decide_url, event_url, kernels_url, run_url
from compile_hud.db.records.alerts import Alert, AlertState, alert_bounds
from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import RunRef
from compile_hud.db.records.triage import ONGOING, AlertChange, ChangedField, is_muted
from compile_hud.db.shared.text import counted

# The label of each button, and the state that it leads to.
DECISIONS = {
    "Acknowledge": AlertState.ACKNOWLEDGED,
    "Expected": AlertState.EXPECTED,
    "Noise": AlertState.NOISE,
    "Reopen": AlertState.OPEN,
}
# The tooltip of each button.
DECISION_HELP = {
    "Acknowledge": "Someone is working on it. It closes when the level recovers.",
    "Expected": "The new level is intended. It is the baseline from the first bad run on. A failure"
    " is expected only with a reason.",
    "Noise": "A false positive. It stays silent when it recurs.",
    "Reopen": "Takes back what a person decided, and ends the mute.",
    "Unmute": "Ends the mute now.",
    "Comment only": "Stores the comment and decides nothing.",
}
_CHANGE_COLUMNS = (
    HtmlColumn(label="when"),
    HtmlColumn(label="who"),
    HtmlColumn(label="what"),
    HtmlColumn(label="was"),
    HtmlColumn(label="is"),
    HtmlColumn(label="why"),
)


def alert_facts(page: AlertPage, *, now: datetime) -> str:
    """Return the facts of one alert."""
    alert, text = page.alert, page.text
    is_normalised = page.series is not None and bool(page.series.normalised)
    level_name, levels = "normalised level" if is_normalised else "level", text.values
    metric = METRICS.get(alert.metric)
    state = dataclasses.replace(_state_cell(alert, now=now), href="")
    bounds = [(name, _end_cell(seen, page)) for name, seen in alert_bounds(alert)]
    is_failure = page.failure is not None
    pairs = [
        # A failure is read by when it began; the exception stands above.
        *(bounds if is_failure else []),
        *_event_fact(page),
        ("alert", Cell(text=alert.id)),
        ("state", state),
        ("change", Cell(text=f"{text.change} {text.interval}".strip(), href=text.url)),
        *([(level_name, Cell(text=levels))] if levels else []),
        (
            "metric" if text.metric else "kind",
            Cell(text=text.topic, title=metric.description if metric else ""),
        ),
        *([] if is_failure else bounds),
        ("last seen", time_cell(alert.last_seen)),
        ("where", Cell(text=f"{alert.machine}, toolchain {alert.toolchain}")),
        ("case", Cell(text=alert.case.key, href=text.url)),
        ("cause", Cell(text=alert.cause_text or alert.cause_kind, style="whole")),
    ]
    if page.fails_now:
        pairs.append(("fails now", Cell(text=page.fails_now, style="whole")))
    if text.confirmation:
        pairs.append(("re-measured", Cell(text=text.confirmation, style="whole")))
    if text.bisection:
        pairs.append(("bisect", Cell(text=text.bisection, style="whole")))
    if alert.note:
        pairs.append(("note", Cell(text=alert.note, style="whole")))
    return key_values(pairs)


def _end_cell(seen: RunRef | None, page: AlertPage) -> Cell:
    has_kernels = seen is not None and seen.run_id in page.profiled
    return run_ref_cell(seen, case_key=page.alert.case.key, has_kernels=has_kernels)


def _event_fact(page: AlertPage) -> list[tuple[str, Cell]]:
    if page.event is None:
        return []
    title = page.event_title
    if not page.num_other_alerts:
        return [("event", Cell(text=title))]
    others = counted(page.num_other_alerts, "other alert")
    href = event_url(page.event.id)
    return [("event", Cell(text=title, href=href, notes=(Note(text=others),)))]


def decidable(alerts: Sequence[Alert], state: AlertState) -> list[Alert]:
    """Return those of `alerts` that a decision for `state` applies to.

    A single alert always. Of several the ongoing ones, or, to reopen, those that people settled.
    """
    if len(alerts) == 1:
        return [alert for alert in alerts if alert.state is not state]
    decided = (AlertState.ACKNOWLEDGED, AlertState.EXPECTED, AlertState.NOISE)
    states = decided if state is AlertState.OPEN else ONGOING
    return [alert for alert in alerts if alert.state in states and alert.state is not state]


def changes_table(changes: Sequence[AlertChange], *, alerts: Sequence[Alert]) -> str:
    """Return a row for each change of `alerts`, the newest first; of several each names its alert.

    One decision about several alerts is one row.
    """
    names = {alert.id: f"{alert.case.key} {alert_text(alert).topic}" for alert in alerts}
    has_several = len(alerts) > 1
    rows = [
        (
            time_cell(change.at),
            Cell(text=change.by),
            *([_subject_cell([names[id] for id in ids])] if has_several else []),
            Cell(text=str(change.field).replace("_", " ")),
            Cell(text=_value(change.field, change.old)),
            Cell(text=_value(change.field, change.new)),
            Cell(text=change.why, style="prose"),
        )
        for change, ids in _alike(changes)
    ]
    when, who, *rest = _CHANGE_COLUMNS
    columns = (when, who, *([HtmlColumn(label="of")] if has_several else []), *rest)
    return table(columns, rows, label="changes")


def _alike(changes: Sequence[AlertChange]) -> list[tuple[AlertChange, list[str]]]:
    """Return changes, the newest first, each with the ids of the alerts with an equal one."""
    ids_by_change: dict[AlertChange, list[str]] = {}
    for change in reversed(changes):
        same = dataclasses.replace(change, id="", alert_id="")
        ids_by_change.setdefault(same, []).append(change.alert_id)
    return list(ids_by_change.items())


def _subject_cell(names: Sequence[str]) -> Cell:
    if len(names) == 1:
        return Cell(text=names[0])
    return Cell(text=counted(len(names), "alert"), title="\n".join(names))


def _state_cell(alert: Alert, *, now: datetime) -> Cell:
    notes = [f"owner {alert.owner}"] if alert.owner else []
    if alert.muted_until is not None and is_muted(alert, at=now):
        notes.append(f"muted until {local_moment(alert.muted_until)}")
    return Cell(
        text=str(alert.state),
        href=decide_url(alert.id),
        title=alert.note,
        notes=tuple(Note(text=text) for text in notes),
    )


def run_ref_cell(seen: RunRef | None, *, case_key: str = "", has_kernels: bool = False) -> Cell:
    """Return a revision with its run, which opens with the named case.

    A link to the kernels of that case follows if it `has_kernels`.
    """
    if seen is None:
        return Cell(text="-")
    kernels = kernels_url(seen.run_id, case_key=case_key)
    return Cell(
        text=seen.revision,
        href=run_url(seen.run_id, case_key=case_key),
        notes=(
            Note(text=f"run {seen.run_id}, {local_moment(seen.at)}"),
            *([Note(text="View kernels", href=kernels)] if has_kernels else []),
        ),
    )


def _value(field: ChangedField, text: str) -> str:
    if field is ChangedField.MUTED_UNTIL and text:
        return local_moment(datetime.fromisoformat(text))
    return text or "-"
