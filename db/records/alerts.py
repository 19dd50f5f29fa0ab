"""Alerts, their last good and first bad runs, and the events that group them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from compile_hud.db.records.codec import JsonRecord
from compile_hud.db.records.json_fields import time_to_json
from compile_hud.db.records.metrics import metric_label
from compile_hud.db.records.results import Case, RunRef, Verdict
from compile_hud.db.records.string_enum import StrEnum
from compile_hud.db.shared.text import with_kind

# The kind of an alert whose level moved slowly. It began with its `last_good` run and was first
# seen with its `first_bad` one; between them are nights of either kind.
DRIFT: Final = "drift"
# The kind of an alert about a missing case, or a metric that its newest results lack.
VANISHED: Final = "vanished"
# The kind of an alert about a case whose next result is overdue.
LATE: Final = "late"
# The words for these kinds.
MISSING_WORDS: Final = {VANISHED: "missing", LATE: "overdue"}
FAILING: Final = "failing"
# The kind of an alert about a kernel that became slower while the latency of its case stayed.
MASKED: Final = "masked"
# The metric of an alert about an outcome instead of a number.
OUTCOME: Final = "outcome"
_NUMBER_KINDS: Final = ("step", "variance")


class AlertState(StrEnum):
    """Lifecycle of an alert."""

    OPEN = "open"
    ACKNOWLEDGED = "acknowledged"
    EXPECTED = "expected"
    NOISE = "noise"
    FIXED = "fixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """A change that someone should look at.

    `kind` is one of

    - `step`: the level of a metric changed,
    - `drift`: it changed slowly,
    - `variance`: its noise grew,
    - `masked`: a kernel became slower, and the latency of its case did not change,
    - `outcome`: ok became failed,
    - `vanished` or `late`: no more results.

    The first four have numbers. The bounds of a drift are weeks apart (`alert_bounds`).
    `interval_pct` is the interval of `change_pct`. Alerts with one `event_id` have one cause; an
    empty one has no event. `owner`, `muted_until` and `note` (the reason of the last change) come
    from people. `is_confirmed` and `confirmation` (JSON: the re-measurement) are None without a
    re-measurement. `environment_diff` (JSON: last good against first bad run) is None without a
    comparison. `bisection` (JSON: the search for its revision, docs/how-to/bisect.md)
    is None before one.
    """

    id: str
    series_key: str
    kind: str
    state: AlertState
    verdict: Verdict
    case: Case
    metric: str
    unit: str
    machine: str
    toolchain: str
    fingerprint: str
    first_bad: RunRef
    last_seen: datetime
    last_good: RunRef | None = None
    baseline: float | None = None
    candidate: float | None = None
    change_pct: float | None = None
    interval_pct: tuple[float, float] | None = None
    is_significant: bool = True
    is_relevant: bool = True
    is_confirmed: bool | None = None
    cause_kind: str = "unknown"
    cause_text: str = ""
    event_id: str = ""
    owner: str = ""
    muted_until: datetime | None = None
    note: str = ""
    confirmation: Mapping[str, Any] | None = None
    environment_diff: Mapping[str, Any] | None = None
    bisection: Mapping[str, Any] | None = None

    def to_json(
        self,
        *,
        kernels: Sequence[Mapping[str, Any]] = (),
        noise: str = "",
        findings: Sequence[Mapping[str, Any]] = (),
        memory: Sequence[Mapping[str, Any]] = (),
    ) -> dict[str, Any]:
        """Return the regression object of docs/how-to/notifications.md, without `repro` and `url`.

        `kernels`, new `findings` and the operators whose `memory` at the peak changed are those
        behind the alert; callers read them with the results.
        `noise` is the reason why the times of kernels are uncertain.
        """
        case = self.case
        return {
            "id": self.id,
            "state": str(self.state),
            "verdict": str(self.verdict),
            "kind": self.kind,
            "model": case.model,
            "phase": str(case.phase),
            "shape": case.shape,
            "dtype": str(case.dtype),
            "mode": case.mode,
            "variant": case.variant,
            "device": case.device,
            "machine": self.machine,
            "toolchain": self.toolchain,
            "metric": self.metric,
            "unit": self.unit,
            "baseline": self.baseline,
            "candidate": self.candidate,
            "change_pct": self.change_pct,
            "interval_pct": None if self.interval_pct is None else list(self.interval_pct),
            "significant": self.is_significant,
            "relevant": self.is_relevant,
            "confirmed": self.is_confirmed,
            "first_bad": self.first_bad.to_json(),
            "last_good": None if self.last_good is None else self.last_good.to_json(),
            "last_seen": time_to_json(self.last_seen),
            "cause": {
                "kind": self.cause_kind,
                "text": self.cause_text,
                "kernels": list(kernels),
                "noise": noise,
                "findings": list(findings),
                "memory": list(memory),
                "bisection": self.bisection,
            },
            "event_id": self.event_id,
            "owner": self.owner,
            "muted_until": None if self.muted_until is None else time_to_json(self.muted_until),
            "note": self.note,
            "confirmation": self.confirmation,
            "environment_diff": self.environment_diff,
        }


def subject_text(metric: str, *, kind: str, verdict: str) -> str:
    """Return the words for an alert: `latency`, `latency (drift)`, `speedup missing`, `failing`."""
    if metric != OUTCOME:
        return " ".join(
            filter(None, (with_kind(metric_label(metric), kind=kind), MISSING_WORDS.get(kind)))
        )
    return state_word(kind, verdict=verdict) or metric


def state_word(kind: str, *, verdict: str) -> str:
    """Return the word for the state of a case without a number, "" for changes of numbers."""
    if kind == OUTCOME:
        return FAILING if verdict == Verdict.REGRESSION else "passing again"
    return MISSING_WORDS.get(kind, "")


def began(alert: Alert) -> RunRef:
    """Return the run where the change began: the first bad one, of a drift the last good one."""
    return alert.last_good if alert.kind == DRIFT and alert.last_good else alert.first_bad


def leading(alerts: Sequence[Alert]) -> Sequence[Alert]:
    """Return the alerts of an event that describe its change and its beginning.

    If all are of one model, its drifts, which describe more than the steps within them; else all
    but the drifts.
    """
    drifts = [alert for alert in alerts if alert.kind == DRIFT]
    others = [alert for alert in alerts if alert.kind != DRIFT]
    has_drift_leaders = len({alert.case.model for alert in alerts}) == 1 and all(
        alert.kind in _NUMBER_KINDS for alert in others
    )
    return (drifts or others) if has_drift_leaders else (others or drifts)


def onset_of(alerts: Sequence[Alert]) -> Alert:
    """Return the alert of an event that dates its change.

    It is the first one, since all share one change; among drifts, whose beginnings are estimates,
    the first with the run of most.
    """
    counts = Counter(began(alert).run_id for alert in alerts if alert.kind == DRIFT)
    is_drifting = len(alerts) == counts.total()
    return min(
        alerts,
        key=lambda item: (-counts[began(item).run_id] * is_drifting, item.first_bad.at, item.id),
    )


def bound_labels(kind: str) -> tuple[str, str]:
    """Return the labels of the last good and the first bad run of an alert of `kind`."""
    return ("began", "first seen") if kind == DRIFT else ("last good", "first bad")


def alert_bounds(alert: Alert) -> tuple[tuple[str, RunRef | None], tuple[str, RunRef | None]]:
    """Return both bounds of an alert with their labels, the beginning of the change first."""
    good_name, bad_name = bound_labels(alert.kind)
    good, bad = (good_name, alert.last_good), (bad_name, alert.first_bad)
    return (good, bad) if alert.kind == DRIFT else (bad, good)


class EventKind(StrEnum):
    """The property that the alerts of an event share."""

    CASE = "case"
    MODEL = "model"
    REVISION = "revision"
    ENVIRONMENT = "environment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event(JsonRecord):
    """One change with all the alerts about it; `size` is their number."""

    id: str
    kind: EventKind
    title: str
    size: int
