"""The routes of the pages: the document of Streamlit, with the address of its server.

Left alone, a page at `/run` looks for its server at `/run/_stcore/...` first: two requests that are
answered 404, two errors on the console of every page, and a wait for them before anything is drawn.
And it has the style sheet: what is drawn before that is there jumps when it comes.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path

import streamlit
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from compile_hud.app.ui.theme import STYLE_SHEET

_STREAMLITS = Path(streamlit.__file__).parent / "static" / "index.html"
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


def shell_routes(paths: Sequence[str]) -> list[Route]:
    """Return the routes of the pages with these paths."""
    return [Route(f"/{path}", send_shell, methods=["GET", "HEAD"]) for path in paths]


def send_shell(_request: Request) -> Response:
    """Return the document that every page begins as."""
    return HTMLResponse(_shell(), headers={"Cache-Control": "no-cache"})


@functools.cache
def _shell() -> str:
    page = _STREAMLITS.read_text(encoding="utf-8")
    # Streamlit names itself until the page says its own title.
    page = page.replace("<title>Streamlit</title>", "<title>Compile HUD</title>")
    # In the body: of two rules that are as strong as each other the later one counts, and Streamlit
    # adds its own to the head.
    page = page.replace("<body>", f"<body>{STYLE_SHEET}", 1)
    preloads = "".join(
        f'<link rel="modulepreload" crossorigin href="./static/js/{name}">'
        for name in _preloaded_scripts()
        if name not in page
    )
    page = page.replace("</head>", f"{preloads}</head>", 1)
    return page.replace("<head>", _HEAD, 1)


def _preloaded_scripts() -> list[str]:
    """Return the scripts of what is drawn everywhere, and those that they cannot run without."""
    folder = _STREAMLITS.parent / "static" / "js"
    names = [path.name for name in _DRAWN_EVERYWHERE for path in folder.glob(f"{name}.*.js")]
    for name in names:
        imported = _IMPORTED.findall((folder / name).read_text(encoding="utf-8"))
        names += [script for script in imported if script not in names]
    return names
