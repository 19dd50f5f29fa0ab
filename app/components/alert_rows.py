"""Which alerts come first, and how one reads as a row. Pure: records in, cells out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from datetime import datetime

from compile_hud.app.ui.format import (
    age,
    metric_label,
    moment,
    percent,
    percent_interval,
    scale_for,
)
from compile_hud.app.ui.html import Cell, Column, Note
from compile_hud.app.ui.theme import VERDICT_STYLES
from compile_hud.app.ui.urls import ALL_STATES, OUTCOME, CaseState, decide_url, run_url, series_url
from compile_hud.db.records.alerts import DRIFT, VANISHED, Alert, AlertState, alert_bounds, began
from compile_hud.db.records.imported import is_imported
from compile_hud.db.records.results import Case, Verdict
from compile_hud.db.records.triage import ONGOING, worst_first
from compile_hud.db.shared.text import KIND_WORDS, short_revision, shortened, with_kind

ALERT_COLUMNS = (
    Column(label="change", title="change of the metric with its 95 % interval", is_number=True),
    Column(label="model and variant"),
    Column(label="metric", title="and its level before and after"),
    Column(
        label="first bad revision",
        title="first at the new level; that a drift was first seen with; opens its run",
    ),
    Column(label="evidence", title="whether it was measured again, and what is known of the cause"),
)
# The same, for changes to the better.
IMPROVEMENT_COLUMNS = tuple(
    dataclasses.replace(column, label="first better revision")
    if column.label == "first bad revision"
    else column
    for column in ALERT_COLUMNS
)
_REVISION_LENGTH = 48
# What the ends of an alert that is none for the worse are called.
_BETTER_WORDS = {"last good": "last before", "first bad": "first better"}
_CONFIRMED = {
    None: "history alone",
    True: "confirmed by measuring again",
    False: "not seen when measured again",
}


def states_of(state: str) -> tuple[AlertState, ...] | None:
    """Return the states that the alerts page lists: None for all, the ongoing ones for ""."""
    if state == ALL_STATES:
        return None
    return (AlertState(state),) if state else ONGOING


def open_alerts(alerts: Iterable[Alert], *, verdict: Verdict) -> list[Alert]:
    """Return the open alerts of one verdict, the worst (or the best improvement) first."""
    found = worst_first(
        alert for alert in alerts if alert.state is AlertState.OPEN and alert.verdict is verdict
    )
    return found[::-1] if verdict is Verdict.IMPROVEMENT else found


def is_by_machine(alert: Alert) -> bool:
    """Return whether the reference cases say that the machine made this change."""
    return alert.cause_kind == "machine"


def lets_through(state: CaseState, case: Case) -> bool:
    """Return whether the filters of `state` (the machine aside) let `case` through."""
    wanted = (
        (state.device, case.device),
        (state.phase, case.phase),
        (state.dtype, case.dtype),
        (state.shape, case.shape),
        (state.model, case.model),
    )
    return all(not value or value == str(actual) for value, actual in wanted)


def alert_row(
    alert: Alert, *, now: datetime, names_toolchain: bool = False, has_link: bool = True
) -> Sequence[Cell]:
    """Return the cells of `alert` for ALERT_COLUMNS; the change links to the series.

    `names_toolchain` is for tables of more than one; that of an imported history is always named.
    Without `has_link` the row has no link to the page of the alert.
    """
    case = alert.case
    href = alert_url(alert)
    identity = [f"{case.phase} {case.shape} {case.dtype} {case.device}"]
    if names_toolchain or is_imported(alert.toolchain):
        identity.append(f"toolchain {alert.toolchain}")
    levels = levels_text(alert)
    interval = percent_interval(alert.interval_pct) if alert.interval_pct else ""
    decide = (Note(text="decide", href=decide_url(alert.id)),) if has_link else ()
    return (
        Cell(
            text=change_text(alert),
            href=href,
            style=verdict_style(alert),
            title=f"{alert.verdict} of {case.key}",
            notes=(Note(text=interval),) if interval else (),
        ),
        Cell(
            text=f"{case.model} {case.variant}",
            href=href,
            style="strong wraps",
            title=case.key,
            notes=tuple(Note(text=text) for text in identity),
        ),
        Cell(
            text=alert_topic(alert),
            notes=(Note(text=levels),) if levels else (),
        ),
        revision_cell(alert, now=now),
        Cell(
            text=_CONFIRMED[alert.is_confirmed],
            style="prose",
            title=alert.cause_text,
            notes=(Note(text=f"cause: {alert.cause_text or alert.cause_kind}"), *decide),
        ),
    )


def verdict_style(alert: Alert) -> str:
    """Return the class of theme.py for a cell that tells the change of `alert`."""
    return VERDICT_STYLES.get(alert.verdict, "")


def revision_cell(alert: Alert, *, now: datetime) -> Cell:
    """Return the first bad revision with a link to its run; a late case has but a day."""
    seen = alert.first_bad
    when = f"{age(seen.at, now=now)}, {moment(seen.at)}"
    if alert.kind == "late":
        return Cell(text="-", style="quiet", notes=(Note(text=f"was due {when}"),))
    notes = [f"began {_since_text(alert)}", f"first seen {when}"] if alert.kind == DRIFT else [when]
    return Cell(
        text=shortened(short_revision(seen.revision), limit=_REVISION_LENGTH),
        href=run_url(seen.run_id, case_key=alert.case.key),
        title=bounds_text(alert),
        style="revision",
        notes=tuple(Note(text=text) for text in notes),
    )


def _since_text(alert: Alert) -> str:
    first = began(alert)
    return (
        f"{shortened(short_revision(first.revision), limit=_REVISION_LENGTH)}, {moment(first.at)}"
    )


def alert_topic(alert: Alert) -> str:
    """Return what `alert` is about: a metric, the drift or noise of one, or a kind of outcome."""
    if alert.kind not in ("step", *KIND_WORDS) and not alert_metric(alert):
        return alert.kind
    return with_kind(metric_label(alert_metric(alert)), kind=alert.kind)


def alert_metric(alert: Alert) -> str:
    """Return the metric whose series shows `alert`; the default one when it is about an outcome."""
    return "" if alert.metric == OUTCOME else alert.metric


def alert_url(alert: Alert) -> str:
    """Return the relative URL of the series that shows `alert`."""
    return series_url(
        alert.case.key,
        metric=alert_metric(alert),
        machine=alert.machine,
        toolchain=alert.toolchain,
    )


def change_text(alert: Alert) -> str:
    """Return what changed, in a few characters: `+21.3 %`, `0 -> 2`, `fails`, `vanished`."""
    if alert.change_pct is not None:
        return percent(alert.change_pct)
    if levels := levels_text(alert):
        return levels
    if alert.kind == "outcome":
        return "fails" if alert.verdict is Verdict.REGRESSION else "passes again"
    return alert.kind


def named_change(alert: Alert) -> str:
    """Return what changed where no metric stands beside it: `+21.3 %`, `speedup vanished`."""
    is_lost = alert.kind == VANISHED and alert_metric(alert)
    return mark_text(alert) if is_lost else change_text(alert)


def mark_text(alert: Alert) -> str:
    """Return `alert` as a note in a cell, `latency +21.3 %`, `regression` or `vanished`."""
    if alert.kind == "outcome":
        return str(alert.verdict)
    topic = alert_topic(alert)
    return topic if topic == alert.kind else f"{topic} {change_text(alert)}"


def levels_text(alert: Alert) -> str:
    """Return both levels in one unit, `12.3 -> 14.9 ms`; empty when there are no numbers."""
    if alert.baseline is None or alert.candidate is None:
        return ""
    scale = scale_for(alert.unit, [alert.baseline, alert.candidate])
    before = scale.text(alert.baseline) if scale.unit == "x" else scale.number(alert.baseline)
    return f"{before} -> {scale.text(alert.candidate)}"


def event_words(title: str, alert: Alert) -> str:
    """Return the title of an event without what stands beside it where `alert` is shown.

    That is since which revision, and the toolchain and machine.
    """
    where = f" ({alert.toolchain} on {alert.machine})"
    since = f" since {short_revision(began(alert).revision)}"
    if not title.endswith(where):
        return title
    what, found, more = title.removesuffix(where).rpartition(since)
    return f"{what}{more}" if found else title.removesuffix(where)


def bounds_text(alert: Alert) -> str:
    """Return the revisions on both sides of the change, each with its time."""
    words = {} if alert.verdict is Verdict.REGRESSION else _BETTER_WORDS
    return "; ".join(
        f"{words.get(name, name)} {short_revision(seen.revision)} ({moment(seen.at)})"
        for name, seen in alert_bounds(alert)
        if seen is not None
    )
