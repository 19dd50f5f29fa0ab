"""The lifecycle of alerts: the effects of a new judgement of the history, and of user decisions.

An alert keeps its identity for good. A step whose onset moved with later nights is the same alert.
A step back to the old bad level after a fix is the same alert, reopened. Only an expected alert is
closed for good, and the next step is another alert.
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
# The text of an alert that cannot be judged any more ends with this and the reason.
CLOSED = "; closed: "
NO_LONGER_DETECTED = "no longer found when the history was judged again"

_Scope = tuple[str, str, str, str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """All alerts in their current state, and the changed ones.

    `revisions` have to be saved. `new` alerts were opened or reopened; `fixed` ones were ongoing
    and are over. `events` has the event of each detected alert, by the alert's id.
    """

    alerts: tuple[Alert, ...]
    revisions: tuple[Revision, ...]
    new: tuple[Alert, ...]
    fixed: tuple[Alert, ...]
    events: Mapping[str, Event]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Detected:
    """The latest detection of one alert; `is_relapse` means that it was over and came back."""

    alert: Alert
    is_relapse: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _AlertMatch:
    """A detected change and the id of its alert; `replaced` is the id of a superseded entry."""

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
    """Return the update of `stored` by the alerts in `detected`.

    User decisions stay: expected and noise always, acknowledged until the level is back or the mute
    of the alert has ended. An ongoing alert that is no longer detected, although its first bad run
    was judged, is over. One whose run is no longer in the store stays unchanged. A new alert has
    the owner and mute of its series by `settings`. `group` returns the event of each alert, by the
    alert's id; it gets each alert once, even if it came back several times.
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
    """Return the stored alert of each detected one, by the id of the detected one.

    The onset may have moved since. A new alert, or one that came back in another run, has none.
    """
    known = {alert.id: alert for alert in stored}
    return {
        match.detected.id: known[match.id]
        for match in _matches(detected, known)
        if match.id in known and not match.is_relapse
    }


def _identified(detected: Iterable[Alert], known: Mapping[str, Alert]) -> dict[str, _Detected]:
    """Return the latest detection of each alert, by the alert's stored id."""
    identified: dict[str, _Detected] = {}
    for match in _matches(detected, known):
        if match.replaced:
            del identified[match.replaced]
        alert = dataclasses.replace(match.detected, id=match.id)
        identified[match.id] = _Detected(alert=alert, is_relapse=match.is_relapse)
    return identified


def _matches(detected: Iterable[Alert], known: Mapping[str, Alert]) -> Iterator[_AlertMatch]:
    """Yield the match of each detected alert, oldest first within a series and direction."""
    by_scope: dict[_Scope, list[Alert]] = defaultdict(list)
    for alert in detected:
        by_scope[_scope(alert)].append(alert)
    stored: dict[_Scope, list[Alert]] = defaultdict(list)
    for alert in known.values():
        stored[_scope(alert)].append(alert)
    for scope, alerts in by_scope.items():
        yield from _followed(sorted(alerts, key=_onset), stored[scope])


def _followed(detected: Sequence[Alert], stored: Sequence[Alert]) -> Iterator[_AlertMatch]:
    """Yield the matches of one scope through the steps of one direction, oldest first."""
    ids = {alert.first_bad.run_id: alert.id for alert in stored}
    by_id = {alert.id: alert for alert in stored}
    relocated = _relocated(detected, stored, ids=ids)
    # A failure in one environment is not a relapse of one in another environment.
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
                # The earlier alert was stored after this one, and is still the same alert.
                replaced = last.id
        lasts[alert.series_key] = dataclasses.replace(alert, id=id)
        yield _AlertMatch(detected=alert, id=id, is_relapse=is_relapse, replaced=replaced)


def _relocated(
    detected: Sequence[Alert], stored: Sequence[Alert], *, ids: Mapping[str, str]
) -> dict[str, str]:
    """Return the stored id of each detected alert whose onset moved, by the detected id.

    A stored alert has one match at most. Alerts of the same environment are matched first.
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
    # Outcomes compare across environments, so the first bad run may be of another environment.
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
    """Return whether `detected` is the alert `stored` with another onset."""
    if stored.state is AlertState.EXPECTED and stored.kind not in ENDING_KINDS:
        # The cause of an accepted level is judged separately and ends where that level begins.
        is_cause = detected.state is AlertState.OPEN and detected.first_bad.at < stored.first_bad.at
        return is_cause and _same_level(detected, stored)
    begins_in_time = detected.first_bad.at <= stored.last_seen
    return (
        begins_in_time
        and stored.first_bad.at <= detected.last_seen
        and _same_level(detected, stored)
    )


def _came_back(detected: Alert, last: Alert, stored: Alert | None) -> bool:
    # A step that came back before a user accepted it is the accepted step.
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
    state, muted_until = alert.state, stored.muted_until
    is_acknowledged = (
        stored.state is AlertState.ACKNOWLEDGED
        and state is AlertState.OPEN
        and not detected.is_relapse
    )
    is_due = is_acknowledged and _mute_ended(alert, stored)
    if stored.state is AlertState.NOISE or (is_acknowledged and not is_due):
        state = stored.state
    elif is_due:
        muted_until = None
    merged = dataclasses.replace(
        alert, state=state, owner=stored.owner, muted_until=muted_until, note=stored.note
    )
    if is_due:
        return Revision(
            alert=_with_evidence(merged, stored),
            why=f"acknowledged until {stored.muted_until:%Y-%m-%d %H:%M} UTC",
        )
    if not detected.is_relapse:
        merged = _with_evidence(merged, stored)
    return Revision(alert=merged, why=_reason(merged, stored))


def _mute_ended(detected: Alert, stored: Alert) -> bool:
    """Return whether the alert is seen for the first time after the end of its mute.

    A mute that ended before the stored alert was seen last was over when it was acknowledged.
    """
    end = stored.muted_until
    return end is not None and stored.last_seen < end <= detected.last_seen


def _with_evidence(alert: Alert, stored: Alert) -> Alert:
    known = {
        name: getattr(stored, name)
        for name in ("is_confirmed", "confirmation", "environment_diff", "bisection")
        if getattr(alert, name) is None
    }
    # With both runs in the store the text of a level is complete. Otherwise it is only the start of
    # the stored text: the reason of a failure is read once, and pruned runs have none any more.
    is_complete = alert.kind in EXPLAINED_KINDS and alert.environment_diff is not None
    is_begun = not is_complete and stored.cause_text.startswith(alert.cause_text)
    is_begun = is_begun and CLOSED not in stored.cause_text
    text = stored.cause_text if is_begun else alert.cause_text
    return dataclasses.replace(alert, cause_text=text, **known)


def _reason(alert: Alert, stored: Alert) -> str:
    if alert.state is AlertState.FIXED:
        _, is_closed, why = alert.cause_text.rpartition(CLOSED)
        if is_closed:
            return f"closed: {why}"
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
