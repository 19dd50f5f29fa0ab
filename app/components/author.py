"""The name of an author who is not signed in: typed once, and remembered by the browser."""

from __future__ import annotations

from urllib.parse import unquote

import streamlit as st

from compile_hud.app.ui.scripts import script
from compile_hud.db.shared.access_rules import Person
from compile_hud.db.shared.text import one_line, shortened

_COOKIE = "hud_name"
_KEY = "remembered-name"
_MAX_LENGTH = 40


def name_field(person: Person, *, key: str, width: int) -> str:
    """Draw the field of the author's name; none for a signed-in person, whose name is known."""
    if person.is_signed_in:
        return ""
    return st.text_input("Your name", value=remembered_name(), key=key, width=width)


def remembered_name() -> str:
    """Return the name of the last saved decision of this browser, "" without one."""
    name = st.session_state.get(_KEY)
    if name is None:
        cookie = st.context.cookies.get(_COOKIE, "")
        name = unquote(cookie) if isinstance(cookie, str) else ""
    return shortened(one_line(name).strip(), limit=_MAX_LENGTH)


def remember_name(name: str) -> None:
    """Offer `name` in every form from now on, in later visits too."""
    if name.strip():
        st.session_state[_KEY] = name


def store_name() -> None:
    """Let the browser store the name that was typed into this window, if any."""
    if st.session_state.get(_KEY):
        component = st.components.v2.component("hud_name", js=script("remember"))
        component(key="store-name", data={"cookie": _COOKIE, "name": remembered_name()})
