"""Render messages as text for chat, e-mail and issues. Pure; each receiver escapes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from compile_hud.db.records.alerts import DRIFT, AlertState, subject_text
from compile_hud.db.records.notifications import AlertChangeKind, Severity
from compile_hud.db.records.triage import JUDGE
from compile_hud.db.shared.text import (
    counted,
    one_line,
    short_revision,
    shortened,
    signed,
)
from compile_hud.runner.analysis.judging.attribution_evidence import SINCE_LAST_GOOD, WHILE_DRIFTING
from compile_hud.runner.format import levels, percent, quantity
from compile_hud.runner.notifications.dispatcher import (
    MAX_ALERTS_SHOWN,
    MAX_ITEMS_SHOWN,
    Item,
    Message,
)

# The limit is per message: drawing a picture takes seconds.
MAX_PICTURES_SHOWN = 3
# The limit is per alert: its kernel page has the rest.
MAX_KERNELS_SHOWN = 3
MAX_FINDINGS_SHOWN = 3
_TITLE_LENGTH = 200
_SETTLED = {str(state) for state in (AlertState.FIXED, AlertState.EXPECTED, AlertState.NOISE)}
_PART_LENGTH = 300
_WHO = ("model", "phase", "dtype", "variant")
_WORDS = {
    AlertChangeKind.OPENED: "New",
    AlertChangeKind.WORSENED: "Worse",
    AlertChangeKind.REOPENED: "Regressed again",
    AlertChangeKind.FIXED: "Fixed",
    AlertChangeKind.BISECTED: "Bisected",
    AlertChangeKind.WEEKLY: "Weekly",
    AlertChangeKind.TEST: "Test",
}


# Of these a settled state says more than the change.
_NEW_KINDS = (AlertChangeKind.OPENED, AlertChangeKind.REOPENED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One notification: a title, lines about its alerts, and an address, empty for none.

    `actions` maps the labels of buttons to addresses; `picture_url` shows the trend of the alert
    `alert_id`.
    """

    title: str
    lines: tuple[str, ...]
    url: str
    actions: Mapping[str, str] = field(default_factory=dict)
    picture_url: str = ""
    alert_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedMessage:
    """A message as text: a heading, and sections of its first notifications."""

    heading: str
    sections: tuple[Section, ...]
    num_notifications: int

    def overflow_line(self, num_shown: int) -> str:
        """Return a line with the number of notifications left out, empty for none."""
        num_left = self.num_notifications - num_shown
        return f"and {num_left} more: `hud alerts list` shows every one" if num_left else ""


def render_message(message: Message) -> RenderedMessage:
    """Return `message` as lines that can be printed, none of them endless."""
    paragraphs = tuple(
        _section(item, has_picture=number < MAX_PICTURES_SHOWN)
        for number, item in enumerate(message.items[:MAX_ITEMS_SHOWN])
    )
    heading = paragraphs[0].title if len(message.items) == 1 else _counts(message.items)
    return RenderedMessage(
        heading=heading, sections=paragraphs, num_notifications=len(message.items)
    )


def _counts(items: Sequence[Item]) -> str:
    """Return the heading of a digest: the number of notifications by kind."""
    words = Counter(_headline(item).lower() for item in items)
    kinds = ", ".join(f"{num} {word}" for word, num in words.most_common())
    num_severe = sum(item.notification.severity is Severity.SEVERE for item in items)
    severe = f" ({num_severe} severe)" if num_severe else ""
    return f"Compile HUD: {kinds}{severe}"


def without_pictures(words: RenderedMessage) -> RenderedMessage:
    """Return `words` without pictures."""
    bare = tuple(replace(item, picture_url="", alert_id="") for item in words.sections)
    return replace(words, sections=bare)


def _section(item: Item, *, has_picture: bool) -> Section:
    lines = _alert_lines(item) if item.weekly is None else item.weekly.lines()
    if item.alerts:
        lines.append(f"repro: {item.alerts[0]['repro']}")
    return Section(
        title=_short(_title(item), limit=_TITLE_LENGTH),
        lines=tuple(_short(line) for line in lines),
        url=item.alerts[0]["url"] if item.alerts else item.weekly.url if item.weekly else "",
        actions={name.capitalize(): url for name, url in item.actions.items()},
        picture_url=item.picture_url if has_picture else "",
        alert_id=item.alerts[0]["id"] if item.alerts and has_picture else "",
    )


def _title(item: Item) -> str:
    notification = item.notification
    if item.weekly is not None:
        return f"{_headline(item)}: {item.weekly.title()}"
    severity = "" if notification.kind is AlertChangeKind.TEST else f" ({notification.severity})"
    return f"{_headline(item)}{severity}: {notification.title}"


def _alert_lines(item: Item) -> list[str]:
    """Return lines on the alerts of `item`; facts that all share come once at the end."""
    alerts = item.alerts[:MAX_ALERTS_SHOWN]
    shared = [text for tell in _SHARED if (text := _shared([tell(alert) for alert in alerts]))]
    lines = []
    for alert in alerts:
        own = [text for tell in _SHARED if (text := tell(alert)) and text not in shared]
        lines.append("; ".join(filter(None, (_subject(alert), _triage(alert, item), *own))))
    num_left = item.num_alerts - len(alerts)
    return [*lines, *([f"and {counted(num_left, 'more alert')}"] if num_left else []), *shared]


