"""Small pages outside the dashboard that name a problem: access refused, no such page."""

from __future__ import annotations

import html
import secrets
from collections.abc import Mapping
from http import HTTPStatus

from starlette.responses import HTMLResponse, Response

from compile_hud.app.ui.html import escaped, with_code

# Its colours are those of the browser, light or dark (color-scheme below).
_STYLE = "body { font: 15px/1.5 sans-serif; max-width: 42em; margin: 3em auto; padding: 0 1em; }"


def status_page(
    title: str,
    text: str,
    *,
    status: HTTPStatus,
    link: tuple[str, str] = ("/", "To the dashboard"),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return a page with `title` and `text`, and a link (address, label) to go on with.

    It runs no script and loads nothing. Its response has `status`, and `headers` besides its own.
    """
    nonce = secrets.token_urlsafe(16)
    address, words = link
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<title>{escaped(title)} - Compile HUD</title><style nonce="{nonce}">{_STYLE}</style>'
        f"<h1>{escaped(title)}</h1><p>{with_code(text, limit=len(text))}</p>"
        f'<p><a href="{html.escape(address, quote=True)}">{escaped(words)}</a></p></html>'
    )
    policy = f"default-src 'none'; style-src 'nonce-{nonce}'; frame-ancestors 'none'"
    own = {"Content-Security-Policy": policy, "Cache-Control": "no-store"}
    return HTMLResponse(page, status_code=status, headers={**(headers or {}), **own})
