"""The small scripts of the pages: keys, and the selection in a table of alerts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

import streamlit as st

_FOLDER = Path(__file__).parent
# The effect of each key, and the box that turns them off: single letters disturb speech input.
KEYS_LEGEND = (
    '<div class="hud-legend"><label><input type="checkbox" class="hud-keys" checked> keys</label>'
    " <span><kbd>j</kbd> <kbd>k</kbd> next, previous</span><span><kbd>Enter</kbd> opens</span>"
    "<span><kbd>x</kbd> selects</span><span><kbd>d</kbd> triages</span>"
    "<span><kbd>/</kbd> searches</span></div>"
)


# A text for screen readers, which is invisible.
_STATUS = (
    '<div role="status" style="position:absolute;width:1px;height:1px;overflow:hidden;'
    'clip-path:inset(50%)"></div>'
)


def keys() -> None:
    """Let keys move through alerts and lead to a search."""
    st.components.v2.component("hud_keys", js=script("keys"))(key="keys")


def picked(known: Collection[str], *, key: str) -> list[str]:
    """Return those of the `known` ids that are selected in the tables of the page."""
    before: Sequence[str] = st.session_state.get(key, {}).get("picked") or []
    mount = st.components.v2.component("hud_picks", html=_STATUS, js=script("picks"))
    component = mount(
        key=key,
        data={"known": sorted(known), "picked": [id for id in before if id in known]},
        default={"picked": []},
        on_picked_change=_nothing,
    )
    # The value comes from the browser and may be anything.
    values = component.picked if isinstance(component.picked, list) else []
    return [id for id in values if isinstance(id, str) and id in known]


def _nothing() -> None:
    """Do nothing: as a callback it makes a change of the component rerun the page."""


def script(name: str) -> str:
    """Return the source of a script in the folder of this module."""
    return (_FOLDER / f"{name}.js").read_text(encoding="utf-8")
