"""The result of re-measuring an alert, and environment differences, as HTML. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from compile_hud.app.ui.format import duration, percent_interval
from compile_hud.app.ui.html import Cell, HtmlColumn, table
from compile_hud.db.records.alerts import Alert

_METHODS = {
    "in_turn": "in turn with toolchain {toolchain}, {num_launches} launches a side",
    "history": "against the history",
    "repeat": "repeated",
}


def confirmation_text(alert: Alert) -> str:
    """Return the result of re-measuring `alert`, "" without one."""
    confirmation = alert.confirmation
    if not confirmation:
        return ""
    baseline = confirmation.get("baseline_side") or {}
    parts = [str(confirmation.get("verdict", ""))]
    if how := _METHODS.get(str(confirmation.get("method"))):
        parts.append(how.format_map({"toolchain": "", "num_launches": "", **baseline}))
    if confirmation.get("interval_pct"):
        low, high = confirmation["interval_pct"]
        parts.append(percent_interval((low, high)))
    if confirmation.get("seconds") is not None:
        parts.append(f"took {duration(float(confirmation['seconds']))}")
    return f"{', '.join(parts)}: {confirmation.get('reason', '')}"


def difference_table(
    differences: Mapping[str, Sequence[Any]], *, ends: Sequence[str], label: str
) -> str:
    """Return a row for each environment fact that differs between two revisions; "" for none."""
    columns = [HtmlColumn(label="differs"), *(HtmlColumn(label=name) for name in ends)]
    rows = [
        (
            Cell(text=name),
            *(Cell(text=_text(value), style="prose", title=_text(value)) for value in values),
        )
        for name, values in differences.items()
    ]
    return table(columns, rows, label=label) if rows else ""


def _text(value: Any) -> str:
    return "-" if value is None else str(value)
