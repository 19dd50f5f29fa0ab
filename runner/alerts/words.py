"""Messages in words, for receivers that people read. Pure; every receiver escapes them its way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from db.notifications import NewsKind
from db.records import AlertState
from db.text import one_line, shortened, signed
from db.triage import JUDGE
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
_SETTLED = {str(state) for state in (AlertState.FIXED, AlertState.EXPECTED, AlertState.NOISE)}
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
    title = f"{_headline(item)} ({notification.severity}): {notification.title}"
    lines = [
        line
        for alert in item.alerts[:MAX_ALERTS_SHOWN]
        for line in (_line(alert, decided=_decided(alert, item)), _kernels_line(alert))
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


def _headline(item: Item) -> str:
    """Return the word for what happened: what has become of all alerts meanwhile, else the news.

    What got worse may have been acknowledged before, and is news all the same.
    """
    states = {alert["state"] for alert in item.alerts}
    is_new = item.notification.kind in (NewsKind.OPENED, NewsKind.REOPENED)
    said = _SETTLED | ({str(AlertState.ACKNOWLEDGED)} if is_new else set())
    if len(states) == 1 and states <= said:
        return str(*states).capitalize()
    return _WORDS[item.notification.kind]


def _decided(alert: Mapping[str, Any], item: Item) -> str:
    """Return what became of an alert, by whom and why; "" where the title has said it."""
    if alert["state"] == AlertState.OPEN or item.notification.kind is NewsKind.FIXED:
        return ""
    by = item.deciders.get(alert["id"], JUDGE)
    who = "" if by == JUDGE else f" by {_short(by, limit=60)}"
    why = f": {_short(alert['note'], limit=60)}" if alert["note"] else ""
    return f"now {alert['state']}{who}{why}"


def _line(alert: Mapping[str, Any], *, decided: str) -> str:
    """Return what is known of an alert: whose, how much, since when, what was `decided`, and why.

    The cause is last, since it may be long and is then cut.
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
    return "; ".join(filter(None, (*parts, decided, alert["cause"]["text"])))


def _kernels_line(alert: Mapping[str, Any]) -> str:
    """Return the kernels behind an alert with what each adds, "" where they are not known."""
    top = [
        f"{_short(str(row['label']), limit=60)} {signed(row['contribution_us'], decimals=0)} us"
        for row in alert["cause"]["kernels"][:MAX_KERNELS_SHOWN]
    ]
    return f"kernels: {', '.join(top)}" if top else ""


def _short(text: str, *, limit: int = _PART_LENGTH) -> str:
    return shortened(one_line(text), limit=limit)
