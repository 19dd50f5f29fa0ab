"""The data of the page of a study: one section for each device that measured it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compile_hud.app.ui.html import Cell, HtmlColumn
from compile_hud.app.ui.legend import LegendItem
from compile_hud.db.records.results import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePart:
    """A table with its heading; a folded one is behind a line."""

    title: str
    columns: Sequence[HtmlColumn]
    rows: Sequence[Sequence[Cell]]
    is_folded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class GridPart:
    """Small tables side by side under one heading, and a text below."""

    title: str
    grids: tuple[TablePart, ...]
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySection:
    """A run of a study on one device, its outcomes as text, and the facts that all cases share.

    `chart` is a Vega-Lite specification, None without data for one; with `has_picks` a click on a
    point names a case.
    """

    run: Run
    title: str
    outcomes: str
    common: Mapping[str, str]
    parts: tuple[TablePart, ...]
    grids: tuple[GridPart, ...] = ()
    chart: Mapping[str, Any] | None = None
    chart_text: str = ""
    chart_legend: tuple[LegendItem, ...] = ()
    has_picks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyPage:
    """A study by name and title, its question, and a section for each device that measured it."""

    name: str
    title: str
    question: str
    sections: tuple[StudySection, ...]
