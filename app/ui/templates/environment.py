"""The templates of all HTML: Jinja2 macros that escape each value. Markup is written only there.

A text passes the filter `text`, which cuts it and replaces unprintable characters; then autoescape
escapes it. Only `Markup`, the result of a macro, passes unescaped.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from itertools import zip_longest
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.ext import Extension
from jinja2.lexer import TOKEN_DATA, Token, TokenStream
from markupsafe import Markup, escape

from compile_hud.db.shared.text import printable, shortened

# A name of 10 kB is cut on the page and in its tooltip; the page of its case has it whole.
TEXT_LIMIT = 240
# The title of an event has a case, a commit and a machine, so it gets more characters.
SENTENCE_LIMIT = 600
# Our own texts and commands, and messages of errors.
LONG_LIMIT = 2000
# A line break next to a tag or an expression is layout of the template, any other one is a space.
_LAYOUT = re.compile(r"(?:\A|(?<=>))\s*\n\s*|\s*\n\s*(?=<|\Z)")
_LINE_BREAK = re.compile(r"\s*\n\s*")
# Characters after which a long word may be broken, by its form.
_BREAKS = {
    form: str.maketrans({sign: f"{sign}<wbr>" for sign in signs})
    for form, signs in (("revision", "+@"), ("symbol", "_:/"))
}
_PERCENT = re.compile(r"(?<=\d) %")


def render(template: str, macro: str, /, **values: object) -> Markup:
    """Return the HTML of a macro in the file `template`; `values` are its arguments."""
    return _macro(template, macro)(**values)


def compile_all() -> None:
    """Compile every template: the first page that uses one would wait for it."""
    for name in environment().list_templates(extensions=["html"]):
        environment().get_template(name)


def text(value: str, limit: int = TEXT_LIMIT) -> str:
    """Return `value` cut to `limit` characters, with `?` for unprintable characters."""
    # A character that reverses the direction of writing would reverse everything after it too.
    return printable(shortened(value, limit=limit))


def _coded(value: str) -> Iterator[tuple[str, str | None]]:
    """Return the parts of a text outside and inside of backticks, in pairs."""
    parts = value.split("`")
    if len(parts) % 2 == 0:
        # The last backtick has no partner.
        parts[-2:] = ["`".join(parts[-2:])]
    return zip_longest(parts[::2], parts[1::2])


def _unbroken(value: str) -> str:
    """Return a text whose percent signs stay on the line of their number."""
    return _PERCENT.sub("\N{NO-BREAK SPACE}%", value)


def _breakable(value: str, form: str) -> str:
    """Return a long word that a line may break after some of its characters, by its form."""
    return escape(value).translate(_BREAKS[form])


class _Layout(Extension):
    """Drops the indentation of templates, which would be text of the page."""

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        for token in stream:
            if token.type == TOKEN_DATA:
                joined = _LINE_BREAK.sub(" ", _LAYOUT.sub("", token.value))
                yield Token(token.lineno, TOKEN_DATA, joined)
            else:
                yield token


@functools.cache
def environment() -> Environment:
    """Return the environment that compiles each template once in a process."""
    result = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        loader=FileSystemLoader(Path(__file__).parent),
        auto_reload=False,
        extensions=[_Layout],
    )
    result.filters |= {
        "text": text,
        "sentence": functools.partial(text, limit=SENTENCE_LIMIT),
        "long_text": functools.partial(text, limit=LONG_LIMIT),
        "coded": _coded,
        "unbroken": _unbroken,
        "breakable": _breakable,
    }
    return result


@functools.cache
def _macro(template: str, name: str) -> Callable[..., Markup]:
    macro: Callable[..., Markup] = getattr(environment().get_template(template).module, name)
    return macro
