"""The script that Streamlit runs for every page view: navigation and the frame of all pages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import streamlit as st

from compile_hud.app.auth import access
from compile_hud.app.components import sign_in
from compile_hud.app.components.page_frame import guarded, live, read_only_banner, synthetic_banner
from compile_hud.app.data import store
from compile_hud.app.data.runs import load_newest_runs
from compile_hud.app.ui.scripts import keys
from compile_hud.app.views.alerts import view as alerts
from compile_hud.app.views.alerts.new_alerts import show_new_alerts
from compile_hud.app.views.compare import view as compare
from compile_hud.app.views.health import view as health
from compile_hud.app.views.kernel_diff import view as kernel_diff
from compile_hud.app.views.kernels import view as kernels
from compile_hud.app.views.models import view as models
from compile_hud.app.views.modes import view as modes
from compile_hud.app.views.overview import view as overview
from compile_hud.app.views.runs import list_view as runs
from compile_hud.app.views.runs import run_view as run
from compile_hud.app.views.series import view as series
from compile_hud.app.views.settings import view as settings
from compile_hud.app.views.studies import view as studies
from compile_hud.db.shared.access_rules import Role


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """A page: its name in the navigation, its path and the function that draws it."""

    title: str
    path: str
    show: Callable[[], None]


# The first one is the page at `/`.
VIEWS = (
    View(title="Overview", path="overview", show=overview.show),
    View(title="Alerts", path="alerts", show=alerts.show),
    View(title="Compare", path="compare", show=compare.show),
    View(title="Modes", path="modes", show=modes.show),
    View(title="Models", path="models", show=models.show),
    View(title="Series", path="series", show=series.show),
    View(title="Run", path="run", show=run.show),
    View(title="Kernels", path="kernels", show=kernels.show),
    View(title="Kernel diff", path="kernel-diff", show=kernel_diff.show),
    View(title="Studies", path="studies", show=studies.show),
    View(title="Runs", path="runs", show=runs.show),
    View(title="Health", path="health", show=health.show),
    View(title="Settings", path="settings", show=settings.show),
)


def main() -> None:
    """Draw the page that the URL names."""
    page = st.navigation(
        [
            st.Page(view.show, title=view.title, url_path=view.path, default=view is VIEWS[0])
            for view in VIEWS
        ],
        position="top",
    )
    # Browser tabs show only titles, so each page has its own.
    st.set_page_config(
        page_title=f"{page.title} - Compile HUD", layout="wide", initial_sidebar_state="collapsed"
    )
    draw_framed(page.run)


def draw_framed(show: Callable[[], None]) -> None:
    """Draw a view in the frame of all pages: banner and live progress above, store below."""
    guarded(lambda: _draw(show))


def _draw(show: Callable[[], None]) -> None:
    person = access.present()
    if not person.may(Role.VIEWER):
        sign_in.wall(person)
        return
    # The version is read before anything else: a write meanwhile makes the page load again.
    known_version = store.store_version()
    loaded = load_newest_runs()
    # This is above the page and drawn before it; drawn later it would push the page down.
    synthetic_banner(loaded.value)
    read_only_banner()
    live(loaded.value, known_version=known_version, known_person=person)
    new_alerts = st.container()
    show()
    with new_alerts:
        show_new_alerts()
    sign_in.foot(person, store=store.store_name())
    keys()


if __name__ == "__main__":
    main()
