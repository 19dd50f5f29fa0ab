"""The compilations of the first launch of a case, phase by phase. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from markupsafe import Markup

from compile_hud.app.ui.format import scale_for
from compile_hud.app.ui.html import Cell, HtmlColumn, caption, command_line, table
from compile_hud.db.records.summaries import ResultSummary
from compile_hud.db.shared.compilations import (
    GUARDS_HELP,
    GUARDS_TITLE,
    PHASE_TITLES,
    compilations_of,
    phases_in,
)


def compilation_table(result: ResultSummary) -> str:
    """Return a row for each compilation; "" without any."""
    compilations = compilations_of(result.details)
    if not compilations:
        return ""
    phases = phases_in(compilations)
    scale = scale_for("s", [item.total_s for item in compilations])
    names = [*(PHASE_TITLES.get(name, name) for name in phases), "total"]
    columns = (
        HtmlColumn(label="id", title="frame/compilation: 0/1 is the first recompile of frame 0"),
        *(HtmlColumn(label=f"{name} ({scale.unit})", is_number=True) for name in names),
        HtmlColumn(label="operators", is_number=True),
        HtmlColumn(label=GUARDS_TITLE, title=GUARDS_HELP, is_number=True),
        HtmlColumn(label="function"),
        HtmlColumn(label="because"),
    )
    rows = []
    for item in compilations:
        times_s = [*(item.phases_s.get(name) for name in phases), item.total_s]
        rows.append(
            (
                Cell(text=item.title),
                *(Cell(text="-" if time_s is None else scale.number(time_s)) for time_s in times_s),
                Cell(text=_count(item.num_ops)),
                Cell(text=_count(item.num_guards)),
                Cell(text=item.location or "-", style="prose"),
                Cell(text=item.reason or "-", style="prose"),
            )
        )
    return table(columns, rows, label="compilations")


def compiler_log(result: ResultSummary) -> Markup:
    """Return the command that shows the stored log of the compiler, and its report; "" without."""
    paths = result.details.get("compile_trace")
    if not isinstance(paths, Mapping) or not paths.get("folder"):
        return Markup()
    report = str(paths.get("tlparse") or "")
    text = f"Report of tlparse, on the machine that ran the case: {report}" if report else ""
    command = command_line(f"hud compiles {paths['folder']}")
    return command + (caption(text) if text else Markup())


def _count(number: int | None) -> str:
    return "-" if number is None else f"{number:,}"
