"""What needs somebody, a line for each case: new, failing, vanished, slower. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from compile_hud.app.components.alert_rows import (
    alert_topic,
    alert_url,
    change_text,
    levels_text,
    sightings_text,
    verdict_style,
)
from compile_hud.app.components.result_matrix import DIMENSIONS, MISSING_KINDS
from compile_hud.app.ui.format import age, moment, percent_interval
from compile_hud.app.ui.html import Cell, Column, Note, table
from compile_hud.app.ui.urls import decide_url, run_url
from compile_hud.db.records.alerts import began
from compile_hud.db.records.imported import is_imported
from compile_hud.db.records.results import Alert
from compile_hud.db.shared.text import short_revision, shortened

FAILING, WORSE = "failing", "worse"
_COLUMNS = (
    Column(label="change", title="change of the metric with its 95 % interval", is_number=True),
    Column(label="model and variant"),
    Column(label="what", title="the metric, and its level before and after"),
    Column(label="since", title="opens the first bad run"),
    Column(label="cause", title="as far as the measurements tell", is_spare=True),
    Column(label="", title="opens the page of the alert"),
)
_REVISION_LENGTH = 28
# One line of a window; the tooltip has it whole.
_CAUSE_LENGTH = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """The open regressions of one case in one toolchain, the worst first; is it a new one?"""

    alerts: tuple[Alert, ...]
    is_new: bool

    @property
    def worst(self) -> Alert:
        """Return the alert that comes first."""
        return self.alerts[0]

    @property
    def kind(self) -> str:
        """Return what the matter is: `failing`, `vanished`, `late`, or `worse`."""
        kinds = [alert.kind for alert in self.alerts]
        if "outcome" in kinds:
            return FAILING
        return next((kind for kind in MISSING_KINDS if kind in kinds), WORSE)


def needs_of(alerts: Sequence[Alert], *, newest_runs: Collection[str]) -> list[Need]:
    """Return the cases that have any of `alerts`, which come the worst first, in their order.

    One is new whose first bad run is among `newest_runs`.
    """
    by_case: dict[tuple[str, str, str], list[Alert]] = {}
    for alert in alerts:
        key = (alert.case.key, alert.machine, alert.toolchain)
        by_case.setdefault(key, []).append(alert)
    return [
        Need(
            alerts=tuple(found),
            is_new=any(alert.first_bad.run_id in newest_runs for alert in found),
        )
        for found in by_case.values()
    ]


def needs_title(needs: Sequence[Need]) -> str:
    """Return how many cases need somebody, and how many of them for what."""
    if not needs:
        return "Nothing needs you"
    counts = Counter(need.kind for need in needs)
    told = [f"{counts[kind]} {kind}" for kind in (FAILING, WORSE, *MISSING_KINDS) if counts[kind]]
    if num_new := sum(need.is_new for need in needs):
        told.insert(0, f"{num_new} new")
    noun = "case needs" if len(needs) == 1 else "cases need"
    return f"{len(needs)} {noun} you: {', '.join(told)}"


def needs_table(
    needs: Sequence[Need],
    *,
    now: datetime,
    label: str,
    varied: Sequence[str] = DIMENSIONS,
    names_toolchain: bool = False,
) -> str:
    """Return a line for each case, which is told by those of its dimensions that are `varied`."""
    rows = [_row(need, now=now, place=_place(need, varied, names_toolchain)) for need in needs]
    return table(_COLUMNS, rows, label=label, style="lines")


def _place(need: Need, varied: Sequence[str], names_toolchain: bool) -> list[str]:
    place = [" ".join(str(getattr(need.worst.case, name)) for name in varied)]
    if names_toolchain or is_imported(need.worst.toolchain):
        place.append(f"toolchain {need.worst.toolchain}")
    return [text for text in place if text]


def _row(need: Need, *, now: datetime, place: Sequence[str]) -> Sequence[Cell]:
    alert = need.worst
    case = alert.case
    interval = percent_interval(alert.interval_pct) if alert.interval_pct else ""
    others = [f"{alert_topic(other)} {change_text(other)}" for other in need.alerts[1:]]
    levels = [levels_text(alert)] if levels_text(alert) else []
    cause = alert.cause_text or alert.cause_kind
    return (
        Cell(
            text=change_text(alert),
            href=alert_url(alert),
            style=verdict_style(alert),
            title=f"{alert.verdict} of {case.key}",
            notes=(Note(text=interval),) if interval else (),
        ),
        Cell(
            text=f"{case.model} {case.variant}",
            href=alert_url(alert),
            style="strong wraps",
            title=case.key,
            notes=tuple(Note(text=text) for text in place),
        ),
        Cell(
            text=alert_topic(alert),
            notes=tuple(Note(text=text) for text in (*levels, *(f"and {it}" for it in others))),
        ),
        _since(need, now=now),
        Cell(text=shortened(cause, limit=_CAUSE_LENGTH), style="quiet", title=cause),
        Cell(text="decide", href=decide_url(alert.id)),
    )


def _since(need: Need, *, now: datetime) -> Cell:
    alert = need.worst
    seen = began(alert)
    if alert.kind == "late":
        return Cell(text=f"due {age(seen.at, now=now)}", style="quiet", title=moment(seen.at))
    return Cell(
        text=age(seen.at, now=now),
        href=run_url(seen.run_id, case_key=alert.case.key),
        title=sightings_text(alert),
        style="strong" if need.is_new else "",
        notes=(
            *((Note(text="new"),) if need.is_new else ()),
            Note(text=shortened(short_revision(seen.revision), limit=_REVISION_LENGTH)),
        ),
    )
