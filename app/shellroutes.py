"""The routes of the pages: the document of Streamlit, told where its server is.

Left alone, a page at `/run` looks for its server at `/run/_stcore/...` first: two requests that are
answered 404, two errors on the console of every page, and a wait for them before anything is drawn.
And it has the style sheet: what is drawn before that is there jumps when it comes. The scripts of
what the page draws are loaded and run while the server still works on what is to be drawn.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import streamlit
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from app.theme import STYLE_SHEET

_STREAMLITS = Path(streamlit.__file__).parent / "static" / "index.html"
_SCRIPTS = _STREAMLITS.parent / "static" / "js"
# Each page lies in the folder of the server, also behind a proxy that puts that folder elsewhere.
_HEAD = (
    '<head><script>window.__streamlit = {BACKEND_BASE_URL: new URL(".", location.href).href}'
    "</script>"
)
# What nearly every page draws. Streamlit loads it once it is to be drawn, and until then a grey bar
# stands for it: what is below it jumps when it comes.
_DRAWN_EVERYWHERE = ("Html", "Selectbox", "LinkButton", "BidiComponent")
# What a script cannot run without; a browser need not load that of a script it preloads.
_IMPORTED = re.compile(r'(?:\bfrom|\bimport)"\./([\w.-]+\.js)"')


def shell_routes(pages: Mapping[str, Sequence[str]]) -> list[Route]:
    """Return the routes of pages: by path, the elements of Streamlit that a page draws besides."""
    return [
        Route(f"/{path}", _sending(_shell(tuple(drawn))), methods=["GET", "HEAD"])
        for path, drawn in pages.items()
    ]


def _sending(document: str) -> Callable[[Request], Response]:
    def send(_request: Request) -> Response:
        return HTMLResponse(document, headers={"Cache-Control": "no-cache"})

    return send


@functools.cache
def _shell(drawn: tuple[str, ...]) -> str:
    """Return the document that a page begins as which draws these elements."""
    page = _STREAMLITS.read_text(encoding="utf-8")
    # Streamlit names itself until the page says its own title.
    page = page.replace("<title>Streamlit</title>", "<title>Compile HUD</title>")
    # In the body: of two rules that are as strong as each other the later one counts, and Streamlit
    # adds its own to the head.
    page = page.replace("<body>", f"<body>{STYLE_SHEET}", 1)
    scripts = _scripts_of((*_DRAWN_EVERYWHERE, *drawn))
    preloads = "".join(
        f'<link rel="modulepreload" crossorigin href="./static/js/{name}">'
        for name in _with_imported(scripts)
        if name not in page
    )
    # Behind Streamlit's own script, which asks the server for the page first.
    runs = "".join(f'import("./static/js/{name}");' for name in scripts)
    run = f'<script type="module">{runs}</script>'
    page = page.replace("</head>", f"{preloads}{run}</head>", 1)
    return page.replace("<head>", _HEAD, 1)


def _scripts_of(elements: Sequence[str]) -> list[str]:
    return [path.name for name in elements for path in _SCRIPTS.glob(f"{name}.*.js")]


def _with_imported(scripts: Sequence[str]) -> list[str]:
    """Return `scripts` and those that they cannot run without."""
    wanted = list(scripts)
    for name in wanted:
        imported = _IMPORTED.findall((_SCRIPTS / name).read_text(encoding="utf-8"))
        wanted += [found for found in imported if found not in wanted]
    return wanted
