"""The matrix of the overview with its switches. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

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
from compile_hud.app.ui.html import caption, escaped, same_page_link, sectioned_table, table
from compile_hud.app.ui.urls import MATRIX_HEATS, OverviewState, overview_url

LABEL = "latest results, model by variant"
_STYLE = "full"
_FILTERS = {"": "all", ALERTS: "with alerts", FAILING: "not ok", STALE: "stale"}


def matrix_view(state: OverviewState, *, variants: Sequence[str]) -> MatrixView:
    """Return the order, shades and rows of the matrix; an unknown column sorts nothing."""
    view = MatrixView(sort=state.sort, heat=state.heat, only=state.only)
    return view if view.column in ("", "model", *variants) else replace(view, sort="")


def switches_html(state: OverviewState, *, counts: dict[str, int]) -> str:
    """Return the filters of rows with their numbers, and the choice of the shades."""
    rows = [
        _choice(
            f"{text} {counts[name]}",
            overview_url(replace(state, only=name)),
            is_on=state.only == name,
        )
        for name, text in _FILTERS.items()
        if counts[name] or state.only == name
    ]
    heats = [
        _choice(name, overview_url(replace(state, heat=name)), is_on=state.heat == name)
        for name in MATRIX_HEATS
    ]
    return (
        f'<nav class="hud-switches" aria-label="Rows and shades"><span>rows</span>{"".join(rows)}'
        f"<span>shade by</span>{''.join(heats)}</nav>"
    )


def _choice(text: str, href: str, *, is_on: bool) -> str:
    if is_on:
        return f'<b aria-current="true">{escaped(text)}</b>'
    return same_page_link(text, href)


def matrix_html(matrix: Matrix) -> str:
    """Return the table."""
    if matrix.sections:
        return sectioned_table(
            matrix.columns, matrix.rows, sections=matrix.sections, label=LABEL, style=_STYLE
        )
    return table(matrix.columns, matrix.rows, label=LABEL, style=_STYLE)


def legend_html(matrix: Matrix, *, heat: str) -> str:
    """Return the drawn legend of shades and stale cells, and the marks of other revisions."""
    items = []
    if heat == VALUE and matrix.bounds is not None:
        least, most = matrix.bounds
        items.append(_shades(least, most))
    elif heat == CHANGE:
        items.append(_shades("below 1 %", f"20 % off the median of the last {NUM_RECENT} runs"))
    if matrix.has_stale:
        items.append('<li class="hud-sign"><i class="stale"></i>stale: over 36 h older</li>')
    drawn = f'<ul class="hud-signs" aria-label="Legend">{"".join(items)}</ul>' if items else ""
    return drawn + (caption(matrix.legend) if matrix.legend else "")


def _shades(least: str, most: str) -> str:
    boxes = "".join(f'<i class="heat{number}"></i>' for number in range(6))
    return f'<li class="hud-sign shades">{escaped(least)}<span>{boxes}</span>{escaped(most)}</li>'
