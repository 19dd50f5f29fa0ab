"""The settings in force, read-only; changes go into hud.toml."""

from __future__ import annotations

import os

import streamlit as st

from compile_hud.app.components.page_frame import banners, state_page
from compile_hud.app.data import store
from compile_hud.app.ui.html import Cell, HtmlColumn, caption, heading, key_values, table
from compile_hud.app.ui.urls import parse_settings
from compile_hud.db.shared.settings_snapshot import (
    SETTINGS_VARIABLE,
    ShownSetting,
    settings_from_json,
)

_COLUMNS = (
    HtmlColumn(label="setting"),
    HtmlColumn(label="value"),
    HtmlColumn(label="from", title="hud.toml, a variable that wins, or what holds elsewhere"),
    HtmlColumn(label="what it is"),
)


def show() -> None:
    """Draw the page of settings."""
    _, problems = parse_settings(st.query_params.to_dict())
    banners(problems)
    st.html(heading("Settings"))
    st.html(key_values([("store", Cell(text=store.store_name()))]))
    settings = settings_from_json(os.environ.get(SETTINGS_VARIABLE, ""))
    if not settings:
        text = [
            "This dashboard was started without a hud.toml, so it has no settings but its store."
            " Started by one of these commands it shows all settings."
        ]
        state_page("No settings", text=text, commands=["hud up", "hud serve"])
        return
    st.html(
        caption(
            "Values at start-up, without options of the command line. Of secrets only the source is"
            " shown, of addresses only scheme and host."
        )
    )
    for section in dict.fromkeys(item.section for item in settings):
        rows = [_row(item) for item in settings if item.section == section]
        st.html(heading(f"[{section}]", level=2))
        st.html(table(_COLUMNS, rows, label=f"settings of {section}"))


def _row(item: ShownSetting) -> tuple[Cell, ...]:
    return (
        Cell(text=item.key, style="strong" if item.is_set or item.variable else ""),
        Cell(text=item.value or "-", style="prose" if item.value else "quiet"),
        Cell(text=item.variable or ("hud.toml" if item.is_set else "default"), style="quiet"),
        Cell(text=item.description, style="prose quiet whole coded"),
    )
