"""New findings behind alerts: those of the first bad run that the last good run lacks.

Findings are derived from what the store has, so the answer needs no table of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

from compile_hud.db.errors import NotFoundError
from compile_hud.db.queries.results import load_profiled_document
from compile_hud.db.records.alerts import OUTCOME, Alert
from compile_hud.db.records.findings import Finding
from compile_hud.db.store import Store
from compile_hud.runner.analysis.findings.documents import new_findings


def alert_findings(alerts: Sequence[Alert], *, store: Store) -> dict[str, list[dict[str, Any]]]:
    """Return the new findings of each alert as JSON, by its id."""
    # The alerts of a case on several metrics have the same two runs.
    of_pair = lru_cache(maxsize=None)(partial(_of_pair, store))
    findings = {
        alert.id: ()
        if alert.last_good is None or alert.metric == OUTCOME
        else of_pair(alert.last_good.run_id, alert.first_bad.run_id, alert.case.key)
        for alert in alerts
    }
    return {name: [item.to_json() for item in items] for name, items in findings.items()}


def finding_codes(alerts: Sequence[Alert], *, store: Store) -> dict[str, tuple[str, ...]]:
    """Return the codes of the new findings of each alert, by its id."""
    findings = alert_findings(alerts, store=store)
    return {name: tuple(item["code"] for item in items) for name, items in findings.items()}


def _of_pair(store: Store, good_id: str, bad_id: str, key: str) -> tuple[Finding, ...]:
    try:
        good, bad = (
            load_profiled_document(store, name, case_key=key) for name in (good_id, bad_id)
        )
    except NotFoundError:
        # Pruning removed a run, and the alert remains.
        return ()
    return new_findings(good, bad, case_key=key)
