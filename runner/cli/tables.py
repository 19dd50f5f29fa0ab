"""Tables on the terminal.

Functions import rich, which takes as long as click: most commands print JSON or a line.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from compile_hud.db.shared.text import printable, shortened
from compile_hud.runner.cli.echo import safe_text

if TYPE_CHECKING:
    from rich.console import Console, RenderHook

# Wide enough for every table: where there is no terminal, nothing is folded or cut.
_PIPE_WIDTH = 400
_GAP = 2
# Prose in a narrower column than this is hard to read.
_PROSE_WIDTH = 30
# Names have some ten characters and cases a hundred; a longer one would fill a screen.
MAX_CELL = 160
# The cause of an alert has up to three hundred characters.
MAX_PROSE = 400


def stdout() -> Console:
    """Return a console on standard output."""
    return _console(sys.stdout)


def stderr() -> Console:
    """Return a console on standard error."""
    return _console(sys.stderr)


def _console(stream: Any) -> Console:
    from rich.console import Console

    console = Console(file=stream, highlight=False)
    if not console.is_terminal:
        console = Console(file=stream, highlight=False, width=_PIPE_WIDTH, color_system=None)
    console.push_render_hook(cast("RenderHook", _EscapedText()))
    return console


class _EscapedText:
    """A hook of rich that escapes the text of lines; `print_table` escapes that of cells."""

    def process_renderables(self, renderables: list[Any]) -> list[Any]:
        """Return `renderables` without what a terminal would execute."""
        from rich.text import Text

        for item in renderables:
            if isinstance(item, Text):
                # The styles of a text are by position, and each character stays one.
                item.plain = safe_text(item.plain)
        return renderables


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table; numbers are right-aligned.

    The cells of a column that `is_whole` are never folded; one that `is_prose` folds well.
    """

    name: str
    is_number: bool = False
    is_whole: bool = False
    is_prose: bool = False


def print_table(
    columns: Sequence[Column],
    *,
    rows: Sequence[Sequence[str]],
    spare: Sequence[str] = (),
    console: Console | None = None,
) -> None:
    """Print a table without lines, as `ls -l` would.

    On a narrow terminal, the columns in `spare` are omitted, the first one first, until the others
    fit. A row is always one line, for any name, and a cell that is too long ends with `...`.
    """
    from rich.table import Table
    from rich.text import Text

    console = console or stdout()
    rows = [
        [_cell(text, column=column) for column, text in zip(columns, row, strict=True)]
        for row in rows
    ]
    widths = [_width(column, [row[index] for row in rows]) for index, column in enumerate(columns)]
    indices = list(range(len(columns)))
    if console.is_terminal:
        indices = _fitting(columns, widths=widths, spare=spare, limit=console.width)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for column in (columns[index] for index in indices):
        table.add_column(
            column.name,
            justify="right" if column.is_number else "left",
            overflow="fold",
            no_wrap=column.is_whole,
        )
    for row in rows:
        # rich would parse square brackets in a string as markup, but not in a Text.
        table.add_row(*(Text(row[index]) for index in indices))
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    lines = (line.rstrip() for line in captured.get().splitlines())
    console.file.write("".join(f"{line}\n" for line in lines))


def _cell(text: str, *, column: Column) -> str:
    """Return `text` for one line of `column`; the spaces within it stay as they are."""
    line = printable(" ".join(text.splitlines()), allowed="")
    return shortened(line, limit=MAX_PROSE if column.is_prose else MAX_CELL)


def _width(column: Column, cells: Sequence[str]) -> int:
    """Return the number of characters that `column` needs."""
    from rich.cells import cell_len

    width = max(cell_len(text) for text in (column.name, *cells))
    return min(width, _PROSE_WIDTH) if column.is_prose else width


def _fitting(
    columns: Sequence[Column], *, widths: Sequence[int], spare: Sequence[str], limit: int
) -> list[int]:
    """Return the indices of the columns to print, within `limit` characters if possible."""
    indices = list(range(len(columns)))
    for name in spare:
        # A column without a character needs no gap before it.
        shown = [widths[index] for index in indices if widths[index]]
        if sum(shown) + _GAP * (len(shown) - 1) <= limit:
            break
        indices = [index for index in indices if columns[index].name != name]
    return [index for index in indices if widths[index]]
