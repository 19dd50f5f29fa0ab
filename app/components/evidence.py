"""Environment differences as HTML. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from compile_hud.app.ui.html import Cell, HtmlColumn, table


def difference_table(
    differences: Mapping[str, Sequence[Any]], *, ends: Sequence[str], label: str
) -> Markup:
    """Return a row for each environment fact that differs between two revisions; "" for none."""
    columns = [HtmlColumn(label="differs"), *(HtmlColumn(label=name) for name in ends)]
    rows = [
        (
            Cell(text=name),
            *(Cell(text=_text(value), style="prose", title=_text(value)) for value in values),
        )
        for name, values in differences.items()
    ]
    return table(columns, rows, label=label) if rows else Markup()


def _text(value: Any) -> str:
    return "-" if value is None else str(value)
