"""The script that Streamlit runs for every page view: navigation and the frame of all pages."""

from __future__ import annotations

from collections.abc import Callable

import streamlit as st

from compile_hud.app.auth import access
from compile_hud.app.components import author, sign_in
from compile_hud.app.components.navigation import (
    LOGO,
    View,
    alerts_title,
    draw_tabs,
    in_bar,
    view_of_tab,
)
from compile_hud.app.components.page_frame import (
    error_page,
    guarded,
    live,
    read_only_banner,
    synthetic_banner,
)
from compile_hud.app.components.shared_filters import (
    carry_filters,
    carry_range_in_links,
    is_other_page,
)
from compile_hud.app.data import store
from compile_hud.app.data.runs import load_newest_runs
from compile_hud.app.ui.scripts import keys
from compile_hud.app.views.alerts import view as alerts
from compile_hud.app.views.alerts.new_alerts import show_new_alerts
from compile_hud.app.views.alerts.undo import drop_toast
from compile_hud.app.views.compare import revisions_view as revisions
from compile_hud.app.views.compare import view as compare
from compile_hud.app.views.health import view as health
from compile_hud.app.views.kernel_diff import view as kernel_diff
from compile_hud.app.views.kernels import view as kernels
from compile_hud.app.views.model import view as model
from compile_hud.app.views.models import view as models
from compile_hud.app.views.modes import view as modes
from compile_hud.app.views.overview import view as overview
from compile_hud.app.views.receivers import view as receivers
from compile_hud.app.views.releases import view as releases
from compile_hud.app.views.runs import list_view as runs
from compile_hud.app.views.runs import run_view as run
from compile_hud.app.views.search import view as search
from compile_hud.app.views.series import view as series
from compile_hud.app.views.settings import view as settings
from compile_hud.app.views.studies import view as studies
from compile_hud.app.views.trends import view as trends
from compile_hud.db.errors import StoreLocked
from compile_hud.db.shared.access_rules import Role

ALERTS = "Alerts"
# The filters that most pages share.
WHERE = ("machine", "toolchain")


# The first one is the page at `/`. The first one of each section is in the bar.
VIEWS = (
    View(
        title="Overview",
        path="overview",
        show=overview.show,
        section="Overview",
        carries=(*WHERE, "range"),
    ),
    View(title="Alerts", path="alerts", show=alerts.show, section=ALERTS),
    View(
        title="Trends",
        path="trends",
        show=trends.show,
        section="Trends",
        carries=(*WHERE, "range"),
    ),
    View(title="Compare", path="compare", show=compare.show, section="Compare", tab="Runs"),
    View(
        title="Compare revisions",
        path="revisions",
        show=revisions.show,
        section="Compare",
        tab="Revisions",
        carries=("machine",),
    ),
    View(
        title="Release",
        path="release",
        show=releases.show,
        section="Compare",
        tab="Releases",
    ),
    View(
        title="Modes",
        path="modes",
        show=modes.show,
        section="Compare",
        tab="Modes",
        carries=WHERE,
    ),
    View(
        title="Kernel diff",
        path="kernel-diff",
        show=kernel_diff.show,
        section="Compare",
        tab="Kernels",
    ),
    View(title="Search", path="search", show=search.show, section="Overview"),
    View(title="Models", path="models", show=models.show, section="Models", carries=WHERE),
    View(
        title="Model",
        path="model",
        show=model.show,
        section="Models",
        carries=(*WHERE, "range"),
    ),
    View(title="Series", path="series", show=series.show, section="Models"),
    View(title="Kernels", path="kernels", show=kernels.show, section="Models"),
    View(title="Runs", path="runs", show=runs.show, section="Runs", carries=(*WHERE, "range")),
    View(title="Run", path="run", show=run.show, section="Runs"),
    View(title="Health", path="health", show=health.show, section="Admin", tab="Health"),
    View(
        title="Receivers", path="receivers", show=receivers.show, section="Admin", tab="Receivers"
    ),
    View(title="Settings", path="settings", show=settings.show, section="Admin", tab="Settings"),
    View(title="Studies", path="studies", show=studies.show, section="Admin", tab="Studies"),
)


def main() -> None:
    """Draw the page that the URL names, below the bar of all sections."""
    error, titles = None, {}
    if access.present().may(Role.VIEWER):
        try:
            titles[ALERTS] = alerts_title(ALERTS)
        except StoreLocked as caught:
            error = caught
    entries = in_bar(VIEWS)
    pages = {
        view.path: st.Page(
            view.show,
            title=titles.get(view.section, view.section),
            url_path=view.path,
            default=view is VIEWS[0],
            visibility="visible" if view in entries else "hidden",
        )
        for view in VIEWS
    }
    st.logo(LOGO, size="large")
    page = st.navigation(list(pages.values()), position="top")
    view = next(view for view in VIEWS if pages[view.path] == page)
    params = st.query_params.to_dict()
    if named := view_of_tab(view, params.pop("tab", ""), views=VIEWS):
        if named is not view:
            st.switch_page(pages[named.path], query_params=params)
        del st.query_params["tab"]
    # Browser tabs show only titles, so each page has its own.
    st.set_page_config(
        page_title=f"{view.title} - Compile HUD", layout="wide", initial_sidebar_state="collapsed"
    )
    if is_other_page(view):
        drop_toast()
    carry_filters(view)
    if error is not None:
        # The page would wait for the lock a second time.
        error_page(error)
        return
    draw_framed(page.run, tabs=lambda: draw_tabs(view, views=VIEWS, pages=pages))


def draw_framed(show: Callable[[], None], *, tabs: Callable[[], None] = lambda: None) -> None:
    """Draw a view in the frame of all pages: banner and live progress above, store below."""
    guarded(lambda: _draw(show, tabs=tabs))


def _draw(show: Callable[[], None], *, tabs: Callable[[], None]) -> None:
    person = access.present()
    if not person.may(Role.VIEWER):
        sign_in.wall(person)
        return
    carry_range_in_links()
    # The version is read before anything else: a write meanwhile makes the page load again.
    known_version = store.store_version()
    loaded = load_newest_runs()
    # This is above the page and drawn before it; drawn later it would push the page down.
    synthetic_banner(loaded.value)
    read_only_banner()
    live(loaded.value, known_version=known_version, known_person=person)
    new_alerts = st.container()
    tabs()
    show()
    with new_alerts:
        show_new_alerts()
    newest = max((summary.run.started_at for summary in loaded.value), default=None)
    sign_in.foot(person, store=store.store_name(), newest=newest)
    keys()
    author.store_name()


if __name__ == "__main__":
    main()
