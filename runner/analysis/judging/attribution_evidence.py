"""Attribute a step by further evidence: differences of both sides, and confirmation.

If the controls of attribution.py leave the cause open, differences of the bad side decide: warnings
of its result, another driver if nothing else differs, another commit of the model. A confirmation
overrides all of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from compile_hud.db.records.alerts import DRIFT, MASKED, Alert
from compile_hud.db.shared.model_code import code_change_text
from compile_hud.runner.analysis.comparison.environment_diff import (
    MODEL_PREFIX,
    WARNING_PREFIX,
    EnvironmentDiff,
    environment_text,
)
from compile_hud.runner.analysis.detection.series_changes import STEP
from compile_hud.runner.analysis.judging.attribution import (
    EAGER,
    EAGER_OR_MACHINE,
    MACHINE,
    MEASUREMENT,
    TIMED_METRICS,
    UNKNOWN,
    Cause,
)

# Warnings of results that make the machine or the measurement a suspect.
MACHINE_WARNINGS = ("throttled", "clock-change", "shared-gpu")
MEASUREMENT_WARNINGS = (
    "bimodal",
    "noisy-neighbour",
    "launches-disagree",
    "unsettled",
    "drift",
    "few-samples",
    "few-launches",
)
# The last part of a cause's text starts with this: the other differences.
SINCE_LAST_GOOD = "since the last good run: "
# The corresponding text of a drift, for which no single difference is the cause.
WHILE_DRIFTING = "changed while it drifted: "
# Alerts whose cause is computed at each detection: those about a level.
EXPLAINED_KINDS = (STEP, DRIFT, MASKED)
_MACHINE_FACTS = ("driver", "os")
_OPEN = (UNKNOWN, EAGER_OR_MACHINE)


def with_evidence(alert: Alert) -> Alert:
    """Return `alert`, whose cause is by its controls, with all further evidence.

    That is its `environment_diff` and its `confirmation`. The result is the same at each judgement,
    as long as both are stored.
    """
    difference = alert.environment_diff or {}
    cause = Cause(kind=alert.cause_kind, text=alert.cause_text)
    is_drift = alert.kind == DRIFT
    # A change or a condition of one night does not cause a drift of weeks. It is no cause for
    # alerts without a level either: their cause is not computed again, and would disappear the next
    # time.
    is_settled = alert.kind in EXPLAINED_KINDS and _is_timed(alert) and not is_drift
    settled = _settled(cause, alert, difference) if is_settled else Cause(kind=cause.kind)
    measured = confirmed_cause(alert.confirmation)
    model_text = "" if is_drift else _model_text(alert, difference)
    # The revisions of the model's code come first, and once.
    others = {name: item for name, item in difference.items() if name != _model_fact(alert)}
    text = environment_text(others if model_text else difference)
    parts = (
        model_text,
        cause.text,
        measured.text,
        settled.text,
        f"{WHILE_DRIFTING if is_drift else SINCE_LAST_GOOD}{text}" if text else "",
    )
    return dataclasses.replace(
        alert,
        cause_kind=settled.kind if measured.kind == UNKNOWN else measured.kind,
        cause_text="; ".join(part for part in parts if part),
    )


def _model_text(alert: Alert, difference: EnvironmentDiff) -> str:
    """Return the revisions of the model's code, which come first; empty where they are equal."""
    revisions = difference.get(_model_fact(alert))
    return "" if revisions is None else code_change_text(*revisions)


def _model_fact(alert: Alert) -> str:
    return f"{MODEL_PREFIX}{alert.case.model}"


def confirmed_cause(confirmation: Mapping[str, Any] | None) -> Cause:
    """Return the cause by the confirmation; unknown and without text if there is none."""
    cause = (confirmation or {}).get("cause") or {}
    return Cause(kind=str(cause.get("kind", UNKNOWN)), text=str(cause.get("text", "")))


def _is_timed(alert: Alert) -> bool:
    return alert.metric in TIMED_METRICS and not alert.case.is_reference


def _settled(cause: Cause, alert: Alert, difference: EnvironmentDiff) -> Cause:
    """Return the cause by differences of the bad side, with their part of the text."""
    new = [
        name.removeprefix(WARNING_PREFIX)
        for name, (before, after) in difference.items()
        if name.startswith(WARNING_PREFIX) and before is None and after is not None
    ]
    warned = [code for code in (*MACHINE_WARNINGS, *MEASUREMENT_WARNINGS) if code in new]
    changed = [name for name in difference if not name.startswith(WARNING_PREFIX)]
    has_new_system = any(name in _MACHINE_FACTS for name in changed)
    # If two facts changed in one night, either may be the cause.
    is_system_alone = has_new_system and all(name in _MACHINE_FACTS for name in changed)
    has_new_model = _model_fact(alert) in difference
    parts = [f"only the bad side is {', '.join(warned)}"] if warned else []
    kind = cause.kind
    is_disturbed = any(code in MACHINE_WARNINGS for code in warned)
    if kind in _OPEN and (is_system_alone or is_disturbed):
        kind = MACHINE
    elif kind == EAGER_OR_MACHINE and has_new_model and not has_new_system:
        kind = EAGER
    elif kind in _OPEN and warned:
        kind = MEASUREMENT
    return Cause(kind=kind, text="; ".join(parts))
