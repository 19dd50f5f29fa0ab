"""What every command shares: its options, its errors, its output."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar, cast

import click
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from compile_hud.db.queries.results import load_runs
from compile_hud.db.shared.logging import FORMATS
from compile_hud.db.shared.text import is_storable, printable, quoted
from compile_hud.db.store import Store
from compile_hud.runner.config.load import load_config
from compile_hud.runner.reporting.log_progress import LogProgress
from compile_hud.runner.reporting.terminal_progress import TerminalProgress
from compile_hud.runner.workspace import Dependencies, Workspace

_Function = TypeVar("_Function", bound=Callable[..., Any])
# Wide enough for every table: where there is no terminal, nothing is folded or cut.
_PIPE_WIDTH = 400
_GAP = 2
# Prose in a narrower column than this is hard to read.
_PROSE_WIDTH = 30

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, and nothing else.")


def with_workspace(function: _Function) -> _Function:
    """Add `--store` and `--config` and pass the Workspace they lead to as the first argument."""

    @click.option("--store", "store_url", metavar="URL", help="The store, instead of the one set.")
    @click.option(
        "--config",
        "config_path",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="The settings, instead of ./hud.toml.",
    )
    @click.pass_context
    def wrapper(
        context: click.Context,
        /,
        *args: Any,
        store_url: str | None,
        config_path: Path | None,
        **options: Any,
    ) -> Any:
        _check_texts(context)
        dependencies = context.obj if isinstance(context.obj, Dependencies) else Dependencies()
        config = load_config(config_path, env=dependencies.env)
        if store_url is not None:
            config = replace(config, store_url=as_store_url(store_url))
        return function(Workspace(config=config, dependencies=dependencies), *args, **options)

    return cast("_Function", functools.update_wrapper(wrapper, function))


def _check_texts(context: click.Context) -> None:
    """Raise UsageError where a text was typed that is no UTF-8; a path may have any bytes."""
    for param in context.command.params:
        value = context.params.get(param.name or "")
        for text in value if isinstance(value, tuple) else (value,):
            if isinstance(text, str) and not is_storable(text):
                raise click.BadParameter(
                    f"{quoted(text)} is no text: it has bytes that are no UTF-8, or a NUL"
                    " character",
                    ctx=context,
                    param=param,
                )


def gather_options(
    kind: type[Any], *, name: str, options: Sequence[Callable[[Any], Any]]
) -> Callable[[_Function], _Function]:
    """Return a decorator that adds `options` and passes what they hold as the record `name`.

    `kind` is a dataclass with a field for the parameter of each option.
    """

    def decorate(function: _Function) -> _Function:
        def wrapper(*args: Any, **values: Any) -> Any:
            record = kind(**{item.name: values.pop(item.name) for item in fields(kind)})
            return function(*args, **{name: record}, **values)

        wrapped = functools.update_wrapper(wrapper, function)
        for option in reversed(options):
            wrapped = option(wrapped)
        return cast("_Function", wrapped)

    return decorate


def log_format() -> str:
    """Return how this call of `hud` was asked to log: as `text` or as `json`."""
    context = click.get_current_context(silent=True)
    root = None if context is None else context.find_root()
    return str(root.params.get("log_format", FORMATS[0])) if root else FORMATS[0]


def new_progress(workspace: Workspace) -> TerminalProgress | LogProgress:
    """Return what tells of a run on standard error: in lines for people, or as log records."""
    if log_format() == "json":
        return LogProgress()
    return TerminalProgress(stderr(), now=workspace.dependencies.now)


def as_store_url(text: str) -> str:
    """Return `text` as a store URL; a plain path is that of a DuckDB file."""
    return text if "://" in text else f"duckdb:///{text}"


def say_when_missing(store: Store) -> bool:
    """Return whether there is no `store` yet; say so, since it may be another than was meant."""
    is_missing = store.is_missing()
    if is_missing:
        click.echo(
            f"there is no store {store.name} yet, and it reads as empty; `hud run` makes it, or"
            " name another with --store",
            err=True,
        )
    return is_missing


def say_when_empty(store: Store) -> bool:
    """Return whether `store` has no run; say so, since it may be another than was meant."""
    if say_when_missing(store):
        return True
    is_empty = not load_runs(store, limit=1)
    if is_empty:
        click.echo(f"no run in the store {store.name} yet; `hud run` makes one", err=True)
    return is_empty


def print_json(value: Any) -> None:
    """Print `value` to standard output."""
    click.echo(json.dumps(value, indent=2, allow_nan=False))


def stdout() -> Console:
    """Return a console on standard output."""
    console = Console(file=sys.stdout, highlight=False)
    return console if console.is_terminal else _piped(sys.stdout)


def stderr() -> Console:
    """Return a console on standard error."""
    console = Console(file=sys.stderr, highlight=False)
    return console if console.is_terminal else _piped(sys.stderr)


def _piped(stream: Any) -> Console:
    return Console(file=stream, highlight=False, width=_PIPE_WIDTH, color_system=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table; numbers stand at its right.

    Nothing in a column that `is_whole` is folded; one that `is_prose` is easy to read folded.
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

    Where a terminal is too narrow, the columns named in `spare` are left out, the first one
    first, until the others fit. A row is a line, whatever somebody named.
    """
    console = console or stdout()
    rows = [[_one_line(text) for text in row] for row in rows]
    widths = [_width(column, [row[place] for row in rows]) for place, column in enumerate(columns)]
    places = list(range(len(columns)))
    if console.is_terminal:
        places = _fitting(columns, widths=widths, spare=spare, limit=console.width)
    table = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    for column in (columns[place] for place in places):
        table.add_column(
            column.name,
            justify="right" if column.is_number else "left",
            overflow="fold",
            no_wrap=column.is_whole,
        )
    for row in rows:
        # As Text: rich would read square brackets as markup.
        table.add_row(*(Text(row[place]) for place in places))
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    lines = (line.rstrip() for line in captured.get().splitlines())
    console.file.write("".join(f"{line}\n" for line in lines))


def _one_line(text: str) -> str:
    """Return `text` without breaks of lines; the spaces within it stay as they are."""
    return printable(" ".join(text.splitlines()), kept="")


def _width(column: Column, cells: Sequence[str]) -> int:
    """Return how many characters `column` needs."""
    width = max(cell_len(text) for text in (column.name, *cells))
    return min(width, _PROSE_WIDTH) if column.is_prose else width


def _fitting(
    columns: Sequence[Column], *, widths: Sequence[int], spare: Sequence[str], limit: int
) -> list[int]:
    """Return the places of the columns to print, within `limit` characters if that can be."""
    places = list(range(len(columns)))
    for name in spare:
        # A column without a character needs no gap before it.
        shown = [widths[place] for place in places if widths[place]]
        if sum(shown) + _GAP * (len(shown) - 1) <= limit:
            break
        places = [place for place in places if columns[place].name != name]
    return [place for place in places if widths[place]]
