"""What becomes of the alerts in the store when the history is judged again."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from db.records import Alert, AlertState

# A person has decided these; judging again does not reopen or close them.
_FINAL = (AlertState.EXPECTED, AlertState.NOISE)
_ONGOING = (AlertState.OPEN, AlertState.ACKNOWLEDGED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """All alerts as they are now, and which of them changed.

    `changed` has to be saved; `new` are those that were opened (or opened again), `fixed` those
    that were ongoing and are over.
    """

    alerts: tuple[Alert, ...]
    changed: tuple[Alert, ...]
    new: tuple[Alert, ...]
    fixed: tuple[Alert, ...]


def update_alerts(
    found: Iterable[Alert], *, stored: Iterable[Alert], judged_runs: Collection[str]
) -> Update:
    """Return what to keep of `stored` in the light of `found`.

    What people set stays: expected and noise always, acknowledged until the level is back. An
    ongoing alert that is found no more, though its first bad run was judged, is over; one whose
    run is no longer in the store stays as it is.
    """
    known = {alert.id: alert for alert in stored}
    present = {alert.id: _merged(alert, known.get(alert.id)) for alert in found}
    for alert in known.values():
        if alert.id not in present:
            present[alert.id] = _not_found(alert, judged_runs)
    changed = [alert for alert in present.values() if alert != known.get(alert.id)]
    return Update(
        alerts=tuple(present.values()),
        changed=tuple(changed),
        new=tuple(alert for alert in changed if _was_opened(alert, known)),
        fixed=tuple(alert for alert in changed if _was_fixed(alert, known)),
    )


def _merged(found: Alert, stored: Alert | None) -> Alert:
    if stored is None:
        return found
    state = found.state
    if stored.state in _FINAL or (
        stored.state is AlertState.ACKNOWLEDGED and state is AlertState.OPEN
    ):
        state = stored.state
    # Whoever looked closer may have added to the text that the judge starts.
    is_longer = stored.cause_text.startswith(found.cause_text)
    return dataclasses.replace(
        found,
        state=state,
        is_confirmed=stored.is_confirmed,
        cause_text=stored.cause_text if is_longer else found.cause_text,
    )


def _not_found(stored: Alert, judged_runs: Collection[str]) -> Alert:
    if stored.state in _ONGOING and stored.first_bad.run_id in judged_runs:
        return dataclasses.replace(stored, state=AlertState.FIXED)
    return stored


def _was_opened(alert: Alert, known: Mapping[str, Alert]) -> bool:
    before = known.get(alert.id)
    is_news = before is None or before.state is not AlertState.OPEN
    return alert.state is AlertState.OPEN and is_news


def _was_fixed(alert: Alert, known: Mapping[str, Alert]) -> bool:
    before = known.get(alert.id)
    return alert.state is AlertState.FIXED and before is not None and before.state in _ONGOING
