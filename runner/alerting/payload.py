"""Alerts as JSON objects for other programs: the command line prints them, webhooks send them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compile_hud.db.queries.judge_state import load_events
from compile_hud.db.records.alerts import Alert
from compile_hud.db.store import Store
from compile_hud.runner.alerting.alert_findings import alert_findings
from compile_hud.runner.alerting.alert_kernels import cause_kernels
from compile_hud.runner.alerting.alert_memory import alert_memory
from compile_hud.runner.analysis.repro import repro_command
from compile_hud.runner.system.dashboard_urls import series_url


def alerts_json(alerts: Sequence[Alert], *, store: Store, dashboard: str) -> list[dict[str, Any]]:
    """Return the regressions as docs/how-to/notifications.md has them, each with its event.

    `dashboard` is the address that their links begin with.
    """
    events = load_events(store, ids={alert.event_id for alert in alerts})
    kernels = cause_kernels(alerts, store=store)
    findings = alert_findings(alerts, store=store)
    memory = alert_memory(alerts, store=store)
    return [
        {
            **alert.to_json(
                kernels=kernels[alert.id].rows,
                noise=kernels[alert.id].noise,
                findings=findings[alert.id],
                memory=memory[alert.id],
            ),
            "event": events[alert.event_id].to_json() if alert.event_id in events else None,
            "repro": repro_command(alert.case, toolchain=alert.toolchain),
            "url": series_url(alert, dashboard=dashboard),
        }
        for alert in alerts
    ]


def alert_json(alert: Alert, *, store: Store, dashboard: str) -> dict[str, Any]:
    """Return the regression object of one alert."""
    (document,) = alerts_json([alert], store=store, dashboard=dashboard)
    return document
