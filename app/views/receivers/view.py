"""The receivers of notifications, with their deliveries and test messages."""

from __future__ import annotations

import streamlit as st

from compile_hud.app import clock
from compile_hud.app.auth import access
from compile_hud.app.components.page_frame import banners, stale_note, state_page
from compile_hud.app.data.health import load_health_page, send_again
from compile_hud.app.ui.flash import set_flash, show_flash
from compile_hud.app.ui.html import banner, caption, chips, collapsible, heading
from compile_hud.app.ui.urls import parse_receivers
from compile_hud.app.views.health.tables import dead_table
from compile_hud.app.views.receivers.data import load_receivers_page, send_test
from compile_hud.app.views.receivers.records import ReceiverCard, ReceiversPage
from compile_hud.app.views.receivers.tables import (
    SNIPPET,
    headline,
    problem_texts,
    receiver_facts,
    state_text,
    test_text,
)
from compile_hud.db.shared.access_rules import Role
from compile_hud.db.shared.text import counted

_SENT_FOR = "receivers"
CAPTION = "Values at start-up. Of addresses only the host is shown, of secrets only their source."
_FOR_ADMINS = "Admins send test messages here, or `hud alerts test`."


def show() -> None:
    """Draw the page of receivers."""
    _, problems = parse_receivers(st.query_params.to_dict())
    banners(problems)
    loaded = load_receivers_page(load_health_page().value)
    stale_note(loaded)
    page = loaded.value
    if not page.cards:
        _show_nothing(page)
        return
    st.html(heading(headline(page)))
    if not page.is_configured:
        st.html(banner("This dashboard was started without a hud.toml; `hud serve` reads it."))
    may_send = access.present().may(Role.ADMIN)
    for number, card in enumerate(page.cards):
        _show_card(card, page, number=number, may_send=may_send)
    st.html(caption(CAPTION if may_send else f"{CAPTION} {_FOR_ADMINS}"))


def _show_nothing(page: ReceiversPage) -> None:
    st.html(heading("Receivers"))
    if not page.is_configured:
        text = (
            "This dashboard was started without a hud.toml, so it knows no receivers. Started by"
            " one of these commands it shows them."
        )
        state_page("No receivers", text=[text], commands=["hud up", "hud serve"])
        return
    paragraphs = [
        "Alerts are shown here and reported nowhere. A receiver in hud.toml gets them: a chat,"
        " mail, GitHub or a webhook.",
        "Add one, then start `hud up` or `hud serve` again.",
        "The guide `Send alerts` of the documentation has all kinds, routes and keys.",
    ]
    state_page("Notifications are off", text=paragraphs)
    st.code(SNIPPET, language="toml")


def _show_card(card: ReceiverCard, page: ReceiversPage, *, number: int, may_send: bool) -> None:
    now = clock.now()
    with st.container(border=True, gap="small", key=f"receiver-{number}"):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.html(heading(card.name, level=3), width="content")
            style = "strong" if card.needs_attention else ""
            st.html(chips([state_text(card, now=now)], style=style), width="stretch")
            if may_send:
                _show_buttons(card, number=number)
        st.html(receiver_facts(card, has_routes=page.has_routes, now=now))
        show_flash(f"{_SENT_FOR}-{card.name}")
        banners(problem_texts(card))
        if answer := test_text(card, has_sender=page.has_sender, now=now):
            st.html(banner(answer))
        if card.dead:
            title = counted(len(card.dead), "dead letter")
            st.html(collapsible(title, dead_table(card.dead, now=now)))


def _show_buttons(card: ReceiverCard, *, number: int) -> None:
    if card.dead:
        label = f"Resend {counted(len(card.dead), 'dead letter')}"
        st.button(label, key=f"resend-{number}", on_click=_resend, args=(card,))
    if card.shown is not None:
        st.button("Send test", key=f"test-{number}", on_click=_send_test, args=(card.name,))


def _send_test(name: str) -> None:
    if problem := send_test(name):
        set_flash(problem, key=f"{_SENT_FOR}-{name}")


def _resend(card: ReceiverCard) -> None:
    problem = send_again([item.id for item in card.dead])
    text = problem or f"Queued again: {counted(len(card.dead), 'dead letter')}."
    set_flash(text, key=f"{_SENT_FOR}-{card.name}")
