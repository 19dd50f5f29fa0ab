"""Store the result of a confirmation with its alert, and update the alert."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compile_hud.db.records.alerts import MASKED, Alert, AlertState
from compile_hud.db.records.metrics import metric_label
from compile_hud.db.records.results import CaseResult, Verdict
from compile_hud.db.records.triage import Revision
from compile_hud.runner.analysis.confirmation.suspects import num_attempts
from compile_hud.runner.analysis.confirmation.verdict import Conclusion, ConfirmationResult, Method
from compile_hud.runner.analysis.judging.attribution import UNKNOWN
from compile_hud.runner.analysis.judging.attribution_evidence import with_evidence
from compile_hud.runner.analysis.stats.launch_levels import launch_levels

# A decision that a user makes during the measurement stays.
_DECIDED = (AlertState.ACKNOWLEDGED, AlertState.EXPECTED, AlertState.NOISE)


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The alerts to be saved once they were measured again."""

    revisions: tuple[Revision, ...]


def confirmation_json(
    result: ConfirmationResult, *, alert: Alert, how: Mapping[str, Any], is_early: bool
) -> dict[str, Any]:
    """Return the document to store with `alert`; `how` has the facts of the measurement."""
    compared = result.comparison
    return {
        "verdict": str(result.conclusion),
        "reason": result.reason,
        "method": str(result.method),
        "num_tries": num_attempts(alert) + (result.method is not Method.NONE),
        "is_early": is_early,
        "unit": alert.unit,
        "baseline": result.baseline,
        "candidate": result.candidate,
        "change_pct": None if compared is None else change_pct(compared.ratio),
        "interval_pct": None
        if compared is None or compared.low is None
        else [change_pct(compared.low), change_pct(compared.high)],
        "cause": {"kind": result.cause.kind, "text": result.cause.text},
        **how,
    }


def side_json(result: CaseResult, metric: str, *, toolchain: str, revision: str) -> dict[str, Any]:
    """Return the stored summary of one side's new samples."""
    measured = result.measurement(metric)
    return {
        "toolchain": toolchain,
        "revision": revision,
        "outcome": str(result.outcome),
        "num_launches": result.details.get("num_launches"),
        "num_samples": 0 if measured is None else len(measured.samples),
        "median": None if measured is None else measured.median,
        "interval": None if measured is None else list(measured.interval),
        "launch_levels": [] if measured is None else launch_levels(result, metric).tolist(),
    }


def with_conclusion(
    alert: Alert, result: ConfirmationResult, *, document: Mapping[str, Any], is_early: bool
) -> Alert:
    """Return `alert` with the result of its confirmation; `document` is stored with it.

    An early suspect that is not confirmed is over at once. It is stored as `fixed`, `unchanged` or
    `inconclusive`, so that its measurements stay, and opens if the judge detects it later.
    """
    conclusion = result.conclusion
    confirmed = dataclasses.replace(
        alert,
        is_confirmed=None
        if conclusion is Conclusion.INCONCLUSIVE
        else conclusion is Conclusion.CONFIRMED,
        confirmation=document,
    )
    if is_early:
        confirmed = with_evidence(confirmed)
        if not confirmed.is_confirmed:
            is_refuted = conclusion is Conclusion.REFUTED
            verdict = Verdict.UNCHANGED if is_refuted else Verdict.INCONCLUSIVE
            confirmed = dataclasses.replace(confirmed, state=AlertState.FIXED, verdict=verdict)
        return confirmed
    cause = result.cause
    return dataclasses.replace(
        confirmed,
        cause_kind=alert.cause_kind if cause.kind == UNKNOWN else cause.kind,
        cause_text="; ".join(part for part in (alert.cause_text, cause.text) if part),
    )


def is_refuted(alert: Alert) -> bool:
    """Return whether confirmation refuted `alert`, so that it causes no notification."""
    return alert.is_confirmed is False


def fails_run(alert: Alert) -> bool:
    """Return whether `alert` fails a run: it was confirmed, or needs no confirmation.

    An impossible confirmation does not count. Alerts without a confirmation, which are drifts and
    missing cases, count by their history. A masked kernel never fails a run: its case is as fast as
    before.
    """
    if alert.kind == MASKED:
        return False
    return bool(alert.is_confirmed) or alert.confirmation is None


def conclusion_text(alert: Alert) -> str:
    """Return one line about the confirmation of `alert`."""
    confirmation = alert.confirmation or {}
    baseline = confirmation.get("baseline_side") or {}
    how = {
        Method.IN_TURN: f" in turn with toolchain {baseline.get('toolchain')}",
        Method.HISTORY: " against the history",
    }.get(confirmation.get("method", Method.NONE), "")
    what = f"{alert.case.key} {metric_label(alert.metric)}"
    return f"{confirmation.get('verdict')}{how}: {what}: {confirmation.get('reason')}"


def revised(alerts: Sequence[Alert], *, now: Sequence[Alert]) -> Confirmed:
    """Return `alerts` with the decisions of the stored ones in `now`, and with reasons."""
    known = {alert.id: alert for alert in now}
    return Confirmed(
        tuple(
            Revision(
                alert=_with_decisions(alert, known.get(alert.id)),
                why=f"re-measured: {(alert.confirmation or {})['verdict']}",
            )
            for alert in alerts
        )
    )


def _with_decisions(alert: Alert, known: Alert | None) -> Alert:
    if known is None:
        return alert
    return dataclasses.replace(
        alert,
        state=known.state if known.state in _DECIDED else alert.state,
        owner=known.owner,
        muted_until=known.muted_until,
        note=known.note,
        bisection=known.bisection,
    )


def change_pct(ratio: float | None) -> float | None:
    """Return a ratio as a change in percent, None without one."""
    return None if ratio is None else 100 * (ratio - 1)
