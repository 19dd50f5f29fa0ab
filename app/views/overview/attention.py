"""The events that need attention, each as a small card. Pure."""

from __future__ import annotations

from datetime import datetime

from markupsafe import Markup

from compile_hud.app.ui.alert_text import alert_text
from compile_hud.app.ui.format import age, moment
from compile_hud.app.ui.html import small_trend
from compile_hud.app.ui.templates.environment import render
from compile_hud.app.ui.urls import AlertsState, alerts_url, run_url
from compile_hud.app.views.overview.records import Attention, AttentionItem
from compile_hud.db.records.alerts import began
from compile_hud.db.shared.text import counted

# The change is known to be one, so it may fill the height.
_LEAST_RANGE = 0.02
_UNKNOWN = "unknown"


def attention_heading(attention: Attention) -> Markup:
    """Return the title of the list, with the link to all alerts."""
    num_shown, num_events = len(attention.items), attention.num_events
    number = f"{num_shown} of {num_events}" if num_shown < num_events else str(num_events)
    title = f"Needs attention ({number})" if num_events else "Needs attention"
    return head(title, text="all alerts", href=alerts_url(AlertsState()))


def head(title: str, *, text: str, href: str) -> Markup:
    """Return a heading with a link at the end of its line."""
    return render("overview.html", "head", title=title, words=text, href=href)


def nothing_text(learning: str) -> str:
    """Return the text of an empty list."""
    if learning:
        return "Nothing to compare with yet."
    return "Nothing is open here."


def event_html(item: AttentionItem, *, now: datetime) -> Markup:
    """Return an event: severity and title, then levels, age, owner and cause."""
    text, seen = alert_text(item.worst), began(item.worst)
    facts = [f"owner {', '.join(item.owners)}" if item.owners else "no owner"]
    if len(item.alerts) > 1:
        facts.append(counted(len(item.alerts), "alert"))
    return render(
        "overview.html",
        "event",
        item=item,
        style=text.style,
        line=small_trend(item.values, least_range=_LEAST_RANGE),
        age=age(seen.at, now=now),
        age_title=f"since {moment(seen.at)}, {text.bounds}",
        run_href=run_url(seen.run_id, case_key=item.worst.case.key),
        facts=facts,
        cause=_place(item),
    )


def _place(item: AttentionItem) -> str:
    cause = "" if item.cause == _UNKNOWN else item.cause
    return ", ".join(part for part in (item.case, cause) if part)
