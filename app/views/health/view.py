"""The state of schedulers, next runs, queue, devices, disks and messages."""

from __future__ import annotations

import streamlit as st

from compile_hud.app import clock
from compile_hud.app.auth import access
from compile_hud.app.components.page_frame import banners, guarded, state_page
from compile_hud.app.components.table.columns import DataTable
from compile_hud.app.components.table.view import draw_table
from compile_hud.app.data.health import FRESH_S, HealthPage, load_health_page, send_again
from compile_hud.app.ui.flash import set_flash, show_flash
from compile_hud.app.ui.html import banner, caption, heading
from compile_hud.app.ui.urls import parse_health
from compile_hud.app.views.health.tables import (
    dead_table,
    device_table,
    disk_table,
    job_table,
    next_table,
    receiver_table,
    scheduler_table,
    troubles,
    wellness,
)
from compile_hud.db.shared.access_rules import Role

_SEND = "send-again"
_SHOWN_ROWS = 10


def show() -> None:
    """Draw the page of health."""
    _, problems = parse_health(st.query_params.to_dict())
    banners(problems)
    st.html(heading("Health"))
    # One read here serves the page; the frame of the page reports an error of the store.
    load_health_page()
    _draw()


@st.fragment(run_every=FRESH_S)
def _draw() -> None:
    guarded(_draw_now)


def _draw_now() -> None:
    loaded = load_health_page()
    page, now = loaded.value, clock.now()
    if loaded.stale_reason:
        st.html(banner(f"Shown as it was last read: {loaded.stale_reason}"))
    problems = troubles(page, now=now)
    has_scheduler = bool(page.health.schedulers)
    banners(problems or ([wellness(page, now=now)] if has_scheduler else []))
    if not has_scheduler:
        text = [
            "Runs must be started by hand. A scheduler executes the schedules of hud.toml and"
            " requested runs, and sends a heartbeat every minute."
        ]
        state_page(
            "No scheduler has used this store", text=text, commands=["hud up", "hud schedule"]
        )
    for title, content in _sections(page):
        if not content:
            continue
        st.html(heading(title, level=2))
        if isinstance(content, str):
            st.html(content)
        else:
            draw_table(content, key=f"health-{content.label}", max_rows=_SHOWN_ROWS)
    _show_dead(page)


def _sections(page: HealthPage) -> list[tuple[str, str | DataTable | None]]:
    now = clock.now()
    health = page.health
    return [
        ("Schedulers", scheduler_table(page, now=now)),
        ("Next runs", next_table(page, now=now)),
        ("Queue", job_table(health.open_jobs, label="jobs in the queue")),
        ("Jobs that ended", job_table(health.ended_jobs, label="jobs that ended")),
        ("Devices", device_table(page)),
        ("Disks", disk_table(page)),
        ("Messages", receiver_table(page)),
    ]


def _show_dead(page: HealthPage) -> None:
    """Draw the failed notifications, and for admins the button that sends them again."""
    show_flash(_SEND)
    if not page.dead:
        return
    st.html(heading("Failed messages", level=2))
    st.html(dead_table(page.dead, now=clock.now()))
    if not access.present().may(Role.ADMIN):
        st.html(caption("Admins send them again here, `hud alerts resend` on the command line."))
        return
    ids = [item.id for item in page.dead]
    st.button(f"Send {len(ids)} again", key=_SEND, on_click=_send_again, args=(ids,))


def _send_again(ids: list[str]) -> None:
    problem = send_again(ids)
    set_flash(problem or f"To be sent again within a minute: {len(ids)}.", key=_SEND)
