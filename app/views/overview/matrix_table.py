"""The matrix of the overview with its switches. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from markupsafe import Markup

from compile_hud.app.components.matrix.order import (
    ALERTS,
    CHANGE,
    FAILING,
    STALE,
    VALUE,
    MatrixView,
)
from compile_hud.app.components.matrix.result_matrix import Matrix
from compile_hud.app.data.latest_results import NUM_RECENT
from compile_hud.app.ui.html import caption, sectioned_table, table
from compile_hud.app.ui.templates.environment import render
from compile_hud.app.ui.urls import MATRIX_HEATS, OverviewState, overview_url

LABEL = "latest results, model by variant"
_STYLE = "full"
_FILTERS = {"": "all", ALERTS: "with alerts", FAILING: "not ok", STALE: "stale"}


def matrix_view(state: OverviewState, *, variants: Sequence[str]) -> MatrixView:
    """Return the order, shades and rows of the matrix; an unknown column sorts nothing."""
    view = MatrixView(sort=state.sort, heat=state.heat, only=state.only)
    return view if view.column in ("", "model", *variants) else replace(view, sort="")


def switches_html(state: OverviewState, *, counts: dict[str, int]) -> Markup:
    """Return the filters of rows with their numbers, and the choice of the shades."""
    rows = [
        (
            f"{text} {counts[name]}",
            overview_url(replace(state, only=name)),
            state.only == name,
        )
        for name, text in _FILTERS.items()
        if counts[name] or state.only == name
    ]
    heats = [
        (name, overview_url(replace(state, heat=name)), state.heat == name) for name in MATRIX_HEATS
    ]
    return render("overview.html", "switches", rows=rows, heats=heats)


def matrix_html(matrix: Matrix) -> Markup:
    """Return the table."""
    if matrix.sections:
        return sectioned_table(
            matrix.columns, matrix.rows, sections=matrix.sections, label=LABEL, style=_STYLE
        )
    return table(matrix.columns, matrix.rows, label=LABEL, style=_STYLE)


def legend_html(matrix: Matrix, *, heat: str) -> Markup:
    """Return the drawn legend of shades and stale cells, and the marks of other revisions."""
    ends = None
    if heat == VALUE:
        ends = matrix.bounds
    elif heat == CHANGE:
        ends = ("below 1 %", f"20 % off the median of the last {NUM_RECENT} runs")
    drawn = Markup()
    if ends or matrix.has_stale:
        drawn = render("overview.html", "matrix_legend", ends=ends, has_stale=matrix.has_stale)
    return drawn + (caption(matrix.legend) if matrix.legend else Markup())
