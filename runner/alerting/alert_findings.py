"""New findings behind alerts: those of the first bad run that the last good run lacks.

Findings are derived from what the store has, so the answer needs no table of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compile_hud.db.errors import NotFoundError
from compile_hud.db.queries.results import load_profiled_document
from compile_hud.db.records.alerts import OUTCOME, Alert
from compile_hud.db.records.findings import Finding
from compile_hud.db.store import Store
from compile_hud.runner.analysis.findings.documents import new_findings


def alert_findings(alerts: Sequence[Alert], *, store: Store) -> dict[str, list[dict[str, Any]]]:
    """Return the new findings of each alert as JSON, by its id."""
    return {
        alert.id: [finding.to_json() for finding in _new(alert, store=store)] for alert in alerts
    }


def _new(alert: Alert, *, store: Store) -> tuple[Finding, ...]:
    if alert.last_good is None or alert.metric == OUTCOME:
        return ()
    key = alert.case.key
    try:
        good, bad = (
            load_profiled_document(store, run.run_id, case_key=key)
            for run in (alert.last_good, alert.first_bad)
        )
    except NotFoundError:
        # Pruning removed a run, and the alert remains.
        return ()
    return new_findings(good, bad, case_key=key)
