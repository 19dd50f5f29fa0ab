"""Apply a record of changes to the alerts and settings of a rebuilt store. Pure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from datetime import datetime

from compile_hud.db.errors import RecordError
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.json_fields import get_member, get_time
from compile_hud.db.records.triage import JUDGE, AlertChange, ChangedField, SeriesSettings

# These values hold, whatever the history has for the alert now.
_LASTING = (AlertState.EXPECTED, AlertState.NOISE)


def check_replayable(change: AlertChange) -> None:
    """Raise RecordError unless the new value of `change` is valid for its field."""
    if change.field is ChangedField.STATE:
        get_member(change.to_json(), "new", AlertState)
    elif change.new and change.field is ChangedField.MUTED_UNTIL:
        get_time(change.to_json(), "new")
    elif change.new and change.field is ChangedField.FLOOR:
        _check_floor(change.new)


def _check_floor(text: str) -> None:
    try:
        is_floor = 0 < float(text) < math.inf
    except ValueError:
        is_floor = False
    if not is_floor:
        raise RecordError(
            f"field 'new' is {text!r}; a floor is a number above 0, like 0.05",
            field="new",
            value=text,
        )


def replayed_alert(alert: Alert, changes: Iterable[AlertChange]) -> Alert:
    """Return `alert` as people left it, by all changes, oldest first.

    It is acknowledged only if that was the last change of its state and it is open now.
    """
    own = [change for change in changes if change.alert_id == alert.id]
    last = {change.field: change.new for change in own if change.old or change.by != JUDGE}
    state = AlertState(last.get(ChangedField.STATE, alert.state))
    is_still = state is AlertState.ACKNOWLEDGED and alert.state is AlertState.OPEN
    mute = last.get(ChangedField.MUTED_UNTIL)
    reasons = [change.why for change in own if change.by != JUDGE and change.why]
    return dataclasses.replace(
        alert,
        state=state if state in _LASTING or is_still else alert.state,
        owner=last.get(ChangedField.OWNER, alert.owner),
        # An empty text is the end of a mute.
        muted_until=alert.muted_until if mute is None else _time(mute),
        note=reasons[-1] if reasons else alert.note,
    )


def replayed_settings(changes: Sequence[AlertChange]) -> tuple[SeriesSettings, ...]:
    """Return the settings of each pattern by all changes, oldest first."""
    patterns = dict.fromkeys(change.pattern for change in changes if change.pattern)
    return tuple(_settings(pattern, changes) for pattern in patterns)


def _settings(pattern: str, changes: Iterable[AlertChange]) -> SeriesSettings:
    last = {change.field: change.new for change in changes if change.pattern == pattern}
    floor = last.get(ChangedField.FLOOR)
    return SeriesSettings(
        pattern=pattern,
        floor=float(floor) if floor else None,
        muted_until=_time(last.get(ChangedField.MUTED_UNTIL)),
        owner=last.get(ChangedField.OWNER, ""),
        baseline_run_id=last.get(ChangedField.BASELINE_RUN_ID, ""),
    )


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
