"""Sign-in and sign-out on a page, and the page of a visitor without a role."""

from __future__ import annotations

import importlib.metadata
from datetime import datetime

import streamlit as st

from compile_hud.app import clock
from compile_hud.app.auth import access
from compile_hud.app.components.page_frame import state_page
from compile_hud.app.ui.format import age
from compile_hud.app.ui.templates.environment import render
from compile_hud.db.shared.access_rules import Person, Role


def wall(person: Person) -> None:
    """Draw the page for a visitor without a role: sign-in, or the reason why access is refused."""
    if person.is_signed_in:
        text = [
            f"You are signed in as {person.name}, who has no access to this dashboard.",
            "The owner of [auth] in hud.toml can change that.",
        ]
        state_page("Access denied", text=text)
        st.button("Sign out", key="sign-out", on_click=st.logout)
        return
    why = [f"{person.problem}."] if person.problem else []
    text = [*why, "This dashboard needs a sign-in. It returns to this page."]
    state_page("Sign in", text=text)
    sign_in_button()


def sign_in_button(key: str = "sign-in") -> None:
    """Draw the button that leads to the provider."""
    st.button("Sign in", key=key, on_click=st.login, type="primary")


def foot(person: Person, *, store: str, newest: datetime | None) -> None:
    """Draw the line below each page: release, store, and the person who is signed in.

    `newest` is the start of the newest run.
    """
    has_sign_in, is_owned = access.rules().has_sign_in, access.owner_sign_in() is not None
    texts = [f"Compile HUD {importlib.metadata.version('compile-hud')}", f"store {store}"]
    if newest is not None:
        texts.append(f"newest run {age(newest, now=clock.now())}")
    advice = ""
    if person.is_signed_in:
        texts.append(f"signed in as {person.name} ({person.role})")
    elif has_sign_in:
        texts.append("not signed in")
    elif is_owned:
        texts += [] if person.may(Role.TRIAGER) else ["read-only"]
        advice = f". {access.LINK_ADVICE}."
    note = render("parts.html", "foot", facts=", ".join(texts), advice=advice)
    if not (has_sign_in or person.is_signed_in):
        st.html(note)
        return
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        st.html(note, width="content")
        if not person.is_signed_in:
            st.button("Sign in", key="sign-in-foot", on_click=st.login, type="tertiary")
        elif has_sign_in:
            st.button("Sign out", key="sign-out", on_click=st.logout, type="tertiary")
        else:
            st.button(
                "Sign out", key="sign-out", on_click=access.end, args=(person,), type="tertiary"
            )
