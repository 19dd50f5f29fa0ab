"""What becomes of alerts: when the history is judged again, and when people decide.

An alert keeps its identity for good. A step whose onset moved as later nights came in is the same
alert, and a step back to the old bad level after it was fixed is the same alert, reopened; only
what people expect is closed for good, and the next step is another alert.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from compile_hud.db.records.alerts import Alert, AlertState, Event, began
from compile_hud.db.records.triage import ONGOING, Revision, SeriesSettings, with_settings
from compile_hud.runner.analysis.judging.attribution_evidence import EXPLAINED_KINDS
from compile_hud.runner.analysis.outcomes.outcomes import ENDING_KINDS

# A new level nearer than this share of the old change to the old bad level is that level.
SAME_LEVEL_SHARE = 0.5
NO_LONGER_DETECTED = "no longer found when the history was judged again"

_Scope = tuple[str, str, str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """All alerts as they are now, and which of them changed.

    `revisions` have to be saved; `new` are those that were opened (or opened again), `fixed` those
    that were ongoing and are over; `events` are those of what was found, by the alert's id.
    """

    alerts: tuple[Alert, ...]
    revisions: tuple[Revision, ...]
    new: tuple[Alert, ...]
    fixed: tuple[Alert, ...]
    events: Mapping[str, Event]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Detected:
    """What the judge found last of one alert; `is_relapse`: it was over, and came back."""

    alert: Alert
    is_relapse: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _AlertMatch:
    """What was found once, and the id that it is known by; `replaced` is one that is no alert."""

    detected: Alert
    id: str
    is_relapse: bool
    replaced: str


def _no_events(_: Iterable[Alert]) -> dict[str, Event]:
    return {}


def update_alerts(
    detected: Iterable[Alert],
    *,
    stored: Iterable[Alert],
    judged_runs: Collection[str],
    settings: Sequence[SeriesSettings] = (),
    group: Callable[[Iterable[Alert]], Mapping[str, Event]] = _no_events,
) -> Update:
    """Return what to keep of `stored` in the light of `found`.

    What people set stays: expected and noise always, acknowledged until the level is back. An
    ongoing alert that is found no more, though its first bad run was judged, is over; one whose
    run is no longer in the store stays as it is. A new one has owner and mute of its series by
    `settings`. `group` returns the event of each alert, by the alert's id; it is given each alert
    once, however often it came back.
    """
    known = {alert.id: alert for alert in stored}
    detected_by_id = _identified(detected, known)
    events = group([item.alert for item in detected_by_id.values()])
    detected_by_id = {id: _with_event(item, events.get(id)) for id, item in detected_by_id.items()}
    revised = {
        id: _merged(item, known[id]) if id in known else _first_seen(item.alert, settings)
        for id, item in detected_by_id.items()
    }
    for id, alert in known.items():
        if id not in detected_by_id:
            revised[id] = _no_longer_detected(alert, judged_runs)
    revisions = tuple(item for id, item in revised.items() if item.alert != known.get(id))
    return Update(
        alerts=tuple(item.alert for item in revised.values()),
        revisions=revisions,
        new=tuple(
            item.alert
            for item in revisions
            if _was_opened(item.alert, known, detected=detected_by_id)
        ),
        fixed=tuple(item.alert for item in revisions if _was_fixed(item.alert, known)),
        events=events,
    )


def _with_event(detected: _Detected, event: Event | None) -> _Detected:
    if event is None:
        return detected
    alert = dataclasses.replace(detected.alert, event_id=event.id)
    return dataclasses.replace(detected, alert=alert)


def match_stored(detected: Iterable[Alert], *, stored: Iterable[Alert]) -> dict[str, Alert]:
    """Return which of `stored` each of `found` is, by the id it was found with.

    The onset may have moved since. What is new, or came back in another run, is none of them.
    """
    known = {alert.id: alert for alert in stored}
    return {
        match.detected.id: known[match.id]
        for match in _matches(detected, known)
        if match.id in known and not match.is_relapse
    }


def _identified(detected: Iterable[Alert], known: Mapping[str, Alert]) -> dict[str, _Detected]:
    """Return what was found last of each alert, by the id that it is known by."""
    identified: dict[str, _Detected] = {}
    for match in _matches(detected, known):
        if match.replaced:
            del identified[match.replaced]
        alert = dataclasses.replace(match.detected, id=match.id)
        identified[match.id] = _Detected(alert=alert, is_relapse=match.is_relapse)
    return identified


def _matches(detected: Iterable[Alert], known: Mapping[str, Alert]) -> Iterator[_AlertMatch]:
    """Yield what each of `found` is, those of a series and direction oldest first."""
    by_scope: dict[_Scope, list[Alert]] = defaultdict(list)
    for alert in detected:
        by_scope[_scope(alert)].append(alert)
    stored: dict[_Scope, list[Alert]] = defaultdict(list)
    for alert in known.values():
        stored[_scope(alert)].append(alert)
    for scope, alerts in by_scope.items():
        yield from _followed(sorted(alerts, key=_onset), stored[scope])


def _followed(detected: Sequence[Alert], stored: Sequence[Alert]) -> Iterator[_AlertMatch]:
    """Follow one place through the steps of one direction, oldest first."""
    ids = {alert.first_bad.run_id: alert.id for alert in stored}
    by_id = {alert.id: alert for alert in stored}
    relocated = _relocated(detected, stored, ids=ids)
    # What ended badly in one environment has not come back in another one.
    lasts: dict[str, Alert] = {}
    for alert in detected:
        last = lasts.get(alert.series_key)
        id = ids.get(alert.first_bad.run_id, alert.id)
        is_relapse, replaced = False, ""
        if id not in by_id:
            id = relocated.get(alert.id, id)
        is_known = id in by_id
        if last is not None and _came_back(alert, last, by_id.get(id if is_known else last.id)):
            if not is_known:
                id, is_relapse = last.id, True
            elif last.id not in by_id:
                # What came before was stored after it: it is no other alert for that.
                replaced = last.id
        lasts[alert.series_key] = dataclasses.replace(alert, id=id)
        yield _AlertMatch(detected=alert, id=id, is_relapse=is_relapse, replaced=replaced)


def _relocated(
    detected: Sequence[Alert], stored: Sequence[Alert], *, ids: Mapping[str, str]
) -> dict[str, str]:
    """Return which of `stored` has moved to which of `found`, by its id; each to one at most.

    What was found in the same environment comes first.
    """
    known = {alert.id for alert in stored}
    by_run = {alert.id: ids.get(alert.first_bad.run_id, alert.id) for alert in detected}
    claimed = set(by_run.values())
    relocated: dict[str, str] = {}
    for is_same in (True, False):
        for alert in detected:
            if by_run[alert.id] in known or alert.id in relocated:
                continue
            free = (
                item.id
                for item in stored
                if item.id not in claimed
                and (item.series_key == alert.series_key or not is_same)
                and _overlap(alert, item)
            )
            id = next(free, None)
            if id is not None:
                relocated[alert.id] = id
                claimed.add(id)
    return relocated


def _scope(alert: Alert) -> _Scope:
    # How a case ended compares across environments, and its first bad run may be of another one.
    is_ending = alert.kind in ENDING_KINDS
    return (
        f"{alert.case.key}#{alert.metric}" if is_ending else alert.series_key,
        alert.machine,
        alert.toolchain,
        alert.kind,
        str(alert.verdict),
    )


def _onset(alert: Alert) -> tuple[datetime, str]:
    return (alert.first_bad.at, alert.first_bad.run_id)


def _overlap(detected: Alert, stored: Alert) -> bool:
    """Return whether `found` is what `stored` was, with an onset that moved."""
    if stored.state is AlertState.EXPECTED and stored.kind not in ENDING_KINDS:
        # What led to an accepted level is judged by itself and ends where that begins.
        is_cause = detected.state is AlertState.OPEN and detected.first_bad.at < stored.first_bad.at
        return is_cause and _same_level(detected, stored)
    begins_in_time = detected.first_bad.at <= stored.last_seen
    return (
        begins_in_time
        and stored.first_bad.at <= detected.last_seen
        and _same_level(detected, stored)
    )


def _came_back(detected: Alert, last: Alert, stored: Alert | None) -> bool:
    # What came back before people accepted it is what they accepted.
    is_settled = (
        stored is not None
        and stored.state is AlertState.EXPECTED
        and detected.first_bad.at >= stored.first_bad.at
    )
    return last.state is AlertState.FIXED and not is_settled and _same_level(detected, last)


def _same_level(alert: Alert, other: Alert) -> bool:
    """Return whether the bad levels are the same; without numbers they are."""
    if alert.candidate is None or other.candidate is None or other.baseline is None:
        return True
    change = abs(other.candidate - other.baseline)
    return abs(alert.candidate - other.candidate) <= SAME_LEVEL_SHARE * change


def _first_seen(alert: Alert, settings: Sequence[SeriesSettings]) -> Revision:
    return Revision(alert=with_settings(alert, settings), why=f"found: {_since(alert)}")


def _merged(detected: _Detected, stored: Alert) -> Revision:
    alert = detected.alert
    if stored.state is AlertState.EXPECTED:
        return Revision(alert=stored)
    state = alert.state
    if stored.state is AlertState.NOISE or (
        stored.state is AlertState.ACKNOWLEDGED
        and state is AlertState.OPEN
        and not detected.is_relapse
    ):
        state = stored.state
    merged = dataclasses.replace(
        alert, state=state, owner=stored.owner, muted_until=stored.muted_until, note=stored.note
    )
    if not detected.is_relapse:
        merged = _with_evidence(merged, stored)
    return Revision(alert=merged, why=_reason(merged, stored))


def _with_evidence(alert: Alert, stored: Alert) -> Alert:
    known = {
        name: getattr(stored, name)
        for name in ("is_confirmed", "confirmation", "environment_diff")
        if getattr(alert, name) is None
    }
    # With both ends at hand the text of a level is whole. Else it only begins the one that is kept:
    # the reason of a failure is looked up once, and pruned runs tell nothing any more.
    is_complete = alert.kind in EXPLAINED_KINDS and alert.environment_diff is not None
    is_begun = not is_complete and stored.cause_text.startswith(alert.cause_text)
    text = stored.cause_text if is_begun else alert.cause_text
    return dataclasses.replace(alert, cause_text=text, **known)


def _reason(alert: Alert, stored: Alert) -> str:
    if alert.state is AlertState.FIXED:
        return f"recovered: seen last on {alert.last_seen:%Y-%m-%d}"
    if stored.state in (AlertState.FIXED, AlertState.ACKNOWLEDGED):
        return f"came back: {_since(alert)}"
    return ""


def _since(alert: Alert) -> str:
    first = began(alert)
    return f"since run {first.run_id} of {first.at:%Y-%m-%d}"


def _no_longer_detected(stored: Alert, judged_runs: Collection[str]) -> Revision:
    if stored.state in ONGOING and stored.first_bad.run_id in judged_runs:
        return Revision(
            alert=dataclasses.replace(stored, state=AlertState.FIXED), why=NO_LONGER_DETECTED
        )
    return Revision(alert=stored)


def _was_opened(
    alert: Alert, known: Mapping[str, Alert], *, detected: Mapping[str, _Detected]
) -> bool:
    if alert.state is not AlertState.OPEN or alert.id not in detected:
        return False
    before = known.get(alert.id)
    return before is None or before.state is not AlertState.OPEN or detected[alert.id].is_relapse


def _was_fixed(alert: Alert, known: Mapping[str, Alert]) -> bool:
    before = known.get(alert.id)
    return alert.state is AlertState.FIXED and before is not None and before.state in ONGOING
