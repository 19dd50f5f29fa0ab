"""New findings behind alerts: those of the first bad run that the last good run lacks.

Findings are derived from what the store has, so the answer needs no table of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from compile_hud.db.queries.results import load_variants
from compile_hud.db.records.alerts import OUTCOME, Alert
from compile_hud.db.records.findings import Finding
from compile_hud.db.store import Store
from compile_hud.runner.analysis.findings.documents import new_findings

# Pairs of runs that are read at once: their generated code is in memory together.
_BATCH = 50


def alert_findings(alerts: Sequence[Alert], *, store: Store) -> dict[str, list[dict[str, Any]]]:
    """Return the new findings of each alert as JSON, by its id."""
    pairs = {
        alert.id: (alert.last_good.run_id, alert.first_bad.run_id, alert.case.key)
        for alert in alerts
        if alert.last_good is not None and alert.metric != OUTCOME
    }
    # The alerts of a case on several metrics have the same two runs.
    distinct = sorted(set(pairs.values()))
    findings: dict[tuple[str, str, str], tuple[Finding, ...]] = {}
    for start in range(0, len(distinct), _BATCH):
        batch = distinct[start : start + _BATCH]
        names = {(run_id, key) for *run_ids, key in batch for run_id in run_ids}
        documents = load_variants(store, names)
        for good_id, bad_id, key in batch:
            # Pruning removes a run, and the alert remains.
            if {good_id, bad_id} <= documents.keys():
                good, bad = documents[good_id], documents[bad_id]
                findings[good_id, bad_id, key] = new_findings(good, bad, case_key=key)
    return {
        alert.id: [item.to_json() for item in findings.get(pairs[alert.id], ())]
        if alert.id in pairs
        else []
        for alert in alerts
    }


def finding_codes(alerts: Sequence[Alert], *, store: Store) -> dict[str, tuple[str, ...]]:
    """Return the codes of the new findings of each alert, by its id."""
    findings = alert_findings(alerts, store=store)
    return {name: tuple(item["code"] for item in items) for name, items in findings.items()}
