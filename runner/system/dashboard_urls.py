"""Addresses of dashboard pages."""

from __future__ import annotations

from urllib.parse import urlencode

from compile_hud.db.records.alerts import MASKED, Alert

# A server can listen on these addresses, but a browser cannot open them.
_ANY_HOSTS = ("0.0.0.0", "::", "")


def dashboard_url(*, host: str, port: int) -> str:
    """Return the address of the dashboard for a browser on its own machine."""
    shown = "localhost" if host in _ANY_HOSTS else host
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"


def series_url(alert: Alert, *, dashboard: str) -> str:
    """Return the address of the series that `alert` is about, on the dashboard at `dashboard`."""
    # A kernel has no series; the latency shows that the case did not change.
    query = {
        "case": alert.case.key,
        "metric": "latency_s" if alert.kind == MASKED else alert.metric,
        "machine": alert.machine,
        "toolchain": alert.toolchain,
    }
    return f"{dashboard}/series?{urlencode(query)}"
