"""HTML of tables and facts. Every text of the store is escaped here, and only here."""

from __future__ import annotations

import html
import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from compile_hud.app.ui.format import Scale, is_interval, local_moment, moment, scale_for
from compile_hud.db.records.summaries import ResultSummary
from compile_hud.db.shared.text import printable, shortened

# A name of 10 kB is cut on the page and in its tooltip; the page of its case has it whole. The
# title of an event has a case, a commit and a machine, so it gets more characters.
_TEXT_LIMIT = 240
_TITLE_LIMIT = 600
# These are our own texts and commands.
_LONG_TEXT = 2000
# Parts of a bar take these shades of theme.py in turn.
_NUM_SHADES = 6
# A small trend line in a table shows at least this relative range above and below the median.
_TREND_MARGIN = 0.1
# Percent of the height; the lowest number of a trend is visible and no gap.
_TREND_BASE = 8
# Characters after which a long word may be broken, by the style of its cell.
_BREAKS = {"revision": "+@", "symbol": "_:/"}
# A narrower part has no room for its number; its tooltip has it.
_LABELLED_SHARE = 0.06
_PERCENT = re.compile(r"(?<=\d) %")
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


def escaped(text: str, *, limit: int = _TEXT_LIMIT) -> str:
    """Return `text` cut to `limit` characters and escaped, `?` for unprintable characters."""
    # A character that reverses the direction of writing would reverse everything after it too.
    return html.escape(printable(shortened(text, limit=limit)), quote=True)


def with_code(text: str, *, limit: int = _TEXT_LIMIT) -> str:
    """Return `text` escaped; text between backticks is code."""
    parts = escaped(text, limit=limit).split("`")
    if len(parts) % 2 == 0:
        # The last backtick has no partner.
        parts[-2:] = ["`".join(parts[-2:])]
    return "".join(
        f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts)
    )


def chips(texts: Iterable[str], *, style: str = "") -> str:
    """Return short facts below a heading, each in a frame of its own.

    `style` is a class of theme.py.
    """
    items = "".join(f"<span>{escaped(text)}</span>" for text in texts if text)
    return f'<div class="{f"hud-chips {style}".strip()}">{items}</div>'


def heading(text: str, *, level: int = 1) -> str:
    """Return a heading; Streamlit's own would read Markdown in a model's name."""
    # A percent sign stays on the line of its number.
    shown = _PERCENT.sub("&nbsp;%", escaped(text))
    return f'<div class="hud-h{level}" role="heading" aria-level="{level}">{shown}</div>'


def breadcrumb(steps: Sequence[tuple[str, str]]) -> str:
    """Return the way to a page: names with their addresses, an empty address for the page itself.

    A name is cut to the length of a cell.
    """
    return f'<nav class="hud-path" aria-label="Breadcrumb"><ol>{_page_items(steps)}</ol></nav>'


def tab_links(tabs: Sequence[tuple[str, str]]) -> str:
    """Return names with their addresses in a row, an empty address for the page itself."""
    items = _page_items(tabs)
    return f'<nav class="hud-tabs" aria-label="Pages of the case"><ul>{items}</ul></nav>'


def _page_items(pages: Iterable[tuple[str, str]]) -> str:
    return "".join(
        f"<li>{link(text, href)}</li>" if href else f'<li aria-current="page">{escaped(text)}</li>'
        for text, href in pages
    )


def caption(text: str) -> str:
    """Return the caption of a chart or a table; text between backticks is code.

    Streamlit's own caption parses Markdown, which takes time and may misread a name.
    """
    return f'<div class="hud-caption">{with_code(text, limit=_LONG_TEXT)}</div>'


def command_line(text: str) -> str:
    """Return a command as it is typed; a click selects all of it.

    Streamlit's own box loads a highlighter first, for one line.
    """
    words = " ".join(f"<span>{escaped(word, limit=_LONG_TEXT)}</span>" for word in text.split(" "))
    return f'<pre class="hud-command">{words}</pre>'


def link(text: str, href: str) -> str:
    """Return an escaped link."""
    return _anchor(escaped(text), href)


def button_link(text: str, href: str) -> str:
    """Return a link that looks like a button."""
    return f'<a class="hud-button" href="{html.escape(href, quote=True)}">{escaped(text)}</a>'


