"""The memory behind alerts: the operators that grew at the peak since the last good run."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from compile_hud.db.errors import RecordError
from compile_hud.db.queries.results import load_details
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.memory.peak import memory_peak_of
from compile_hud.db.store import Store
from compile_hud.runner.analysis.memory_peak.diff import (
    diff_of,
    growth_of,
    is_about_more_memory,
    memory_bounds,
)

logger = logging.getLogger(__name__)


def alert_memory(alerts: Sequence[Alert], *, store: Store) -> dict[str, list[dict[str, Any]]]:
    """Return the holders that grew, as JSON, by the id of the alert.

    They shrank if the alert is an improvement. Alerts about another metric have none, nor have
    those of results without holders.
    """
    sides = {alert.id: memory_bounds(alert) for alert in alerts}
    names = {name for pair in sides.values() for name in pair}
    details = load_details(store, names) if names else {}
    return {
        alert.id: _rows(alert, [details.get(name, {}) for name in sides[alert.id]])
        for alert in alerts
    }


def _rows(alert: Alert, sides: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    try:
        peaks = [memory_peak_of(details) for details in sides]
    except RecordError as error:
        # One damaged result hides the memory of its own alert, and no other alert.
        logger.warning("no memory for alert %s: %s", alert.id, error)
        return []
    diff = diff_of(*peaks) if peaks else None
    if diff is None:
        return []
    return [row.to_json() for row in growth_of(diff, is_more=is_about_more_memory(alert))]
