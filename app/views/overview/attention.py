"""The events that need attention, each as a small card. Pure."""

from __future__ import annotations

from datetime import datetime

from compile_hud.app.ui.alert_text import alert_text
from compile_hud.app.ui.format import age, moment
from compile_hud.app.ui.html import escaped, link, small_trend
from compile_hud.app.ui.urls import AlertsState, alerts_url, run_url
from compile_hud.app.views.overview.records import Attention, AttentionItem
from compile_hud.db.records.alerts import began
from compile_hud.db.shared.text import counted

# The change is known to be one, so it may fill the height.
_LEAST_RANGE = 0.02
_UNKNOWN = "unknown"
_SEPARATOR = '<span class="dot" aria-hidden="true"></span>'


def attention_heading(attention: Attention) -> str:
    """Return the title of the list, with the link to all alerts."""
    num_shown, num_events = len(attention.items), attention.num_events
    number = f"{num_shown} of {num_events}" if num_shown < num_events else str(num_events)
    title = f"Needs attention ({number})" if num_events else "Needs attention"
    return (
        '<div class="hud-head"><div class="hud-h2" role="heading" aria-level="2">'
        f"{escaped(title)}</div>{link('all alerts', alerts_url(AlertsState()))}</div>"
    )


def nothing_text(learning: str) -> str:
    """Return the text of an empty list."""
    if learning:
        return "Nothing to compare with yet."
    return "Nothing is open here."


def event_html(item: AttentionItem, *, now: datetime) -> str:
    """Return an event: severity and title, then levels, age, owner and cause."""
    text, seen = alert_text(item.worst), began(item.worst)
    since = f'<a href="{escaped(run_url(seen.run_id, case_key=item.worst.case.key))}"'
    since += f' title="{escaped(f"since {moment(seen.at)}, {text.bounds}")}">'
    since += f"{escaped(age(seen.at, now=now))}</a>"
    levels = escaped(item.levels)
    shown = f'<span class="{text.style}"><span class="text">{levels}</span></span>'
    facts = [shown] if levels else []
    facts += [f"<strong>new</strong>, {since}" if item.is_new else since]
    facts.append(escaped(f"owner {', '.join(item.owners)}" if item.owners else "no owner"))
    if len(item.alerts) > 1:
        facts.append(escaped(counted(len(item.alerts), "alert")))
    line = small_trend(item.values, least_range=_LEAST_RANGE)
    return (
        f'<article class="hud-event"><div><span class="severity {item.severity}">'
        f"{escaped(item.severity)}</span>{link(item.title, item.url)}</div>"
        f'<div class="facts">{line}{_SEPARATOR.join(facts)}</div>'
        f'<div class="note" title="{escaped(item.cause)}">{escaped(_place(item))}</div></article>'
    )


def _place(item: AttentionItem) -> str:
    cause = "" if item.cause == _UNKNOWN else item.cause
    return ", ".join(part for part in (item.case, cause) if part)
