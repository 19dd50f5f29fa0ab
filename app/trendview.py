"""The trend of a series, drawn on its own page and on that of an alert."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from app import data
from app.charts import PICK, picked
from app.pages import SeriesPage
from app.seriestable import trend_caption
from app.trend import trend_chart
from app.views import run as run_view
from db.records import Case


def show_trend(page: SeriesPage, *, metric: str, generation: int) -> None:
    """Draw the trend of `page`, what its signs mean, and the command that measures it again.

    `generation` is that of the store at which the page was read. A click on a point opens its run.
    """
    # Building a layered chart takes longer than everything else on a page.
    spec = data.cached(trend_chart)(
        data.store_url(),
        generation,
        page.case.key,
        page.machine,
        page.toolchain,
        [alert.id for alert in page.alerts],
        metric=metric,
        _page=page,
    )
    draw_runs(spec, case_key=page.case.key, key="trend")
    st.caption(trend_caption(page))
    show_repro(page.case, toolchain=page.toolchain)


def show_repro(case: Case, *, toolchain: str) -> None:
    """Draw the command that measures `case` again."""
    st.code(data.repro(case, toolchain=toolchain), language="bash", wrap_lines=True)


def draw_runs(spec: Mapping[str, Any], *, case_key: str, key: str) -> None:
    """Draw a chart of runs; a click on one opens it with the case."""
    event = st.vega_lite_chart(
        dict(spec), on_select="rerun", selection_mode=PICK, key=key, width="stretch"
    )
    if run_id := picked(event, "run_id"):
        st.switch_page(
            st.Page(run_view.show, url_path="run"),
            query_params={"run": run_id, "case": case_key},
        )
