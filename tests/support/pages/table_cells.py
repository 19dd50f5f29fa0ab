"""Cells of a table as the browser shows them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from compile_hud.app.components.table.columns import DataTable

# The types of columns in the messages of Streamlit, by the names of their classes.
_TYPES = {
    "DatetimeColumn": "datetime",
    "LineChartColumn": "line_chart",
    "LinkColumn": "link",
    "MultiselectColumn": "multiselect",
    "NumberColumn": "number",
    "ProgressColumn": "progress",
    "TextColumn": "text",
}


def cells_of(table: DataTable) -> list[dict[str, str]]:
    """Return the cells of each row by their headings, those of hidden columns as well."""
    kinds = [{**item.settings, "type": _TYPES[item.kind]} for item in table.columns.values()]
    return [
        {
            name: cell_text(value, kind)
            for name, value, kind in zip(table.columns, row, kinds, strict=True)
        }
        for row in table.frame.itertuples(index=False, name=None)
    ]


def links_in(table: DataTable, name: str) -> list[str]:
    """Return the addresses of a column of links, "" for an empty cell."""
    return ["" if value is None else page_of(str(value)) for value in table.frame[name]]


def page_of(address: str) -> str:
    """Return the page of an address that begins with the text of its link."""
    page = address.partition("/../")[2]
    return f"./{page}" if page.startswith("?") else page


def cell_text(value: Any, kind: Mapping[str, Any]) -> str:
    """Return a cell as the browser shows it."""
    if kind["type"] in ("multiselect", "line_chart"):
        return ", ".join(map(str, [] if value is None else value))
    if value is None or str(value) in ("<NA>", "NaT", "nan"):
        return "-"
    if kind["type"] == "link":
        return unquote(re.match(kind["display_text"], value)[1])
    if kind["type"] == "datetime":
        return f"{value:%Y-%m-%d %H:%M}"
    if kind["type"] in ("number", "progress"):
        return _formatted(float(value), kind["format"])
    return str(value)


def _formatted(value: float, template: str) -> str:
    """Return a number by a template of the browser, which knows `%,.1f` and `%+,.1f %%`."""
    match = re.fullmatch(r"%(\+?)(,?)(?:\.(\d+))?([dfg])(.*)", template)
    sign, comma, digits, kind, unit = match.groups()
    form = "g" if kind == "g" else "f"
    return f"{value:{sign}{comma}.{digits or 0}{form}}{unit.replace('%%', '%')}"
