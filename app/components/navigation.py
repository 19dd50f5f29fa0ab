"""The navigation: the bar above all pages, the tabs of a section, and the line below."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from compile_hud.app import clock
from compile_hud.app.components.alert_rows import case_of, needs_attention
from compile_hud.app.data.latest_results import load_open_regressions
from compile_hud.app.ui import html
from compile_hud.db.errors import StoreError, StoreLocked

LOGO = Path(html.__file__).with_name("logo.svg")


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A page: its name, its path and the function that draws it.

    `section` is the entry of the bar that it belongs to. `tab` is its name among the tabs of the
    section, empty for a page that links lead to. `carries` are the filters that it takes over from
    other pages.
    """

    title: str
    path: str
    show: Callable[[], None]
    section: str
    tab: str = ""
    carries: tuple[str, ...] = ()


def in_bar(views: Sequence[View]) -> tuple[View, ...]:
    """Return the first view of each section: the entries of the bar."""
    firsts: dict[str, View] = {}
    for view in views:
        firsts.setdefault(view.section, view)
    return tuple(firsts.values())


def view_of_tab(view: View, name: str, *, views: Sequence[View]) -> View | None:
    """Return the view of the tab `name` in the section of `view`, None without one.

    Addresses name tabs as people do: `/compare?tab=releases`, or by the path, `tab=release`.
    """
    for item in views:
        is_named = item.tab and name.lower() in (item.tab.lower(), item.path)
        if is_named and item.section == view.section:
            return item
    return None


def alerts_title(section: str) -> str:
    """Return the name of the section of alerts with the number of cases that need attention.

    Raises StoreLocked after a wait in vain, so that the page need not wait as well.
    """
    try:
        alerts = load_open_regressions().value
    except StoreLocked:
        raise
    except StoreError:
        # The page itself reports any other error of the store.
        return section
    now = clock.now()
    number = len({case_of(alert) for alert in alerts if needs_attention(alert, at=now)})
    return f"{section} ({number})" if number else section


def draw_tabs(view: View, *, views: Sequence[View], pages: Mapping[str, st.Page]) -> None:
    """Draw the tabs of the section of `view`, if it is one of several.

    `pages` are those of the views by path.
    """
    tabs = [item for item in views if item.section == view.section and item.tab]
    if not view.tab or len(tabs) < 2:
        return
    with st.container(horizontal=True, gap="small", key="section-tabs"):
        for item in tabs:
            # `carry_filters` gives each page its filters.
            st.page_link(pages[item.path], label=f"**{item.tab}**" if item is view else item.tab)