def same_page_link(text: str, href: str) -> str:
    """Return a link to another state of the page, which follows it without loading again.

    The page needs `follow_links` of app/ui/scripts.py.
    """
    return f'<a class="hud-here" href="{html.escape(href, quote=True)}">{escaped(text)}</a>'


def table(
    columns: Sequence[HtmlColumn], rows: Iterable[Sequence[Cell]], *, label: str, style: str = ""
) -> str:
    """Return a table that scrolls sideways when it is too wide; `label` is for screen readers.

    `style` is a class of theme.py: in `lines` the notes are next to their text.
    """
    body = "".join(_row(row, columns) for row in rows)
    return _table(columns, f"<tbody>{body}</tbody>", label=label, style=style)


def sectioned_table(
    columns: Sequence[HtmlColumn],
    rows: Sequence[Sequence[Cell]],
    *,
    sections: Iterable[tuple[str, int]],
    label: str,
    style: str = "",
) -> str:
    """Return a table in which a title stands above each section; `sections` count their rows."""
    bodies, start = [], 0
    for title, num_rows in sections:
        own = "".join(_row(row, columns) for row in rows[start : start + num_rows])
        head = f'<th colspan="{len(columns)}" scope="rowgroup">{escaped(title)}</th>'
        bodies.append(f'<tbody><tr class="section">{head}</tr>{own}</tbody>')
        start += num_rows
    return _table(columns, "".join(bodies), label=label, style=style)


def long_table(
    columns: Sequence[HtmlColumn],
    rows: Sequence[Sequence[Cell]],
    *,
    label: str,
    num_shown: int,
    rest: str,
) -> str:
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


def _table(columns: Sequence[HtmlColumn], bodies: str, *, label: str, style: str = "") -> str:
    head = "".join(_heading(column) for column in columns)
    names = f"hud {style}".strip()
    # A scroll container needs the focus for the arrow keys to move it; a link in it suffices.
    focus = "" if "<a " in bodies else f' tabindex="0" role="group" aria-label="{escaped(label)}"'
    return (
        f'<div class="hud-scroll"{focus}><table class="{names}" aria-label="{escaped(label)}">'
        f"<thead><tr>{head}</tr></thead>{bodies}</table></div>"
    )


def key_values(pairs: Iterable[tuple[str, Cell]]) -> str:
    """Return names with their values, as many in a row as fit."""
    items = "".join(
        f"<div><dt>{escaped(name)}</dt><dd{_title(value.title)}>{_content(value)}</dd></div>"
        for name, value in pairs
    )
    return f'<dl class="hud-facts">{items}</dl>'


def metric_tiles(cards: Iterable[tuple[str, Cell]]) -> str:
    """Return headline numbers, each with its name above and its notes below."""
    items = "".join(
        f'<div class="hud-tile"><div class="name">{escaped(name)}</div>'
        f'<div class="value {value.style}"{_title(value.title)}>{escaped(value.text)}</div>'
        f"{_notes(value.notes)}</div>"
        for name, value in cards
    )
    return f'<div class="hud-tiles">{items}</div>'


def stack(bars: Sequence[Bar], *, unit: str, label: str) -> str:
    """Return bars of one scale, each divided into its parts; every part has its number as text."""
    longest = max((sum(part.size for part in bar.parts) for bar in bars), default=0.0) or 1.0
    scale = scale_for(unit, [longest])
    order = {part.name: part.style for bar in bars for part in bar.parts}
    shades = {
        name: style or f"p{index % _NUM_SHADES}"
        for index, (name, style) in enumerate(order.items())
    }
    items = "".join(
        f'<div class="name">{escaped(bar.name)}</div>'
        f'<div class="bar">{_parts(bar, shades, longest=longest, scale=scale)}</div>'
        f'<div class="whole">{escaped(scale.text(_whole(bar)))}</div>'
        for bar in bars
    )
    legend = "".join(
        f'<span><i class="{shades[name]}"></i>{escaped(name)}</span>' for name in order
    )
    return (
        f'<div class="hud-stack" role="img" aria-label="{escaped(label)}">{items}</div>'
        f'<div class="hud-legend">{escaped(label)}: {legend}</div>'
    )


def _whole(bar: Bar) -> float:
    return sum(part.size for part in bar.parts) if bar.whole is None else bar.whole


