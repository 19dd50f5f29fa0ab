"""The severity of an alert, by the size of its change."""

from __future__ import annotations

from collections.abc import Iterable

from compile_hud.db.records.alerts import MASKED, OUTCOME, Alert
from compile_hud.db.records.notifications import Severity
from compile_hud.db.records.results import Verdict
from compile_hud.db.records.triage import MAJOR_PCT, size_pct

# Percent of cost from which a change blocks a release.
SEVERE_PCT = 25.0
SEVERITY_RANKS = (Severity.MINOR, Severity.MAJOR, Severity.SEVERE)


def severity_of(alert: Alert) -> Severity:
    """Return the severity of `alert`; a failing case is severe, a missing one is major.

    A masked one is minor, since its case is as fast as before.
    """
    if alert.kind == OUTCOME:
        return Severity.SEVERE
    if alert.verdict is not Verdict.REGRESSION or alert.kind == MASKED:
        return Severity.MINOR
    change = size_pct(alert)
    if change is None:
        return Severity.MAJOR
    if change >= SEVERE_PCT:
        return Severity.SEVERE
    return Severity.MAJOR if change >= MAJOR_PCT else Severity.MINOR


def worst_severity(alerts: Iterable[Alert]) -> Severity:
    """Return the severity of the worst of `alerts`."""
    return max((severity_of(alert) for alert in alerts), key=SEVERITY_RANKS.index)
