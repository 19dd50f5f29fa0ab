"""Compare the last good and the first bad run of alerts, and attribute the cause."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from compile_hud.db.queries.outcomes import load_ended
from compile_hud.db.queries.runs import load_configs, load_runs_of, load_warnings
from compile_hud.db.records.alerts import MASKED, Alert
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.store import Store
from compile_hud.runner.analysis.alerts.lifecycle import match_stored
from compile_hud.runner.analysis.comparison.environment_diff import (
    config_diff,
    environment_diff,
    warnings_diff,
)
from compile_hud.runner.analysis.detection.series_changes import STEP
from compile_hud.runner.analysis.judging.attribution_evidence import EXPLAINED_KINDS, with_evidence


def attach_bounds(
    store: Store,
    detected: Iterable[Alert],
    *,
    stored: Iterable[Alert],
) -> list[Alert]:
    """Return the new alerts, each with its last good and first bad run and its most probable cause.

    An alert that `stored` has already keeps its data, its confirmation included, even if its change
    point moved.
    """
    before, together = list(stored), list(detected)
    known = match_stored(together, stored=before)
    ids = {alert.id for alert in before}
    alerts = attach_differences(
        store, [_with_known(alert, known.get(alert.id)) for alert in together]
    )
    # The reason of a failure is read once and becomes part of the text, which stays fixed.
    return [
        with_evidence(alert) if alert.kind in EXPLAINED_KINDS or alert.id not in ids else alert
        for alert in alerts
    ]


def attach_differences(store: Store, alerts: Sequence[Alert]) -> list[Alert]:
    """Return the alerts with the differences between their two runs, warnings of steps included.

    An alert whose runs are no longer in the store has no difference.
    """
    missing = [alert for alert in alerts if alert.environment_diff is None]
    differences = _differences(store, missing)
    return [
        dataclasses.replace(
            alert, environment_diff=differences.get(alert.id, alert.environment_diff)
        )
        for alert in alerts
    ]


def _with_known(alert: Alert, known: Alert | None) -> Alert:
    if known is None:
        return alert
    is_same = (known.last_good, known.first_bad) == (alert.last_good, alert.first_bad)
    return dataclasses.replace(
        alert,
        environment_diff=known.environment_diff if is_same else None,
        confirmation=known.confirmation,
    )


def _differences(store: Store, alerts: Sequence[Alert]) -> dict[str, dict[str, Any]]:
    """Return the differences between the runs of each alert, by its id, if the store has both."""
    bounds = {
        alert.id: (alert.last_good.run_id, alert.first_bad.run_id)
        for alert in alerts
        if alert.last_good is not None
    }
    if not bounds:
        return {}
    runs = load_runs_of(store, [run_id for both in bounds.values() for run_id in both])
    results = _results_of(store, alerts)
    ids = [result for both in results.values() for result in both]
    warnings, configs = load_warnings(store, ids), load_configs(store, ids)
    return {
        alert_id: {
            **_config_diff(results.get(alert_id), configs),
            **environment_diff(runs[good], after=runs[bad]),
            **_warnings_diff(results.get(alert_id), warnings),
        }
        for alert_id, (good, bad) in bounds.items()
        if good in runs and bad in runs
    }


def _results_of(store: Store, alerts: Sequence[Alert]) -> dict[str, tuple[str, str]]:
    """Return the results at both ends of each alert of a step, by its id."""
    steps = [
        alert for alert in alerts if alert.kind in (STEP, MASKED) and alert.last_good is not None
    ]
    ended = load_ended(store, {alert.case.key for alert in steps})
    results = {}
    for alert in steps:
        assert alert.last_good is not None
        good = ended.get((alert.last_good.run_id, alert.case.key))
        bad = ended.get((alert.first_bad.run_id, alert.case.key))
        if good is not None and bad is not None:
            results[alert.id] = (good.result_id, bad.result_id)
    return results


def _warnings_diff(
    results: tuple[str, str] | None, warnings: Mapping[str, tuple[RunWarning, ...]]
) -> dict[str, Any]:
    if results is None:
        return {}
    good, bad = results
    return warnings_diff(warnings.get(good, ()), after=warnings.get(bad, ()))


def _config_diff(
    results: tuple[str, str] | None, configs: Mapping[str, Mapping[str, Any]]
) -> dict[str, Any]:
    """Return the differences of the inputs and sizes; none for a result that recorded neither."""
    if results is None or not configs.keys() >= set(results):
        return {}
    good, bad = results
    return config_diff(configs[good], after=configs[bad])
