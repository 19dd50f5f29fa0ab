"""An alert, or the alerts of an event, as Markdown for an issue or a message. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compile_hud.app.ui.alert_text import AlertText, alert_text
from compile_hud.app.ui.format import moment
from compile_hud.app.ui.share import code, summary_text
from compile_hud.db.records.alerts import Alert, alert_bounds
from compile_hud.db.records.results import RunRef

_MAX_ALERTS = 20


def alert_markdown(alert: Alert, *, text: AlertText, command: str) -> str:
    """Return an alert's change, its first run and its facts; HERE stands for the address."""
    title = f"{alert.verdict}: {code(text.title)}"
    return summary_text(title, lines=_lines(alert, text), command=command)


def _lines(alert: Alert, text: AlertText) -> Iterator[str]:
    interval = f" {text.interval}" if text.interval else ""
    values = f", {text.values}" if text.values else ""
    yield f"{code(text.topic)}: {text.change}{interval}{values} ({alert.state})"
    yield f"case {code(alert.case.key)} on {code(alert.machine)}, toolchain {code(alert.toolchain)}"
    yield from (
        f"{name}: {_run_ref(seen)}" for name, seen in alert_bounds(alert) if seen is not None
    )
    for name, value in (
        ("cause", alert.cause_text),
        ("re-measured", text.confirmation),
        ("bisect", text.bisection),
        ("note", alert.note),
    ):
        if value:
            yield f"{name}: {code(value)}"


def _run_ref(seen: RunRef) -> str:
    return f"{code(seen.revision)}, run {code(seen.run_id)} ({moment(seen.at)})"


def event_markdown(title: str, alerts: Sequence[Alert], *, command: str) -> str:
    """Return an event with its alerts, the worst first; HERE stands for the address."""
    shown = [(alert, alert_text(alert)) for alert in alerts[:_MAX_ALERTS]]
    lines = [f"{code(alert.case.key)}: {code(text.mark)} ({alert.state})" for alert, text in shown]
    if len(alerts) > _MAX_ALERTS:
        lines.append(f"{len(alerts) - _MAX_ALERTS} more")
    return summary_text(code(title), lines=lines, command=command)
