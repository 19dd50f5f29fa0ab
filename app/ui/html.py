"""HTML of tables, facts and the small parts of pages, written by templates."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from markupsafe import Markup

from compile_hud.app.ui.format import Scale, is_interval, local_moment, moment, scale_for
from compile_hud.app.ui.templates.environment import render
from compile_hud.db.records.summaries import ResultSummary

# Parts of a bar take these shades of theme.py in turn.
_NUM_SHADES = 6
# A small trend line in a table shows at least this relative range above and below the median.
_TREND_MARGIN = 0.1
# Percent of the height; the lowest number of a trend is visible and no gap.
_TREND_BASE = 8
# The styles of cells whose text is not written as one line of plain text.
_FORMS = ("coded", "whole", "revision", "symbol")
_SINGLE = "one sample has no interval"


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """A small second text in a cell."""

    text: str
    href: str = ""
    style: str = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell: a text, perhaps a link, perhaps notes under it; `style` is a class of theme.py.

    `trend` is a small line of numbers next to the text, oldest first; it needs two. In the
    style `coded`, text between backticks is code.
    """

    text: str
    href: str = ""
    title: str = ""
    style: str = ""
    notes: tuple[Note, ...] = ()
    trend: tuple[float, ...] = ()


def time_cell(
    at: datetime, *, href: str = "", style: str = "", notes: tuple[Note, ...] = ()
) -> Cell:
    """Return a point in time in the zone of the browser; the tooltip has it in UTC."""
    text, title = local_moment(at), moment(at)
    return Cell(
        text=text, href=href, style=style, notes=notes, title="" if title == text else title
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class HtmlColumn:
    """A column: its heading, the tooltip of the heading, and whether it holds numbers.

    A narrow window hides a column that `is_spare`, and shows only a few lines and no notes of one
    that `is_brief`. `href` leads to the same page in the order of
    the column; `order` is the present one, `ascending` or `descending`, "" for another.
    """

    label: str
    title: str = ""
    is_number: bool = False
    is_spare: bool = False
    is_brief: bool = False
    href: str = ""
    order: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a bar; `size` is in the unit of the whole chart.

    `style` is a class of theme.py; parts without one take turns in shades of grey.
    """

    name: str
    size: float
    style: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A bar whose parts follow one another; `whole` is its number if that is not their sum."""

    name: str
    parts: tuple[Part, ...]
    whole: float | None = None

    @property
    def size(self) -> float:
        """Return the number of the bar."""
        return sum(part.size for part in self.parts) if self.whole is None else self.whole


def chips(texts: Iterable[str], *, style: str = "") -> Markup:
    """Return short facts below a heading, each in a frame of its own.

    `style` is a class of theme.py.
    """
    return render("parts.html", "chips", texts=texts, style=style)


def heading(text: str, *, level: int = 1) -> Markup:
    """Return a heading; Streamlit's own would read Markdown in a model's name."""
    return render("parts.html", "heading", words=text, level=level)


def breadcrumb(steps: Sequence[tuple[str, str]]) -> Markup:
    """Return the way to a page: names with their addresses, an empty address for the page itself.

    A name is cut to the length of a cell.
    """
    return render("parts.html", "breadcrumb", pages=steps)


def tab_links(tabs: Sequence[tuple[str, str]]) -> Markup:
    """Return names with their addresses in a row, an empty address for the page itself."""
    return render("parts.html", "tab_links", pages=tabs)


def caption(text: str) -> Markup:
    """Return the caption of a chart or a table; text between backticks is code.

    Streamlit's own caption parses Markdown, which takes time and may misread a name.
    """
    return render("parts.html", "caption", words=text)


def note(text: str) -> Markup:
    """Return a small line of text."""
    return render("parts.html", "note", words=text)


def inline_note(text: str) -> Markup:
    """Return a small text next to a control."""
    return render("parts.html", "inline_note", words=text)


def keys_legend() -> Markup:
    """Return the effects of the keys, and the box that turns them off."""
    return render("parts.html", "keys_legend")


def command_line(text: str) -> Markup:
    """Return a command as it is typed; a click selects all of it.

    Streamlit's own box loads a highlighter first, for one line.
    """
    return render("parts.html", "command_line", command=text)


def link(text: str, href: str) -> Markup:
    """Return a link."""
    return render("parts.html", "link", words=text, href=href)


def button_link(text: str, href: str) -> Markup:
    """Return a link that looks like a button."""
    return render("parts.html", "styled_link", words=text, href=href, style="hud-button")


def table(
    columns: Sequence[HtmlColumn], rows: Iterable[Sequence[Cell]], *, label: str, style: str = ""
) -> Markup:
    """Return a table that scrolls sideways when it is too wide; `label` is for screen readers.

    `style` is a class of theme.py: in `lines` the notes are next to their text.
    """
    return _table(columns, [(None, rows)], label=label, style=style)


def sectioned_table(
    columns: Sequence[HtmlColumn],
    rows: Sequence[Sequence[Cell]],
    *,
    sections: Iterable[tuple[str, int]],
    label: str,
    style: str = "",
) -> Markup:
    """Return a table in which a title stands above each section; `sections` count their rows."""
    left = iter(rows)
    own = [(title, list(islice(left, num_rows))) for title, num_rows in sections]
    return _table(columns, own, label=label, style=style)


def long_table(
    columns: Sequence[HtmlColumn],
    rows: Sequence[Sequence[Cell]],
    *,
    label: str,
    num_shown: int,
    rest: str,
) -> Markup:
    """Return a table of the first rows; the others are behind a line, `12 further kernels`.

    `rest` is the text of that line after the number.
    """
    first, others = rows[:num_shown], rows[num_shown:]
    shown = table(columns, first, label=label)
    if not others:
        return shown
    return shown + collapsible(
        f"{len(others)} {rest}", table(columns, others, label=f"further {label}")
    )


def _table(
    columns: Sequence[HtmlColumn],
    sections: Iterable[tuple[str | None, Iterable[Sequence[Cell]]]],
    *,
    label: str,
    style: str,
) -> Markup:
    styles = [_column_style(column) for column in columns]
    return render(
        "table.html",
        "table",
        columns=list(zip(columns, styles, strict=True)),
        sections=[(title, _shown_rows(rows, styles)) for title, rows in sections],
        label=label,
        style=style,
    )


def _shown_rows(
    rows: Iterable[Sequence[Cell]], styles: Sequence[str]
) -> Iterator[list[tuple[Cell, str, str, str]]]:
    """Yield the cells of each row with their classes, form and trend line."""
    for row in rows:
        yield [
            (
                cell,
                *_classes(style, cell.style, bool(cell.trend)),
                _outline(cell.trend) if cell.trend else "",
            )
            for cell, style in zip(row, styles, strict=True)
        ]


@functools.lru_cache(maxsize=1024)
def _classes(column: str, style: str, has_trend: bool) -> tuple[str, str]:
    """Return the classes of a cell, and the form of its text."""
    # A browser finds a named cell sooner than one that holds a line.
    return " ".join(filter(None, (column, style, "trend" if has_trend else ""))), _form(style)


def _form(style: str) -> str:
    styles = style.split()
    return " ".join([name for name in _FORMS if name in styles]) if styles else ""


def _column_style(column: HtmlColumn) -> str:
    names = (
        ("number", column.is_number),
        ("spare", column.is_spare),
        ("brief", column.is_brief),
    )
    return " ".join(name for name, is_so in names if is_so)


def _outline(values: Sequence[float], *, least_range: float = _TREND_MARGIN) -> str:
    """Return a line of `values` as the corners of a polygon; "" for fewer than two values.

    Above and below the median it shows at least the relative `least_range`.
    """
    numbers = [value for value in values if math.isfinite(value)]
    if len(numbers) < 2:
        return ""
    middle = statistics.median(numbers)
    # A change below the relevance floor must not look large.
    margin = least_range * abs(middle)
    low, high = min(middle - margin, *numbers), max(middle + margin, *numbers)
    share = [(high - value) / ((high - low) or 1.0) for value in numbers]
    room, lefts = 100 - _TREND_BASE, _lefts(len(numbers))
    return ", ".join(f"{left} {room * part:.0f}%" for left, part in zip(lefts, share, strict=True))


@functools.lru_cache(maxsize=64)
def _lefts(number: int) -> tuple[str, ...]:
    """Return the distances of `number` points of a line from its left end."""
    return tuple(f"{100 / (number - 1) * index:.1f}%" for index in range(number))


def small_trend(values: Sequence[float], *, least_range: float) -> Markup:
    """Return a line of `values` as the outline of a box; "" for fewer than two values.

    Above and below the median it shows at least the relative `least_range`.
    """
    return render("table.html", "trend", line=_outline(values, least_range=least_range))


def key_values(pairs: Iterable[tuple[str, Cell]]) -> Markup:
    """Return names with their values, as many in a row as fit."""
    shown = ((name, cell, _form(cell.style), _outline(cell.trend)) for name, cell in pairs)
    return render("table.html", "facts", pairs=shown)


def metric_tiles(cards: Iterable[tuple[str, Cell]]) -> Markup:
    """Return headline numbers, each with its name above and its notes below."""
    return render("table.html", "tiles", cards=cards)


def stack(bars: Sequence[Bar], *, unit: str, label: str) -> Markup:
    """Return bars of one scale, each divided into its parts; every part has its number as text."""
    longest = max((sum(part.size for part in bar.parts) for bar in bars), default=0.0) or 1.0
    order = {part.name: part.style for bar in bars for part in bar.parts}
    shades = {
        name: style or f"p{index % _NUM_SHADES}"
        for index, (name, style) in enumerate(order.items())
    }
    scale = scale_for(unit, [longest])
    return render(
        "bars.html", "stack", bars=bars, shades=shades, longest=longest, scale=scale, label=label
    )


def two_columns(wide: Markup, narrow: Markup) -> Markup:
    """Return two pieces of HTML side by side, stacked in a narrow window."""
    return render("parts.html", "two_columns", wide=wide, narrow=narrow)


def grid(pieces: Iterable[tuple[str, Markup]]) -> Markup:
    """Return pieces of HTML, each under its name, as many in a row as fit."""
    return render("parts.html", "grid", pieces=pieces)


def collapsible(summary: str, content: Markup) -> Markup:
    """Return `content` behind a line that opens it."""
    return render("parts.html", "collapsible", summary=summary, content=content)


def banner(*texts: str, style: str = "") -> Markup:
    """Return a quiet frame with a line for each text; text between backticks is code."""
    return render("parts.html", "banner", texts=texts, style=style)


WARNINGS_COLUMN = HtmlColumn(label="warnings", is_number=True)


def interval_cell(low: float, high: float, *, scale: Scale, num_samples: int) -> Cell:
    """Return an interval in `scale`, `-` for none."""
    title = _SINGLE if num_samples == 1 and not is_interval(low, high) else ""
    return Cell(text=scale.interval(low, high) or "-", title=title, style="quiet")


def interval_notes(low: float, high: float, *, scale: Scale) -> tuple[Note, ...]:
    """Return an interval in `scale` as the note below its median; no note without one."""
    interval = scale.interval(low, high)
    return (Note(text=interval),) if interval else ()


def warnings_cell(result: ResultSummary) -> Cell:
    """Return the number of warnings of a result; the tooltip has their texts."""
    number = len(result.warnings)
    return Cell(
        text=str(number) if number else "-",
        style="" if number else "quiet",
        title="\n".join(warning.text for warning in result.warnings),
    )
