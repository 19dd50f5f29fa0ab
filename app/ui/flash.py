"""The reply of a page to a click, shown for a while.

A click that writes to the store redraws the page at once; without this, the reply would vanish
before anyone has read it.
"""

from __future__ import annotations

from datetime import timedelta

import streamlit as st

from compile_hud.app import clock
from compile_hud.app.ui.html import banner

_SHOWN_FOR = timedelta(minutes=1)


def set_flash(text: str, *, key: str) -> None:
    """Store a reply for `show_flash` with the same key."""
    st.session_state[f"said {key}"] = (clock.now(), text)


def show_flash(key: str) -> None:
    """Draw the last reply, if it is new."""
    at, text = st.session_state.get(f"said {key}", (None, ""))
    if at is not None and clock.now() - at < _SHOWN_FOR:
        st.html(banner(text))
