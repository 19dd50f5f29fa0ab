"""Judge the stored history and bring the alerts in the store up to date."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from db.errors import NotFoundError
from db.queries import (
    count_judged_series,
    load_alerts,
    load_histories,
    load_outcomes,
    load_result,
    load_series_settings,
)
from db.records import REFERENCE_FAMILY, Alert
from db.store import Store
from db.summaries import OutcomeHistory
from db.triage import JUDGE
from runner.analysis.fdr import believed
from runner.analysis.judge import NEEDED_METRICS, judge_histories
from runner.analysis.lifecycle import update_alerts
from runner.analysis.machine import CLOCKS
from runner.analysis.outcomes import OUTCOME, judge_outcomes
from runner.analysis.rules import series_rules
from runner.analysis.suspects import Standing
from runner.ends import with_ends

logger = logging.getLogger(__name__)

# A compiler's message may be pages long; the first lines say what it is.
MAX_REASON_LENGTH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectReport:
    """All alerts in the store after judging; which were opened, which are over."""

    alerts: tuple[Alert, ...]
    new: tuple[Alert, ...]
    fixed: tuple[Alert, ...]


def detect(store: Store) -> DetectReport:
    """Judge every history in `store` and save what changed; a second time changes nothing.

    Raises what the store raises. Nothing is locked while the numbers are looked at. The alerts are
    read and saved in one transaction, so that what people set meanwhile is kept.
    """
    stored = load_alerts(store)
    rules = series_rules(stored, settings=load_series_settings(store))
    outcomes = load_outcomes(store)
    references = list(load_histories(store, metrics=CLOCKS, family=REFERENCE_FAMILY))
    histories = load_histories(store, metrics=NEEDED_METRICS)
    standing = Standing(stored, rules=rules)
    watched = standing.watch(histories)
    claims = judge_histories(watched, references=references, rules=rules)
    told = believed(
        claims,
        num_series=count_judged_series(store),
        confirmed={alert.id for alert in stored if alert.is_confirmed},
    )
    found = [claim.alert for claim in told]
    # A reference case that is left out, or fails, is no news about a model.
    failures = judge_outcomes([item for item in outcomes if not item.case.is_reference])
    known = {alert.id for alert in stored}
    found.extend(_with_reasons(store, failures, outcomes=outcomes, known=known))
    found = with_ends(store, found, stored=stored, outcomes=outcomes)
    found.extend(standing.beside(found))
    update = store.revise_alerts(
        lambda now: update_alerts(
            found,
            stored=now,
            judged_runs=_run_ids(outcomes),
            settings=rules.settings,
        ),
        by=JUDGE,
    )
    logger.info(
        "judged %d runs: %d alerts, %d new, %d fixed",
        len(_run_ids(outcomes)),
        len(update.alerts),
        len(update.new),
        len(update.fixed),
    )
    return DetectReport(alerts=update.alerts, new=update.new, fixed=update.fixed)


def _run_ids(outcomes: Sequence[OutcomeHistory]) -> set[str]:
    return {point.run_id for history in outcomes for point in history.points}


def _with_reasons(
    store: Store, failures: Iterable[Alert], *, outcomes: Sequence[OutcomeHistory], known: set[str]
) -> list[Alert]:
    """Return `failures` with the reason of the first failed result added, where it is new."""
    result_ids = {
        (history.machine, history.case.key, point.run_id): point.result_id
        for history in outcomes
        for point in history.points
    }
    told = []
    for alert in failures:
        result_id = result_ids.get((alert.machine, alert.case.key, alert.first_bad.run_id))
        reason = ""
        if alert.kind == OUTCOME and alert.id not in known and result_id is not None:
            reason = _reason(store, result_id)
        text = f"{alert.cause_text}: {reason}" if reason else alert.cause_text
        told.append(dataclasses.replace(alert, cause_text=text))
    return told


def _reason(store: Store, result_id: str) -> str:
    try:
        return load_result(store, result_id).reason[:MAX_REASON_LENGTH].strip()
    except NotFoundError:
        # Pruned between two reads: the alert stands without it.
        return ""
