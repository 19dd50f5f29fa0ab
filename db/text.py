"""Text that somebody gave, without what would steer a terminal that prints it."""

from __future__ import annotations


def printable(text: str, *, kept: str = "\n") -> str:
    """Return `text` with `?` for each sign that cannot be printed, those in `kept` aside."""
    return "".join(sign if sign.isprintable() or sign in kept else "?" for sign in text)


def one_line(text: str) -> str:
    """Return `text` as one line that can be printed, with single spaces between its words."""
    return printable(" ".join(text.split()))
