"""The trend of a series, drawn on its own page and on that of an alert."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import streamlit as st

from app import data
from app.charts import PICK
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
    event = st.vega_lite_chart(
        spec, on_select="rerun", selection_mode=PICK, key="trend", width="stretch"
    )
    if run_id := picked_run(event):
        st.switch_page(
            st.Page(run_view.show, url_path="run"),
            query_params={"run": run_id, "case": page.case.key},
        )
    st.caption(trend_caption(page))
    show_repro(page.case, toolchain=page.toolchain)


def show_repro(case: Case, *, toolchain: str) -> None:
    """Draw the command that measures `case` again."""
    st.code(data.repro(case, toolchain=toolchain), language="bash", wrap_lines=True)


def picked_run(event: Mapping[str, Any]) -> str | None:
    """Return the run of the point that was clicked, None without a click."""
    chosen = event.get("selection", {}).get(PICK) or []
    return str(chosen[0]["run_id"]) if chosen and "run_id" in chosen[0] else None
