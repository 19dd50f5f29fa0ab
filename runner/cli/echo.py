"""Everything that `hud` prints but tables, and the escaping of all of it.

Names, reasons and facts come from files, models and other machines. A terminal would execute the
control characters in them, and half of a surrogate pair has no bytes in any encoding.
"""

from __future__ import annotations

import io
import sys

import click

from compile_hud.db.shared.text import printable

_ALLOWED = "\n\t"


def echo(text: str = "", *, err: bool = False, nl: bool = True) -> None:
    """Print `text` to standard output or error, with `?` for each unprintable character."""
    click.echo(safe_text(text), err=err, nl=nl)


def print_document(text: str) -> None:
    """Print a document for a program, unchanged but for characters without bytes."""
    click.echo(text.encode(errors="backslashreplace"), nl=False)


def safe_text(text: str) -> str:
    """Return `text` without what a terminal would execute; lines and tabs stay."""
    return printable(text, allowed=_ALLOWED)


def escape_unencodable() -> None:
    """Let both streams write `\\u2581` for a character that the terminal's encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
