"""What a page answers to a click, shown for a while.

A click that writes to the store makes the page draw itself again at once; what it answered would be
gone before anybody has read it.
"""

from __future__ import annotations

from datetime import timedelta

import streamlit as st

from compile_hud.app import clock
from compile_hud.app.ui.html import banner

_SHOWN_FOR = timedelta(minutes=1)


def set_flash(text: str, *, key: str) -> None:
    """Keep an answer for `show_flash` with the same key."""
    st.session_state[f"said {key}"] = (clock.now(), text)


def show_flash(key: str) -> None:
    """Draw the last answer, where it is new."""
    at, text = st.session_state.get(f"said {key}", (None, ""))
    if at is not None and clock.now() - at < _SHOWN_FOR:
        st.html(banner(text))
