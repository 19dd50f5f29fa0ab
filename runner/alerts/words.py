"""Messages in words, for receivers that people read. Pure; every receiver escapes them its way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from db.notifications import NewsKind
from db.records import AlertState
from db.text import one_line, shortened, signed
from runner.alerts.dispatch import Item, Message
from runner.text import percent, quantity

# Of one notification; the dashboard has the rest.
MAX_ALERTS_SHOWN = 5
# Of a digest: what people read of it. The others are counted.
MAX_ITEMS_SHOWN = 10
# Of a message: each is drawn for it, which takes seconds.
MAX_PICTURES_SHOWN = 3
# Of an alert: the page of its kernels has the rest.
MAX_KERNELS_SHOWN = 3
_TITLE_LENGTH = 200
_PART_LENGTH = 300
_WORDS = {
    NewsKind.OPENED: "New",
    NewsKind.WORSENED: "Worse",
    NewsKind.REOPENED: "Back",
    NewsKind.FIXED: "Fixed",
    NewsKind.WEEKLY: "Weekly",
    NewsKind.TEST: "Test",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """One notification: a title, lines about its alerts, and where to look (empty: nowhere).

    `actions` are addresses of what can be done, by what a button says; `picture_url` shows the
    trend of the alert `alert_id`.
    """

    title: str
    lines: tuple[str, ...]
    url: str
    actions: Mapping[str, str] = field(default_factory=dict)
    picture_url: str = ""
    alert_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """A message in words: a heading, and paragraphs of the first of its notifications."""

    heading: str
    paragraphs: tuple[Paragraph, ...]
    num_notifications: int

    def rest(self, num_shown: int) -> str:
        """Return a line on what is left out where so many are shown, empty if nothing."""
        num_left = self.num_notifications - num_shown
        return f"and {num_left} more: `hud alerts list` shows every one" if num_left else ""


def in_words(message: Message) -> Words:
    """Return `message` as lines that can be printed, none of them endless."""
    paragraphs = tuple(
        _paragraph(item, has_picture=number < MAX_PICTURES_SHOWN)
        for number, item in enumerate(message.items[:MAX_ITEMS_SHOWN])
    )
    heading = paragraphs[0].title
    if len(message.items) > 1:
        heading = f"Compile HUD: {len(message.items)} notifications"
    return Words(heading=heading, paragraphs=paragraphs, num_notifications=len(message.items))


def without_pictures(words: Words) -> Words:
    """Return `words` with nothing that a receiver would have to fetch or show as a picture."""
    bare = tuple(replace(item, picture_url="", alert_id="") for item in words.paragraphs)
    return replace(words, paragraphs=bare)


def _paragraph(item: Item, *, has_picture: bool) -> Paragraph:
    notification = item.notification
    title = f"{_WORDS[notification.kind]} ({notification.severity}): {notification.title}"
    is_over = notification.kind is NewsKind.FIXED
    lines = [
        line
        for alert in item.alerts[:MAX_ALERTS_SHOWN]
        for line in (_line(alert, is_over=is_over), _kernels_line(alert))
        if line
    ]
    num_left = item.num_alerts - min(len(item.alerts), MAX_ALERTS_SHOWN)
    if num_left:
        lines.append(f"and {num_left} more alerts")
    if item.weekly is not None:
        lines = item.weekly.lines()
    if item.alerts:
        lines.append(f"repro: {item.alerts[0]['repro']}")
    return Paragraph(
        title=_short(title, limit=_TITLE_LENGTH),
        lines=tuple(_short(line) for line in lines),
        url=item.alerts[0]["url"] if item.alerts else item.weekly.url if item.weekly else "",
        actions={name.capitalize(): url for name, url in item.actions.items()},
        picture_url=item.picture_url if has_picture else "",
        alert_id=item.alerts[0]["id"] if item.alerts and has_picture else "",
    )


def _line(alert: Mapping[str, Any], *, is_over: bool) -> str:
    """Return what is known of an alert: whose, how much, since when and why, and what was decided.

    That something is fixed needs no saying where the title says that it `is_over`.
    """
    who = " ".join(_short(str(alert[name]), limit=60) for name in ("model", "phase", "dtype"))
    parts = [f"{who} {_short(alert['variant'], limit=60)}, {_short(alert['metric'], limit=60)}"]
    if alert["change_pct"] is not None:
        levels = (quantity(alert[name], unit=alert["unit"]) for name in ("baseline", "candidate"))
        interval = alert["interval_pct"]
        within = "" if interval is None else f" [{percent(interval[0])}, {percent(interval[1])}]"
        parts.append(f"{' -> '.join(levels)}, {percent(alert['change_pct'])}{within}")
    good = alert["last_good"]
    since = f"since {_short(alert['first_bad']['revision'], limit=60)}"
    parts.append(since + (f" (last good {_short(good['revision'], limit=60)})" if good else ""))
    if alert["cause"]["text"]:
        parts.append(alert["cause"]["text"])
    if alert["state"] != AlertState.OPEN and not (is_over and alert["state"] == AlertState.FIXED):
        why = f": {_short(alert['note'], limit=60)}" if alert["note"] else ""
        parts.append(f"now {alert['state']}{why}")
    return "; ".join(parts)


def _kernels_line(alert: Mapping[str, Any]) -> str:
    """Return the kernels behind an alert with what each adds, "" where they are not known."""
    top = [
        f"{_short(str(row['label']), limit=60)} {signed(row['contribution_us'], decimals=0)} us"
        for row in alert["cause"]["kernels"][:MAX_KERNELS_SHOWN]
    ]
    return f"kernels: {', '.join(top)}" if top else ""


def _short(text: str, *, limit: int = _PART_LENGTH) -> str:
    return shortened(one_line(text), limit=limit)
