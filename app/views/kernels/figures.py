"""The figures of the kernels page: icicle, timeline, roofline and the trend of one kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import streamlit as st

from compile_hud.app.components.page_frame import draw_chart, draw_legend
from compile_hud.app.components.trend.view import draw_runs
from compile_hud.app.data import store
from compile_hud.app.data.cache import computed_once
from compile_hud.app.data.page_records import KernelsPage
from compile_hud.app.ui.charts import PICK, picked
from compile_hud.app.ui.format import scale_for
from compile_hud.app.ui.html import banner, caption, heading
from compile_hud.app.ui.legend import LegendItem
from compile_hud.app.views.kernels.breakdown import kind_style
from compile_hud.app.views.kernels.charts import (
    icicle_spec,
    kernel_trend_legend,
    kernel_trend_spec,
    roofline_legend,
    roofline_spec,
    strip_spec,
)
from compile_hud.app.views.kernels.data import load_kernel_trend
from compile_hud.app.views.kernels.icicle import layout
from compile_hud.app.views.kernels.roofline import roofs_of, spots_of, uncounted
from compile_hud.app.views.kernels.tables import kernel_id, uncounted_text
from compile_hud.app.views.kernels.timeline import strip_rows, strip_text
from compile_hud.db.records.kernels import Kernel, KernelPoint

_ICICLE_TEXT = (
    "Module, operator, kernel; width is time per iteration. A click on a kernel opens it. Kernels"
    " that run at once add up to more."
)
_ROOFLINE_TEXT = "A point above a roof is no mistake: its data fit into a cache."
_TREND_TEXT = "Same label, library and shapes, under the profiler. A click opens the run."


def show_icicle(page: KernelsPage, *, version: int) -> None:
    """Draw the icicle; a click opens a kernel."""
    spec = _cached(_icicle, page, version)
    if spec is None:
        return
    st.html(heading("By module, operator and kernel", level=2))
    draw_legend(_kind_legend(page))
    _draw_kernels(spec, key="icicle")
    st.html(caption(_ICICLE_TEXT))


def show_timeline(page: KernelsPage, *, version: int) -> None:
    """Draw the timeline of one iteration."""
    if page.profile is None:
        return
    st.html(heading("One iteration", level=2))
    spec = _cached(_timeline, page, version)
    if spec is None:
        where = " Its trace has it." if page.has_trace else ""
        st.html(banner(f"No timeline: this result was recorded without one.{where}"))
        return
    draw_legend(_kind_legend(page))
    _draw_kernels(spec, key="strip")
    st.html(caption(strip_text(page.profile)))


def show_roofline(page: KernelsPage, *, version: int) -> None:
    """Draw the roofline of the kernels, and name those without counts."""
    st.html(heading("Roofline", level=2))
    if not roofs_of(page.run.environment):
        st.html(banner("No roofline: this run did not measure what the device is able to."))
        return
    spec = _cached(_roofline, page, version)
    if spec is not None:
        draw_legend(roofline_legend(spots_of(page.kernels)))
        _draw_kernels(spec, key="roofline")
        st.html(caption(_ROOFLINE_TEXT))
    if without := uncounted(page.kernels):
        st.html(banner(uncounted_text(without)))


def show_kernel_trend(page: KernelsPage, kernel: Kernel) -> None:
    """Draw the trend of one kernel over the runs of its case."""
    assert page.result is not None
    loaded = load_kernel_trend(page.result.case.key, kernel)
    points = [
        point
        for point in loaded.value
        if (point.machine, point.toolchain) == (page.run.machine, page.run.toolchain)
    ]
    if len(points) < 2:
        return
    st.html(heading("History", level=3))
    spec = computed_once(_trend)(
        store.store_url(),
        loaded.version,
        page.run.id,
        page.result.case.key,
        kernel_id(kernel),
        _points=points,
    )
    draw_legend(kernel_trend_legend(points))
    draw_runs(spec, case_key=page.result.case.key, key="kernel-trend")
    st.html(caption(_TREND_TEXT))


def _cached(
    make: Callable[..., dict[str, Any] | None], page: KernelsPage, version: int
) -> dict[str, Any] | None:
    # Building a chart takes longer than everything else on a page.
    assert page.result is not None
    key = (store.store_url(), version, page.result.id)
    spec: dict[str, Any] | None = computed_once(make)(*key, _page=page)
    return spec


def _icicle(*_key: str | int, _page: KernelsPage) -> dict[str, Any] | None:
    rects = layout(_page.kernels)
    return icicle_spec(rects) if rects else None


def _timeline(*_key: str | int, _page: KernelsPage) -> dict[str, Any] | None:
    assert _page.profile is not None
    scale = scale_for("s", [_page.profile.iteration_s])
    rows = strip_rows(_page.profile, _page.kernels, scale=scale)
    return strip_spec(rows, unit=scale.unit) if rows else None


def _roofline(*_key: str | int, _page: KernelsPage) -> dict[str, Any] | None:
    spots = spots_of(_page.kernels)
    return roofline_spec(spots, roofs=roofs_of(_page.run.environment)) if spots else None


def _trend(*_key: str | int, _points: Sequence[KernelPoint]) -> dict[str, Any]:
    return kernel_trend_spec(_points)


def _draw_kernels(spec: Mapping[str, Any], *, key: str) -> None:
    """Draw a chart in which a click on a kernel opens it."""
    # This is a callback: a selection stays, and would later undo a choice made elsewhere.
    draw_chart(spec, key=key, on_select=lambda: _open_picked(key), selection_mode=PICK)


def _open_picked(key: str) -> None:
    if kernel := picked(st.session_state[key], "kernel"):
        st.query_params["kernel"] = kernel


def _kind_legend(page: KernelsPage) -> Iterator[LegendItem]:
    kinds = dict.fromkeys(kernel.kind for kernel in page.kernels)
    return (LegendItem(sign=f"cell {kind_style(kind)}", text=kind) for kind in kinds)
