"""The diff of a model's code between two runs."""

from __future__ import annotations

import streamlit as st

from compile_hud.app.ui.html import caption
from compile_hud.db.shared.model_sources import ModelCodeDiff


def show_code_diff(item: ModelCodeDiff) -> None:
    """Draw the diff, and what is missing of it."""
    if item.lines:
        st.code("\n".join(item.lines), language="diff")
    if item.note:
        st.html(caption(item.note))
