"""Elements of a page of AppTest as text."""

from __future__ import annotations

import html
import json
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

from tests.support.pages.table_cells import cell_text, page_of

if TYPE_CHECKING:
    from streamlit.testing.v1 import AppTest

# The rule of a caption; what a chart shows is in its drawn legend.
MAX_TEXT_WORDS = 25
# Elements without an end tag.
_VOID = {"br", "hr", "img", "input", "link", "meta", "wbr"}


def html_of(page: AppTest) -> str:
    """Return all HTML that the page's own code wrote, without the style sheet.

    Optional line breaks in words are removed.
    """
    bodies = "\n".join(str(element.proto.body) for element in page.get("html"))
    return bodies.replace("<wbr>", "")


def text_of(page: AppTest) -> str:
    """Return the visible text: words of the HTML, of tables and of code."""
    parser = _Words()
    parser.feed(html_of(page))
    cells = [text for frame in page.dataframe for row in _rows_of(frame) for text in row]
    words = [*parser.words, *cells, *(item.value for item in page.code)]
    return re.sub(r"\s+", " ", " ".join(words))


def visible_text(answer: str) -> str:
    """Return the visible text of a whole page of HTML."""
    parser = _Words()
    parser.feed(re.sub(r"<(style|script)\b.*?</\1>", "", answer, flags=re.DOTALL))
    return re.sub(r"\s+", " ", " ".join(parser.words)).strip()


def commands_of(page: AppTest) -> list[str]:
    """Return the commands that the page shows for typing."""
    matches = re.findall(r'<pre class="hud-command">(.*?)</pre>', html_of(page), re.DOTALL)
    return [html.unescape(re.sub(r"</?span>", "", text)) for text in matches]


def markdown_of(page: AppTest) -> str:
    """Return the texts that Streamlit reads as Markdown: labels and headings of tables."""
    values = [item.value for kind in ("caption", "markdown") for item in page.get(kind)]
    for kind in ("expander", "selectbox", "text_input"):
        values += [item.proto.label for item in page.get(kind)]
    for frame in page.dataframe:
        columns = json.loads(frame.proto.columns or "{}")
        values += [str(column.get("help", "")) for column in columns.values()]
    return "\n".join(map(str, values))


def links_of(page: AppTest) -> list[str]:
    """Return the targets of the links in the page's tables and texts, without its buttons."""
    parser = _Words()
    parser.feed(re.sub(r'<a class="hud-button".*?</a>', "", html_of(page)))
    return parser.links + [
        page_of(address)
        for frame in page.dataframe
        for name, column in _columns_of(frame).items()
        if column["type_config"]["type"] == "link"
        for address in frame.value[name].dropna()
    ]


def link_buttons_of(page: AppTest) -> dict[str, str]:
    """Return the targets of the links that look like buttons, by text."""
    matches = re.findall(r'<a class="hud-button" href="([^"]*)">(.*?)</a>', html_of(page))
    return {html.unescape(text): html.unescape(href) for href, text in matches}


def texts_of_rows(page: AppTest, label: str) -> list[list[str]]:
    """Return the texts of the cells of the table with this label, without the heading.

    Of a table of Streamlit, all columns have a text, also those that its menu alone shows.
    """
    for frame in page.dataframe:
        if frame.proto.alt == label:
            return _rows_of(frame)
    parser = _Rows(label)
    parser.feed(html_of(page))
    return [row for row in parser.rows if row]


def texts_of(page: AppTest, *kinds: str) -> list[str]:
    """Return the texts of the elements of these kinds, such as `notice` or `empty`, in order."""
    parser = _Elements({f"hud-{kind}" for kind in kinds})
    parser.feed(html_of(page))
    return [re.sub(r"\s+", " ", " ".join(words)).strip() for words in parser.texts]


def too_long_texts(page: AppTest) -> list[str]:
    """Return the captions and the lines of banners with more words than a text may have."""
    texts = texts_of(page, "caption", "line")
    return [text for text in texts if num_words(text) > MAX_TEXT_WORDS]


def num_words(text: str) -> int:
    """Return the number of words of `text`; names between commas count as one word."""
    words = re.sub(r"\S+(?:, \S+){2,}", "names", text).split()
    return sum(any(sign.isalnum() for sign in word) for word in words)


def headings_of(page: AppTest, label: str) -> list[str]:
    """Return the headings of the columns of the table with this label."""
    for frame in page.dataframe:
        if frame.proto.alt == label:
            return list(_columns_of(frame))
    parser = _Rows(label, tag="th")
    parser.feed(html_of(page))
    return parser.rows[0]


def _columns_of(frame: Any) -> dict[str, Any]:
    columns = json.loads(frame.proto.columns or "{}")
    return {name: column for name, column in columns.items() if name in frame.value}


def _rows_of(frame: Any) -> list[list[str]]:
    kinds = [column["type_config"] for column in _columns_of(frame).values()]
    return [
        [cell_text(value, kind) for value, kind in zip(row, kinds, strict=True)]
        for row in frame.value[list(_columns_of(frame))].itertuples(index=False)
    ]


def cells_of_rows(page: AppTest, label: str) -> list[dict[str, str]]:
    """Return the cells of each row of the table with this label by their headings."""
    headings = headings_of(page, label)
    return [dict(zip(headings, row, strict=True)) for row in texts_of_rows(page, label)]


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.links.append(dict(attrs).get("href") or "")

    def handle_data(self, data: str) -> None:
        self.words.append(data)


class _Elements(HTMLParser):
    """Collects the words of each element that has one of the classes."""

    def __init__(self, classes: set[str]) -> None:
        super().__init__()
        self.texts: list[list[str]] = []
        self._classes = classes
        # The name of each element that is open, and the words that it collects.
        self._open: list[tuple[str, list[str] | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _VOID:
            return
        words: list[str] | None = None
        if self._classes & set((dict(attrs).get("class") or "").split()):
            words = []
            self.texts.append(words)
        self._open.append((tag, words))

    def handle_endtag(self, tag: str) -> None:
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        for _, words in self._open:
            if words is not None:
                words.append(data)


class _Rows(HTMLParser):
    """Collects the rows of one table, without those of tables within its cells."""

    def __init__(self, label: str, *, tag: str = "td") -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._label = label
        self._tag = tag
        # A boolean for each open table, outermost first: is it the requested one?
        self._tables: list[bool] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self._tables.append(dict(attrs).get("aria-label") == self._label)
        if self._is_inside and tag == "tr":
            self.rows.append([])
        if self._is_inside and tag == self._tag:
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "table":
            self._tables.pop()

    def handle_data(self, data: str) -> None:
        if self._is_inside and self.rows and self.rows[-1]:
            self.rows[-1][-1] = f"{self.rows[-1][-1]} {data}".strip()

    @property
    def _is_inside(self) -> bool:
        return bool(self._tables) and self._tables[-1]
