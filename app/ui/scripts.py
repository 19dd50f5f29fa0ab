"""The small scripts of the pages."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl

import streamlit as st

_FOLDER = Path(__file__).parent
_HERE = "here"


def keys() -> None:
    """Let keys move through alerts and lead to a search."""
    st.components.v2.component("hud_keys", js=script("keys"))(key="keys")


def follow_links() -> None:
    """Let the links of `same_page_link` change the address without loading the page again."""
    mount = st.components.v2.component("hud_here", js=script("here"))
    mount(key=_HERE, on_query_change=_follow)


def _follow() -> None:
    # The value comes from the browser and may be anything; the page checks each parameter.
    query = st.session_state.get(_HERE, {}).get("query")
    if isinstance(query, str):
        st.query_params.from_dict(dict(parse_qsl(query.removeprefix("?"))))


def script(name: str) -> str:
    """Return the source of a script in the folder of this module."""
    return (_FOLDER / f"{name}.js").read_text(encoding="utf-8")
