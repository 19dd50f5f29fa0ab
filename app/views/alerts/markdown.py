"""An alert, or the alerts of an event, as Markdown for an issue or a message. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compile_hud.app.components.alert_rows import alert_topic, change_text, levels_text
from compile_hud.app.components.evidence import confirmation_text
from compile_hud.app.ui.format import moment, percent_interval
from compile_hud.app.ui.share import code, summary_text
from compile_hud.app.views.alerts.tables import alert_title
from compile_hud.db.records.alerts import Alert, alert_bounds
from compile_hud.db.records.run_ref import RunRef

_MAX_ALERTS = 20


def alert_markdown(alert: Alert, *, command: str) -> str:
    """Return what changed, since when, and what is known of it; HERE stands for the address."""
    title = f"{alert.verdict}: {code(alert_title(alert))}"
    return summary_text(title, lines=_lines(alert), command=command)


def _lines(alert: Alert) -> Iterator[str]:
    interval = f" {percent_interval(alert.interval_pct)}" if alert.interval_pct else ""
    levels = f", {levels_text(alert)}" if levels_text(alert) else ""
    yield f"{code(alert_topic(alert))}: {change_text(alert)}{interval}{levels} ({alert.state})"
    yield f"case {code(alert.case.key)} on {code(alert.machine)}, toolchain {code(alert.toolchain)}"
    yield from (
        f"{name}: {_run_ref(seen)}" for name, seen in alert_bounds(alert) if seen is not None
    )
    for name, text in (
        ("cause", alert.cause_text),
        ("measured again", confirmation_text(alert)),
        ("note", alert.note),
    ):
        if text:
            yield f"{name}: {code(text)}"


def _run_ref(seen: RunRef) -> str:
    return f"{code(seen.revision)}, run {code(seen.run_id)} ({moment(seen.at)})"


def event_markdown(title: str, alerts: Sequence[Alert], *, command: str) -> str:
    """Return an event with its alerts, the worst first; HERE stands for the address."""
    lines = [
        f"{code(f'{alert.case.key} {alert_topic(alert)}')}: {change_text(alert)} ({alert.state})"
        for alert in alerts[:_MAX_ALERTS]
    ]
    if len(alerts) > _MAX_ALERTS:
        lines.append(f"{len(alerts) - _MAX_ALERTS} more")
    return summary_text(code(title), lines=lines, command=command)
