"""What people decide about an alert, as revisions to save.

Each function looks at the alerts as they are when it is called, within the transaction that saves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from db.records import Alert, AlertState
from db.triage import Revision

# The judge alone says that something is fixed; a fixed alert can still be called noise, so that it
# stays silent when it comes back.
ALLOWED_STATES = {
    state: (AlertState.NOISE,)
    if state is AlertState.FIXED
    else (AlertState.OPEN, AlertState.ACKNOWLEDGED, AlertState.EXPECTED, AlertState.NOISE)
    for state in AlertState
}


class AlertStateError(ValueError):
    """An alert cannot go to this state from where it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The alert as it is after somebody decided, and what has to be saved for that."""

    alert: Alert
    revisions: tuple[Revision, ...]


Decide = Callable[[Sequence[Alert]], Decision]


def set_state(alert_id: str, state: AlertState, *, why: str = "") -> Decide:
    """Return the decision that moves an alert to `state`; AlertStateError where it cannot go there.

    Whoever expects a level expects the steps that led to it too: what is ongoing in the same series
    since before is settled with it.
    """

    def decide(stored: Sequence[Alert]) -> Decision:
        alert = _find(stored, alert_id)
        if alert.state is state:
            return Decision(alert=alert, revisions=())
        _check_allowed(alert, state)
        chosen = [alert, *(_leading_to(alert, stored) if state is AlertState.EXPECTED else ())]
        return _decision(chosen, lambda item: dataclasses.replace(item, state=state), why=why)

    return decide


def set_owner(alert_id: str, owner: str, *, why: str = "") -> Decide:
    """Return the decision that `owner` takes care of an alert; empty takes the owner away."""

    def decide(stored: Sequence[Alert]) -> Decision:
        chosen = [_find(stored, alert_id)]
        return _decision(chosen, lambda item: dataclasses.replace(item, owner=owner), why=why)

    return decide


def set_muted(alert_id: str, until: datetime | None, *, why: str = "") -> Decide:
    """Return the decision that nobody is told about an alert before `until`."""

    def decide(stored: Sequence[Alert]) -> Decision:
        chosen = [_find(stored, alert_id)]
        return _decision(chosen, lambda item: dataclasses.replace(item, muted_until=until), why=why)

    return decide


def _find(stored: Sequence[Alert], alert_id: str) -> Alert:
    return next(alert for alert in stored if alert.id == alert_id)


def _check_allowed(alert: Alert, state: AlertState) -> None:
    allowed = ALLOWED_STATES[alert.state]
    if state not in allowed:
        raise AlertStateError(
            f"alert {alert.id} is {alert.state} and cannot become {state}; allowed:"
            f" {', '.join(allowed)}. It opens again by itself when the step comes back"
        )


def _leading_to(alert: Alert, stored: Sequence[Alert]) -> list[Alert]:
    def place(item: Alert) -> tuple[str, ...]:
        return (item.series_key, item.machine, item.toolchain, item.kind)

    return [
        other
        for other in stored
        if place(other) == place(alert)
        and other.state in (AlertState.OPEN, AlertState.ACKNOWLEDGED)
        and other.first_bad.at < alert.first_bad.at
    ]


def _decision(chosen: Sequence[Alert], revise: Callable[[Alert], Alert], *, why: str) -> Decision:
    revised = [revise(alert) for alert in chosen]
    if why:
        revised = [dataclasses.replace(alert, note=why) for alert in revised]
    pairs = zip(chosen, revised, strict=True)
    revisions = tuple(Revision(alert=new, why=why) for old, new in pairs if new != old)
    return Decision(alert=revised[0], revisions=revisions)
