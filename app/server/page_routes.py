"""The routes of the pages: Streamlit's document, with the address of its server and our style
sheet.

Without the address, a page at `/run` looks for its server at `/run/_stcore/...` first. Two requests
get a 404, the console of every page shows two errors, and drawing waits for them. Without the style
sheet, elements that are drawn early jump when it arrives.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path

import streamlit
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from compile_hud.app.ui.templates.environment import render
from compile_hud.app.ui.theme import style_sheet

_STREAMLITS = Path(streamlit.__file__).parent / "static" / "index.html"
# Nearly every page draws these. Streamlit loads their scripts late and draws a grey bar until then;
# the page below jumps when they arrive.
_DRAWN_EVERYWHERE = ("Html", "Selectbox", "BidiComponent")
# The imports of a script; a browser need not load those of a script that it preloads.
_IMPORTED = re.compile(r'(?:\bfrom|\bimport)"\./([\w.-]+\.js)"')


def shell_routes(paths: Sequence[str]) -> list[Route]:
    """Return the routes of the pages with these paths."""
    return [Route(f"/{path}", send_shell, methods=["GET", "HEAD"]) for path in paths]


def send_shell(_request: Request) -> Response:
    """Return the document that every page begins as."""
    return HTMLResponse(_shell(), headers={"Cache-Control": "no-cache"})


@functools.cache
def _shell() -> str:
    page = _STREAMLITS.read_text(encoding="utf-8")
    preloaded = [name for name in _preloaded_scripts() if name not in page]
    # The style sheet is in the body: of two rules of equal strength the later one counts, and
    # Streamlit adds its own to the head. Streamlit shows its own name until the page sets a title.
    style = Markup(style_sheet())  # noqa: S704  it consists of constants
    for anchor, content in (
        ("<title>Streamlit</title>", render("pages.html", "title")),
        ("<body>", render("pages.html", "body", style_sheet=style)),
        ("</head>", render("pages.html", "head_end", preloaded=preloaded)),
        ("<head>", render("pages.html", "head")),
    ):
        page = page.replace(anchor, content, 1)
    return page


def _preloaded_scripts() -> list[str]:
    """Return the scripts of the elements that are drawn everywhere, and their imports."""
    folder = _STREAMLITS.parent / "static" / "js"
    names = [path.name for name in _DRAWN_EVERYWHERE for path in folder.glob(f"{name}.*.js")]
    for name in names:
        imported = _IMPORTED.findall((folder / name).read_text(encoding="utf-8"))
        names += [script for script in imported if script not in names]
    return names
