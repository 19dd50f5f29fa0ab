"""Messages in words, for receivers that people read. Pure; every receiver escapes them its way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from db.notifications import NewsKind
from db.text import one_line, shortened
from runner.alerts.dispatch import Item, Message
from runner.text import percent, quantity

# Of one notification; the dashboard has the rest.
MAX_ALERTS_SHOWN = 5
# Of a digest: what people read of it. The others are counted.
MAX_ITEMS_SHOWN = 10
_TITLE_LENGTH = 200
_PART_LENGTH = 300
_WORDS = {
    NewsKind.OPENED: "New",
    NewsKind.WORSENED: "Worse",
    NewsKind.REOPENED: "Back",
    NewsKind.FIXED: "Fixed",
    NewsKind.TEST: "Test",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Paragraph:
    """One notification: a title, lines about its alerts, and where to look (empty: nowhere).

    `actions` are addresses of what can be done, by what a button says; `picture_url` shows a trend.
    """

    title: str
    lines: tuple[str, ...]
    url: str
    actions: Mapping[str, str] = field(default_factory=dict)
    picture_url: str = ""


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
    paragraphs = tuple(_paragraph(item) for item in message.items[:MAX_ITEMS_SHOWN])
    heading = paragraphs[0].title
    if len(message.items) > 1:
        heading = f"Compile HUD: {len(message.items)} notifications"
    return Words(heading=heading, paragraphs=paragraphs, num_notifications=len(message.items))


def _paragraph(item: Item) -> Paragraph:
    notification = item.notification
    title = f"{_WORDS[notification.kind]} ({notification.severity}): {notification.title}"
    lines = [_line(alert) for alert in item.alerts[:MAX_ALERTS_SHOWN]]
    if item.num_alerts > len(lines):
        lines.append(f"and {item.num_alerts - len(lines)} more alerts")
    if item.alerts:
        lines.append(f"repro: {item.alerts[0]['repro']}")
    return Paragraph(
        title=_short(title, limit=_TITLE_LENGTH),
        lines=tuple(_short(line) for line in lines),
        url=item.alerts[0]["url"] if item.alerts else "",
        actions={name.capitalize(): url for name, url in item.actions.items()},
        picture_url=item.picture_url,
    )


def _line(alert: Mapping[str, Any]) -> str:
    """Return what is known of an alert: whose, how much, since when and why."""
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
    return "; ".join(parts)


def _short(text: str, *, limit: int = _PART_LENGTH) -> str:
    return shortened(one_line(text), limit=limit)
