"""Draw the panels of one mode, whose points open their runs."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import datetime

import streamlit as st

from compile_hud.app.components.trend.chart import PART, brushed
from compile_hud.app.data import store
from compile_hud.app.data.cache import computed_once
from compile_hud.app.ui.charts import PICK, picked
from compile_hud.app.ui.share import go
from compile_hud.app.ui.urls import run_url
from compile_hud.app.views.trends.charts import PanelColumn, column_spec


def draw_column(
    column: PanelColumn, *, data_key: tuple[Hashable, ...], key: str, has_brush: bool = False
) -> tuple[datetime, datetime] | None:
    """Draw the panels of one mode, and return the brushed part of the time, None without one.

    `data_key` identifies the data of all columns for a cache, `key` this chart on its page.
    """
    spec = computed_once(_column_spec)(
        store.store_url(), data_key, column.title, column.time, has_brush=has_brush, _column=column
    )
    event = st.vega_lite_chart(
        spec,
        key=key,
        width="content",
        height=spec["height"],
        on_select="rerun",
        selection_mode=[PICK, PART] if has_brush else [PICK],
    )
    if run_id := picked(event, "run_id"):
        go(run_url(run_id))
    return brushed(event)


def _column_spec(*_key: object, has_brush: bool, _column: PanelColumn) -> dict[str, object]:
    return column_spec(_column, has_brush=has_brush)
