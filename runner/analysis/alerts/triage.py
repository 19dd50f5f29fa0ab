"""User decisions about an alert, as revisions to save.

Each function reads the alerts at the time of its call, within the transaction that saves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.results import RunRef, Verdict
from compile_hud.db.records.triage import ONGOING, Revision
from compile_hud.runner.analysis.errors import AlertStateError, ChangedMeanwhile, ReasonMissing

# Only the judge sets an alert to fixed. A user can still mark a fixed alert as noise, so that it
# stays suppressed if it recurs.
ALLOWED_STATES = {
    state: (AlertState.NOISE,)
    if state is AlertState.FIXED
    else (*ONGOING, AlertState.EXPECTED, AlertState.NOISE)
    for state in AlertState
}


# The fields of an alert that people set.
_TRIAGE_FIELDS = ("state", "owner", "muted_until", "note")
# The fields of an alert that a decision is based on.
_COMPARED_FIELDS = ("state", "owner", "muted_until", "verdict", "first_bad")


@dataclass(frozen=True, slots=True, kw_only=True)
class TriageDecision:
    """The alerts after a decision, and the changes to save.

    `unmuted` are the alerts before the decision whose mute it ended.
    """

    alerts: tuple[Alert, ...]
    revisions: tuple[Revision, ...]
    unmuted: tuple[Alert, ...] = ()


Decide = Callable[[Sequence[Alert]], TriageDecision]


def set_state(
    alert_ids: Collection[str], state: AlertState, *, why: str = "", until: datetime | None = None
) -> Decide:
    """Return the decision that moves all alerts to `state`; it may raise AlertStateError.

    With `until` they are muted as well. An acknowledged alert opens again when its mute has ended.
    An alert that is opened again is no longer muted, and has no note of the decision before.
    A failure becomes expected only with a reason, else ReasonMissing.

    An expected level includes the steps before it: earlier ongoing alerts of the series are set to
    expected as well.
    """

    def decide(stored: Sequence[Alert]) -> TriageDecision:
        alerts = _find(stored, alert_ids)
        for alert in alerts:
            _check_allowed(alert, state)
        before = _leading_to(alerts, stored) if state is AlertState.EXPECTED else []
        for alert in (*alerts, *before) if not why.strip() else ():
            _check_reason(alert, state)

        def revise(alert: Alert) -> Alert:
            is_reopened = state is AlertState.OPEN is not alert.state
            if is_reopened:
                return dataclasses.replace(alert, state=state, muted_until=None, note="")
            end = alert.muted_until if until is None else until
            return dataclasses.replace(alert, state=state, muted_until=end)

        decided = _decision(alerts, revise, why=why, others=before)
        revised = {revision.alert.id: revision.alert for revision in decided.revisions}
        unmuted = tuple(
            alert
            for alert in (*alerts, *before)
            if alert.muted_until is not None
            and alert.id in revised
            and revised[alert.id].muted_until is None
        )
        return dataclasses.replace(decided, unmuted=unmuted)

    return decide


def set_owner(alert_ids: Collection[str], owner: str, *, why: str = "") -> Decide:
    """Return the decision that sets the owner of alerts; an empty `owner` removes it."""

    def decide(stored: Sequence[Alert]) -> TriageDecision:
        alerts = _find(stored, alert_ids)
        return _decision(alerts, lambda item: dataclasses.replace(item, owner=owner), why=why)

    return decide


def set_muted(alert_ids: Collection[str], until: datetime | None, *, why: str = "") -> Decide:
    """Return the decision to mute alerts until `until`; None ends a mute."""

    def decide(stored: Sequence[Alert]) -> TriageDecision:
        alerts = _find(stored, alert_ids)
        return _decision(alerts, lambda item: dataclasses.replace(item, muted_until=until), why=why)

    return decide


def set_care(expected: Alert, *, owner: str, until: datetime | None, why: str = "") -> Decide:
    """Return the decision that sets owner and mute of an alert at once.

    A field that equals the one in `expected` is not changed, even if the store has another one.
    """
    chosen: dict[str, Any] = {
        name: value
        for name, value in (("owner", owner), ("muted_until", until))
        if value != getattr(expected, name)
    }

    def decide(stored: Sequence[Alert]) -> TriageDecision:
        alerts = _find(stored, [expected.id])
        return _decision(alerts, lambda item: dataclasses.replace(item, **chosen), why=why)

    return decide


def restore(before: Sequence[Alert]) -> Decide:
    """Return the decision that gives alerts state, owner, mute and note as they were `before`."""
    earlier = {alert.id: alert for alert in before}

    def decide(stored: Sequence[Alert]) -> TriageDecision:
        restored = [
            dataclasses.replace(
                alert, **{name: getattr(earlier[alert.id], name) for name in _TRIAGE_FIELDS}
            )
            for alert in _find(stored, earlier)
        ]
        revisions = tuple(Revision(alert=alert, why="undo") for alert in restored)
        return TriageDecision(alerts=tuple(restored), revisions=revisions)

    return decide


def add_comment(alert_ids: Collection[str], text: str) -> Decide:
    """Return the decision that adds the comment `text` to alerts."""

    def decide(stored: Sequence[Alert]) -> TriageDecision:
        alerts = tuple(_find(stored, alert_ids))
        comments = tuple(Revision(alert=alert, comment=text) for alert in alerts)
        return TriageDecision(alerts=alerts, revisions=comments)

    return decide


def if_unchanged(expected: Sequence[Alert], decision: Decide) -> Decide:
    """Return `decision` with a check: ChangedMeanwhile if an alert differs from `expected`."""

    def decide(stored: Sequence[Alert]) -> TriageDecision:
        current = {alert.id: alert for alert in stored}
        for alert in expected:
            if alert.id not in current:
                raise ChangedMeanwhile(
                    f"alert {alert.id} is not in the store any more",
                    alert=alert.id,
                    problem="missing",
                )
            if text := changed_text(alert, current[alert.id]):
                raise ChangedMeanwhile(
                    f"alert {alert.id} changed since it was read: {text}",
                    alert=alert.id,
                    change=text,
                )
        return decision(stored)

    return decide


def changed_text(expected: Alert, now: Alert) -> str:
    """Return the differences of the current alert from the one that the user saw, "" for none."""
    changed = [name for name in _COMPARED_FIELDS if getattr(expected, name) != getattr(now, name)]
    return ", ".join(
        f"{name.replace('_', ' ')} was {_value_text(getattr(expected, name))}, "
        f"is {_value_text(getattr(now, name))}"
        for name in changed
    )


def _value_text(value: Any) -> str:
    if isinstance(value, RunRef):
        return value.revision
    return f"{value:%Y-%m-%d %H:%M} UTC" if isinstance(value, datetime) else str(value or "-")


def _find(stored: Sequence[Alert], alert_ids: Collection[str]) -> list[Alert]:
    return [alert for alert in stored if alert.id in alert_ids]


def _check_allowed(alert: Alert, state: AlertState) -> None:
    allowed = ALLOWED_STATES[alert.state]
    if state not in (alert.state, *allowed):
        raise AlertStateError(
            f"alert {alert.id} is {alert.state} and cannot become {state}; allowed:"
            f" {', '.join(allowed)}. It opens again by itself when the step comes back",
            alert=alert.id,
            state=alert.state,
            requested=state,
        )


def needs_reason(alert: Alert, state: AlertState) -> bool:
    """Return whether `alert` can become `state` with a reason only: an expected failure."""
    is_failure = alert.kind == "outcome" and alert.verdict is Verdict.REGRESSION
    return is_failure and state is AlertState.EXPECTED is not alert.state


def _check_reason(alert: Alert, state: AlertState) -> None:
    if needs_reason(alert, state):
        raise ReasonMissing(
            f"a failure can be expected only with a reason, and {alert.case.key} fails;"
            " write the reason",
            alert=alert.id,
            case=alert.case.key,
        )


def _leading_to(alerts: Sequence[Alert], stored: Sequence[Alert]) -> list[Alert]:
    last = {_scope(alert): alert.first_bad.at for alert in alerts}
    return [
        other
        for other in stored
        if other not in alerts
        and other.state in ONGOING
        and _scope(other) in last
        and other.first_bad.at < last[_scope(other)]
    ]


def _scope(alert: Alert) -> tuple[str, ...]:
    return (alert.series_key, alert.machine, alert.toolchain, alert.kind)


def _decision(
    alerts: Sequence[Alert],
    revise: Callable[[Alert], Alert],
    *,
    why: str,
    others: Sequence[Alert] = (),
) -> TriageDecision:
    revisions = []
    after = []
    for alert in (*alerts, *others):
        revised = revise(alert)
        if revised != alert:
            revised = dataclasses.replace(revised, note=why or revised.note)
            revisions.append(Revision(alert=revised, why=why))
        after.append(revised)
    return TriageDecision(alerts=tuple(after), revisions=tuple(revisions))
