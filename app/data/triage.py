"""Write triage decisions from pages: a part of app/data/store.py.

Each function checks the role of the person again, whatever the page has shown. It compares the
alerts that the person saw with the stored ones, in the transaction that saves.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from compile_hud.app.auth import access
from compile_hud.app.data.cache import cached_read
from compile_hud.app.data.store import StoreVersion, open_store, store_url
from compile_hud.db.errors import StoreError
from compile_hud.db.queries.alerts import load_series_settings
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.triage import JUDGE, SeriesSettings, is_reserved
from compile_hud.db.shared.access_rules import Role
from compile_hud.runner.analysis.alerts.triage import (
    Decide,
    TriageDecision,
    add_comment,
    changed_text,
    if_unchanged,
    restore,
    set_care,
    set_state,
)
from compile_hud.runner.analysis.errors import AlertStateError


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionNote:
    """The reason of a decision, and the name of its author without a sign-in."""

    author: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Undo:
    """The alerts that a decision changed, as they were before and after it."""

    before: tuple[Alert, ...]
    after: tuple[Alert, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SaveReport:
    """The outcome of a decision: the reason if it was not saved, and how to take it back.

    `undo` is None where nothing changed that can be taken back.
    """

    problem: str = ""
    undo: Undo | None = None


def decide_state(seen: Sequence[Alert], state: AlertState, *, note: DecisionNote) -> SaveReport:
    """Move alerts to `state` on record."""
    return _saved(seen, set_state([alert.id for alert in seen], state, why=note.reason), note=note)


def decide_care(seen: Sequence[Alert], cared: Sequence[Alert], *, note: DecisionNote) -> SaveReport:
    """Give alerts owner and mute of `cared`."""
    decisions = [
        set_care(before, owner=after.owner, until=after.muted_until, why=note.reason)
        for before, after in zip(seen, cared, strict=True)
    ]
    return _saved(seen, _together(decisions), note=note)


def comment(seen: Sequence[Alert], *, note: DecisionNote) -> SaveReport:
    """Save a comment on alerts; it stays on record."""
    if not note.reason:
        return SaveReport(problem="Not saved: the comment is empty; write it as the reason.")
    report = _saved(seen, add_comment([alert.id for alert in seen], note.reason), note=note)
    return dataclasses.replace(report, undo=None)


def take_back(undo: Undo, *, note: DecisionNote) -> str:
    """Restore the alerts of a decision on record; return the reason if not saved, else ""."""
    return _saved(undo.after, restore(undo.before), note=note).problem


def decide_floor(seen: SeriesSettings, floor: float | None, *, note: DecisionNote) -> str:
    """Set the relevance floor of a series; return the reason if that is not saved, else "".

    `floor` is a fraction, None for the metric's own.
    """

    def revise(stored: SeriesSettings) -> SeriesSettings:
        if stored.floor not in (seen.floor, floor):
            raise AlertStateError("another person has changed it meanwhile")
        return dataclasses.replace(stored, floor=floor)

    def save(by: str) -> None:
        store = open_store(store_url())
        store.revise_settings(seen.pattern, revise, by=by, why=note.reason)

    return _authorised(Role.ADMIN, save, note=note)


def load_settings(alert: Alert) -> SeriesSettings:
    """Return the settings of the series of `alert` itself, not those of a matching pattern."""
    return _settings(alert.series_key).value


def changed_since(seen: Sequence[Alert], alerts: Sequence[Alert]) -> list[str]:
    """Return the differences between alerts as they were `seen` and as they are, by alert."""
    there = {alert.id: alert for alert in alerts}
    texts = [changed_text(alert, there.get(alert.id, alert)) for alert in seen]
    return [text for text in texts if text]


def _saved(seen: Sequence[Alert], decision: Decide, *, note: DecisionNote) -> SaveReport:
    undo: Undo | None = None

    def decide(stored: Sequence[Alert]) -> TriageDecision:
        nonlocal undo
        decided = if_unchanged(seen, decision)(stored)
        after = tuple(revision.alert for revision in decided.revisions)
        known = {alert.id: alert for alert in stored}
        before = tuple(known[alert.id] for alert in after)
        undo = Undo(before=before, after=after) if after else None
        return decided

    def save(by: str) -> None:
        open_store(store_url()).revise_alerts(decide, by=by)

    problem = _authorised(Role.TRIAGER, save, note=note)
    return SaveReport(problem=problem, undo=None if problem else undo)


def _authorised(role: Role, save: Callable[[str], None], *, note: DecisionNote) -> str:
    """Call `save` with the name for the record if the person has the role; return the problem, or
    "".
    """
    person = access.present()
    try:
        access.require(person, role)
        if not person.is_signed_in and is_reserved(note.author):
            raise AlertStateError(f"enter your name ('{JUDGE}' is reserved)")
        save(person.signed_as(note.author))
    except (access.NotAllowed, AlertStateError, StoreError) as error:
        return f"Not saved: {error}."
    return ""


def _together(decisions: Sequence[Decide]) -> Decide:
    def decide(stored: Sequence[Alert]) -> TriageDecision:
        made = [decision(stored) for decision in decisions]
        return TriageDecision(
            alerts=tuple(alert for item in made for alert in item.alerts),
            revisions=tuple(revision for item in made for revision in item.revisions),
        )

    return decide


@cached_read
def _settings(at: StoreVersion, series_key: str) -> SeriesSettings:
    settings = load_series_settings(at.store)
    empty = SeriesSettings(pattern=series_key)
    return next((item for item in settings if item.pattern == series_key), empty)
