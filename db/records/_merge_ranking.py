"""Which alerts come first, wherever they are listed."""

from __future__ import annotations

import math
from collections.abc import Iterable

from compile_hud.db.records.metrics import METRICS, Direction, metric_of
from compile_hud.db.records.results import Alert, Verdict
from compile_hud.db.records.triage import ONGOING


def worsening(alert: Alert) -> float:
    """Return the factor by which the metric got worse; below 1 it got better.

    Infinite for a case that fails, which is worse than any slow one; 1 where there is no number.
    """
    if alert.kind == "outcome":
        return math.inf
    if alert.change_pct is None:
        return 1.0
    ratio = max(1 + alert.change_pct / 100, 1e-9)
    return 1 / ratio if is_higher_better(alert) else ratio


def is_higher_better(alert: Alert) -> bool:
    """Return whether more of the alert's metric is better.

    Of a metric of others the verdict tells it, since its records may have stated it.
    """
    is_judged = alert.verdict in (Verdict.REGRESSION, Verdict.IMPROVEMENT)
    if alert.metric not in METRICS and alert.change_pct and is_judged:
        return (alert.verdict is Verdict.REGRESSION) == (alert.change_pct < 0)
    known = metric_of(alert.metric, unit=alert.unit)
    return known is not None and known.direction is Direction.HIGHER_IS_BETTER


def worst_first(alerts: Iterable[Alert]) -> list[Alert]:
    """Return failures, then what got worse by how much, what is missing, and what got better.

    What is settled comes in the same order after all that is open or acknowledged.
    """
    return sorted(
        alerts,
        key=lambda alert: (
            alert.state not in ONGOING,
            -worsening(alert),
            alert.case.key,
            alert.metric,
            alert.id,
        ),
    )
