"""Small pages outside the dashboard that name a problem: access refused, no such page."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from http import HTTPStatus

from starlette.responses import HTMLResponse, Response

from compile_hud.app.ui.templates.environment import render


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
    page = render("pages.html", "status", title=title, words=text, link=link, nonce=nonce)
    policy = f"default-src 'none'; style-src 'nonce-{nonce}'; frame-ancestors 'none'"
    own = {"Content-Security-Policy": policy, "Cache-Control": "no-store"}
    return HTMLResponse(page, status_code=status, headers={**(headers or {}), **own})