def _shared(texts: Sequence[str]) -> str:
    return texts[0] if len(set(texts)) == 1 else ""


def _headline(item: Item) -> str:
    """Return the common triage state of the alerts, else the kind of change.

    A worsened alert may have been acknowledged before and still counts as worsened.
    """
    states = {alert["state"] for alert in item.alerts}
    is_new = item.notification.kind in _NEW_KINDS
    settled = _SETTLED | ({str(AlertState.ACKNOWLEDGED)} if is_new else set())
    if len(states) == 1 and states <= settled:
        return str(*states).capitalize()
    return _WORDS[item.notification.kind]


def _triage(alert: Mapping[str, Any], item: Item) -> str:
    """Return the triage of an alert with person and reason, "" where the title has it."""
    if alert["state"] == AlertState.OPEN or item.notification.kind is AlertChangeKind.FIXED:
        return ""
    by = item.deciders.get(alert["id"], JUDGE)
    who = "" if by == JUDGE else f" by {_short(by, limit=60)}"
    why = f": {_short(alert['note'], limit=60)}" if alert["note"] else ""
    return f"now {alert['state']}{who}{why}"


def _subject(alert: Mapping[str, Any]) -> str:
    """Return the case and metric of an alert with the change."""
    who = " ".join(_short(str(alert[name]), limit=60) for name in _WHO)
    subject = subject_text(alert["metric"], kind=alert["kind"], verdict=alert["verdict"])
    topic = _short(subject, limit=80)
    change = levels(alert["baseline"], alert["candidate"], unit=alert["unit"])
    if alert["change_pct"] is None:
        # A level of 0 or below has no relative change.
        return f"{who}: {topic} {change}".rstrip()
    interval = alert["interval_pct"]
    within = "" if interval is None else f" [{percent(interval[0])}, {percent(interval[1])}]"
    changed = f"{who}: {topic} {percent(alert['change_pct'])}{within}"
    # Noise has no level.
    return f"{changed}, {change}" if change else changed


def _first_bad(alert: Mapping[str, Any]) -> str:
    """Return the first bad and the last good revision, each with its day; both of a drift."""
    bad, good = alert["first_bad"], alert["last_good"]
    if alert["kind"] == DRIFT and good:
        return f"since {_at_revision(good)}, first seen {_at_revision(bad)}"
    last_good = f", last good {_at_revision(good)}" if good else ""
    return f"since {_at_revision(bad)}{last_good}"


def _at_revision(seen: Mapping[str, Any]) -> str:
    return f"{_short(short_revision(seen['revision']), limit=60)} ({seen['at'][:10]})"


def _cause(alert: Mapping[str, Any]) -> str:
    text, *_ = _cause_parts(alert)
    return f"cause: {text.removesuffix('; ')}" if text else ""


def _cause_parts(alert: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the cause, the introduction of other changes, and the other changes."""
    is_drift = alert["kind"] == DRIFT
    separator = WHILE_DRIFTING if is_drift else SINCE_LAST_GOOD
    cause, _, text = alert["cause"]["text"].partition(separator)
    return cause, WHILE_DRIFTING if is_drift else "changed with it: ", text


def _other_changes(alert: Mapping[str, Any]) -> str:
    """Return the other changes at the first bad run, "" for the revision only."""
    *_, how, text = _cause_parts(alert)
    ends = (alert["last_good"] or {"revision": ""}, alert["first_bad"])
    change = " -> ".join(short_revision(end["revision"]) for end in ends)
    is_redundant = text in (f"torch {change}", f"revision {change}")
    return f"{how}{text}" if text and not is_redundant else ""


def _kernels(alert: Mapping[str, Any]) -> str:
    """Return the kernels behind an alert with their contributions, "" if unknown."""
    top = [
        f"{_short(str(row['label']), limit=60)} {signed(row['contribution_us'], decimals=0)} us"
        for row in alert["cause"]["kernels"][:MAX_KERNELS_SHOWN]
    ]
    return f"kernels: {', '.join(top)}" if top else ""


def _findings(alert: Mapping[str, Any]) -> str:
    """Return the new findings since the last good run with their costs, "" without any."""
    new = [
        f"{row['code']} {quantity(row['cost_s'], unit='s')}" if row["cost_s"] else str(row["code"])
        for row in alert["cause"].get("findings", ())[:MAX_FINDINGS_SHOWN]
    ]
    return f"new findings: {', '.join(new)}" if new else ""


def _bisection(alert: Mapping[str, Any]) -> str:
    """Return the result of the search for the revision, "" before one."""
    document = alert["cause"].get("bisection")
    return f"bisect: {_short(str(document['text']))}" if document else ""


# The order in a message: first bad revision, its search, cause, other changes, findings, kernels.
_SHARED = (_first_bad, _bisection, _cause, _other_changes, _findings, _kernels)


def _short(text: str, *, limit: int = _PART_LENGTH) -> str:
    return shortened(one_line(text), limit=limit)
