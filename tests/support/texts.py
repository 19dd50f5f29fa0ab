"""The words of a page or a sentence, for snapshots: without markup, and without numbers."""

from __future__ import annotations

import re
from html.parser import HTMLParser


class _Words(HTMLParser):
    """Collects titles and text in the order of the document."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []

    def handle_starttag(
        self,
        tag: str,  # noqa: ARG002
        attrs: list[tuple[str, str | None]],
    ) -> None:
        """Keep the title of the element."""
        self.words += [value for name, value in attrs if name == "title" and value]

    def handle_data(self, data: str) -> None:
        """Keep the text between tags."""
        if data.strip():
            self.words.append(data.strip())


def html_words(html: str) -> list[str]:
    """Return the titles and texts of `html`, without markup."""
    parser = _Words()
    parser.feed(html)
    return parser.words


def without_numbers(text: str) -> str:
    """Return `text` with N for each number: a test asserts the numbers as fields."""
    return re.sub(r"[+-]?\b\d[\d,]*(\.\d+)?", "N", text)
