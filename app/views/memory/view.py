"""Draw the memory at the peak of a result, and its changes between two results."""

from __future__ import annotations

import streamlit as st

from compile_hud.app.ui.html import caption, heading
from compile_hud.app.views.memory.records import MemoryChanges
from compile_hud.app.views.memory.tables import (
    NO_HOLDERS,
    PEAK_CAPTION,
    change_table,
    holder_table,
    memory_sentence,
    peak_text,
)
from compile_hud.db.records.memory.peak import PeakHolders
from compile_hud.db.records.summaries import ResultSummary

_SAME = "No operator has more or less memory at the peak."


def show_peak(peak: PeakHolders | None, result: ResultSummary) -> None:
    """Draw the holders of memory of a result, or the reason why there are none."""
    if peak is None:
        st.html(caption(NO_HOLDERS))
        return
    st.html(heading("Memory at the peak", level=3))
    st.html(caption(peak_text(peak, result)))
    st.html(holder_table(peak))
    st.html(caption(PEAK_CAPTION))


def show_memory_changes(changes: MemoryChanges) -> None:
    """Draw the holders that have more or less memory than before."""
    st.html(heading("Memory at the peak", level=2))
    st.html(caption(memory_sentence(changes)))
    st.html(change_table(changes) or caption(_SAME))
