"""Order of alerts, and one alert as a row of a table. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from datetime import datetime

from compile_hud.app.ui.alert_text import alert_text
from compile_hud.app.ui.format import age, local_moment
from compile_hud.app.ui.html import Cell, HtmlColumn, Note
from compile_hud.app.ui.urls import ALL_STATES, CaseState, decide_url, run_url
from compile_hud.db.records.alerts import DRIFT, LATE, Alert, AlertState, began
from compile_hud.db.records.imported import is_imported
from compile_hud.db.records.results import Case, Verdict
from compile_hud.db.records.triage import ONGOING, is_muted, worst_first
from compile_hud.db.shared.text import short_revision, shortened

ALERT_COLUMNS = (
    HtmlColumn(label="change", title="change of the metric with its 95 % interval", is_number=True),
    HtmlColumn(label="model and variant"),
    HtmlColumn(label="metric", title="and its level before and after"),
    HtmlColumn(
        label="first bad revision",
        title="first at the new level; that a drift was first seen with; opens its run",
    ),
    HtmlColumn(label="evidence", title="confirmation by a re-measurement, and the known cause"),
)
# The same, for changes to the better.
IMPROVEMENT_COLUMNS = tuple(
    dataclasses.replace(column, label="first better revision")
    if column.label == "first bad revision"
    else column
    for column in ALERT_COLUMNS
)
_REVISION_LENGTH = 48
_CONFIRMED = {
    None: "not re-measured",
    True: "confirmed by re-measurement",
    False: "not confirmed by re-measurement",
}


def states_of(state: str) -> tuple[AlertState, ...] | None:
    """Return the states that the alerts page lists: None for all, the ongoing ones for ""."""
    if state == ALL_STATES:
        return None
    return (AlertState(state),) if state else ONGOING


def open_alerts(alerts: Iterable[Alert], *, verdict: Verdict) -> list[Alert]:
    """Return the open alerts of one verdict, the worst (or the best improvement) first."""
    ordered = worst_first(
        alert for alert in alerts if alert.state is AlertState.OPEN and alert.verdict is verdict
    )
    return ordered[::-1] if verdict is Verdict.IMPROVEMENT else ordered


def is_by_machine(alert: Alert) -> bool:
    """Return whether the reference cases attribute this change to the machine."""
    return alert.cause_kind == "machine"


def needs_attention(alert: Alert, *, at: datetime) -> bool:
    """Return whether an alert is an open regression of the code that is not muted at that time."""
    return (
        alert.state is AlertState.OPEN
        and alert.verdict is Verdict.REGRESSION
        and not is_by_machine(alert)
        and not is_muted(alert, at=at)
    )


def case_of(alert: Alert) -> tuple[str, str, str]:
    """Return the case of an alert, its machine and its toolchain."""
    return (alert.case.key, alert.machine, alert.toolchain)


def lets_through(state: CaseState, case: Case) -> bool:
    """Return whether `case` passes the filters of `state`, apart from the machine."""
    filters = (
        (state.device, case.device),
        (state.phase, case.phase),
        (state.dtype, case.dtype),
        (state.shape, case.shape),
        (state.model, case.model),
    )
    return all(not value or value == str(actual) for value, actual in filters)


def alert_row(
    alert: Alert, *, now: datetime, names_toolchain: bool = False, has_link: bool = True
) -> Sequence[Cell]:
    """Return the cells of `alert` for ALERT_COLUMNS; the change links to the series.

    `names_toolchain` is for tables of several toolchains; an imported history always names its own.
    Without `has_link` the row has no link to the page of the alert.
    """
    case, text = alert.case, alert_text(alert)
    identity = [f"{case.phase} {case.shape} {case.dtype} {case.device}"]
    if names_toolchain or is_imported(alert.toolchain):
        identity.append(f"toolchain {alert.toolchain}")
    decide = (Note(text="triage", href=decide_url(alert.id)),) if has_link else ()
    return (
        Cell(
            text=text.change,
            href=text.url,
            style=text.style,
            title=f"{alert.verdict} of {case.key}",
            notes=(Note(text=text.interval),) if text.interval else (),
        ),
        Cell(
            text=f"{case.model} {case.variant}",
            href=text.url,
            style="strong wraps",
            title=case.key,
            notes=tuple(Note(text=item) for item in identity),
        ),
        Cell(
            text=text.topic,
            notes=(Note(text=text.values),) if text.values else (),
        ),
        revision_cell(alert, now=now),
        Cell(
            text=confirmed_text(alert),
            style="prose",
            title=alert.cause_text,
            notes=(Note(text=f"cause: {alert.cause_text or alert.cause_kind}"), *decide),
        ),
    )


def confirmed_text(alert: Alert) -> str:
    """Return whether the alert was seen when its case was measured again."""
    return _CONFIRMED[alert.is_confirmed]


def revision_cell(alert: Alert, *, now: datetime) -> Cell:
    """Return the first bad revision with a link to its run; an overdue case has only a date."""
    seen = alert.first_bad
    when = f"{age(seen.at, now=now)}, {local_moment(seen.at)}"
    if alert.kind == LATE:
        return Cell(text="-", style="quiet", notes=(Note(text=f"was due {when}"),))
    notes = [f"began {_since_text(alert)}", f"first seen {when}"] if alert.kind == DRIFT else [when]
    return Cell(
        text=shortened(short_revision(seen.revision), limit=_REVISION_LENGTH),
        href=run_url(seen.run_id, case_key=alert.case.key),
        title=alert_text(alert).bounds,
        style="revision",
        notes=tuple(Note(text=text) for text in notes),
    )


def _since_text(alert: Alert) -> str:
    first = began(alert)
    revision = shortened(short_revision(first.revision), limit=_REVISION_LENGTH)
    return f"{revision}, {local_moment(first.at)}"
