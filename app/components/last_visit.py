"""The last visit of a browser to a page, in a cookie of its own.

A visit ends when the page was not opened for some hours, so that a reload does not end it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import streamlit as st

from compile_hud.app import clock
from compile_hud.app.ui.scripts import script

_COOKIE = "hud_visit"
_KEY = "last-visit"
VISIT_ENDS_AFTER = timedelta(hours=4)


@dataclass(frozen=True, slots=True)
class PageVisit:
    """The end of the visit before, None without one, and the last time of this one."""

    before: datetime | None
    last: datetime


def last_visit() -> datetime | None:
    """Return when the visit before this one ended, None for the first; store this one."""
    visit = st.session_state.get(_KEY)
    if visit is None:
        visit = next_visit(parse_visit(str(st.context.cookies.get(_COOKIE, ""))), now=clock.now())
        st.session_state[_KEY] = visit
    mount = st.components.v2.component("hud_visit", js=script("remember"))
    mount(key="visit", data={"cookie": _COOKIE, "name": visit_text(visit)})
    before: datetime | None = visit.before
    return before


def next_visit(stored: PageVisit | None, *, now: datetime) -> PageVisit:
    """Return the visit at `now`: the stored one continues if it has not ended."""
    if stored is None or stored.last > now:
        return PageVisit(None, now)
    has_ended = now - stored.last > VISIT_ENDS_AFTER
    return PageVisit(stored.last if has_ended else stored.before, now)


def parse_visit(text: str) -> PageVisit | None:
    """Return the visit that `visit_text` wrote, None for another text."""
    before, _, last = text.partition(".")
    times = [_moment(before), _moment(last)]
    return None if times[1] is None else PageVisit(times[0], times[1])


def visit_text(visit: PageVisit) -> str:
    """Return a visit as the text of a cookie: seconds, `0` for none."""
    before = 0 if visit.before is None else math.floor(visit.before.timestamp())
    return f"{before}.{math.floor(visit.last.timestamp())}"


def _moment(text: str) -> datetime | None:
    # The cookie comes from the browser and may be anything.
    if not (text.isascii() and text.isdecimal() and len(text) <= 11) or int(text) == 0:
        return None
    return datetime.fromtimestamp(int(text), timezone.utc)
