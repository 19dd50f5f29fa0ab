"""The page of the search; the key `/` leads here from everywhere."""

from __future__ import annotations

import streamlit as st

from compile_hud.app.components.page_frame import banners, empty_store, state_page, type_in
from compile_hud.app.data import store
from compile_hud.app.data.runs import load_newest_runs
from compile_hud.app.ui.html import Cell, HtmlColumn, caption, heading, table
from compile_hud.app.ui.urls import parse_search
from compile_hud.app.views.search.data import (
    HitGroup,
    load_kernel_hits,
    load_searchable,
    search,
    search_words,
)

_COLUMNS = (HtmlColumn(label="name"), HtmlColumn(label="where"))


def show() -> None:
    """Draw the field, and the pages whose names have all its words."""
    state, problems = parse_search(st.query_params.to_dict())
    banners(problems)
    if not load_newest_runs().value:
        empty_store(store.store_name())
        return
    st.html(heading("Search"))
    type_in("Search everything", name="text", value=state.text, width=480)
    if not search_words(state.text):
        st.html(caption("Models, alerts, cases, runs, kernels and settings that have all words."))
        return
    groups = search(state.text, load_searchable().value)
    kernels = load_kernel_hits(state.text).value
    if kernels.hits:
        groups = (*groups, kernels)
    for group in groups:
        st.html(heading(_title(group), level=2))
        rows = [
            (Cell(text=hit.text, href=hit.href, style="strong"), Cell(text=hit.note, style="quiet"))
            for hit in group.hits
        ]
        st.html(table(_COLUMNS, rows, label=group.kind.lower()))
    if not groups:
        text = "Fewer words, or the beginning of one, may find it."
        state_page("Nothing has all of these words", text=[text])


def _title(group: HitGroup) -> str:
    shown = len(group.hits)
    more = f", the first {shown}" if shown < group.num_hits else ""
    return f"{group.kind}: {group.num_hits}{more}"