def _parts(bar: Bar, shades: Mapping[str, str], *, longest: float, scale: Scale) -> str:
    return "".join(
        f'<div class="{shades[part.name]}" style="width:{part.size / longest:.2%}"'
        f"{_title(f'{part.name}: {scale.text(part.size)}')}>"
        f"{escaped(scale.number(part.size)) if part.size > _LABELLED_SHARE * longest else ''}</div>"
        for part in bar.parts
    )


def two_columns(wide: str, narrow: str) -> str:
    """Return two pieces of HTML side by side, stacked in a narrow window."""
    return f'<div class="hud-beside"><div>{wide}</div><div>{narrow}</div></div>'


def grid(pieces: Iterable[tuple[str, str]]) -> str:
    """Return pieces of HTML, each under its name, as many in a row as fit."""
    items = "".join(
        f'<div><div class="name">{escaped(name)}</div>{content}</div>' for name, content in pieces
    )
    return f'<div class="hud-abreast">{items}</div>'


def collapsible(summary: str, content: str) -> str:
    """Return `content` (HTML) behind a line that opens it."""
    return f'<details class="hud"><summary>{escaped(summary)}</summary>{content}</details>'


def banner(*texts: str, style: str = "") -> str:
    """Return a quiet frame with a line for each text; text between backticks is code."""
    lines = (with_code(text, limit=_TITLE_LIMIT) for text in texts)
    content = "".join(f'<div class="hud-line">{line}</div>' for line in lines)
    return f'<div class="hud-notice {style}" role="status">{content}</div>'


def _heading(column: HtmlColumn) -> str:
    named = _class(_column_style(column))
    content = escaped(column.label)
    if column.href:
        content = same_page_link(column.label, column.href)
    order = f' aria-sort="{column.order}"' if column.order else ""
    return f'<th scope="col"{named}{order}{_title(column.title)}>{content}</th>'


def _row(row: Sequence[Cell], columns: Sequence[HtmlColumn]) -> str:
    cells = "".join(_cell(cell, column) for cell, column in zip(row, columns, strict=True))
    return f"<tr>{cells}</tr>"


def _cell(cell: Cell, column: HtmlColumn) -> str:
    content = _content(cell)
    # A browser finds a named cell sooner than one that holds a line.
    line = "trend" if cell.trend else ""
    named = _class(" ".join(filter(None, (_column_style(column), cell.style, line))))
    return f"<td{named}{_title(cell.title)}>{content}</td>"


def _column_style(column: HtmlColumn) -> str:
    names = (
        ("number", column.is_number),
        ("spare", column.is_spare),
        ("brief", column.is_brief),
    )
    return " ".join(name for name, is_so in names if is_so)


def _content(cell: Cell) -> str:
    styles = cell.style.split()
    # A text that is to be read whole has no link.
    is_whole = "whole" in styles
    shown = with_code if "coded" in styles else escaped
    text = shown(cell.text, limit=_TITLE_LIMIT if is_whole else _TEXT_LIMIT)
    for sign in "".join(_BREAKS.get(style, "") for style in styles):
        text = text.replace(sign, f"{sign}<wbr>")
    if cell.href and not is_whole:
        text = _anchor(text, cell.href)
    return f'{small_trend(cell.trend)}<div class="text">{text}</div>{_notes(cell.notes)}'


def small_trend(values: Sequence[float], *, least_range: float = _TREND_MARGIN) -> str:
    """Return a line of `values` as the outline of a box; "" for fewer than two values.

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
    step, room = 100 / (len(numbers) - 1), 100 - _TREND_BASE
    line = ", ".join(f"{index * step:.1f}% {room * part:.0f}%" for index, part in enumerate(share))
    return f'<div class="hud-trend" style="clip-path:polygon({line}, 100% 100%, 0% 100%)"></div>'


def _notes(notes: Iterable[Note]) -> str:
    return "".join(
        f'<div class="{note.style}">{_linked(note.text, note.href)}</div>' for note in notes
    )


def _anchor(content: str, href: str) -> str:
    return f'<a href="{html.escape(href, quote=True)}">{content}</a>'


def _linked(text: str, href: str) -> str:
    return link(text, href) if href else escaped(text)


def _class(style: str) -> str:
    # The browser checks every attribute of every cell, an empty one too.
    return f' class="{style}"' if style else ""


def _title(text: str) -> str:
    return f' title="{escaped(text, limit=_TITLE_LIMIT)}"' if text else ""


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
