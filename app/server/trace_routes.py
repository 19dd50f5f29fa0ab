"""Routes for stored traces: the file itself, and a page that passes it to the Perfetto UI.

https://perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui documents the protocol: open the
UI in a window of its own, send `PING` until it answers `PONG`, then send the bytes. They go from
one window of the browser to another; no other server gets them.
"""

from __future__ import annotations

import secrets
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import Route

from compile_hud.app.auth.middleware import guarded
from compile_hud.app.ui.status_page import status_page
from compile_hud.app.ui.templates.environment import render
from compile_hud.app.views.kernels.breakdown import RETENTION_TEXT
from compile_hud.app.views.kernels.data import perfetto_address, trace_path

_MEDIA_TYPE = "application/gzip"
_METHODS = ["GET", "HEAD"]
_SAFETY = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"}


def trace_routes() -> list[Route]:
    """Return the routes `/traces/ID` and `/perfetto/ID` of a result's id, for viewers."""
    return [
        Route("/traces/{result_id}", guarded(send_trace), methods=_METHODS),
        Route("/perfetto/{result_id}", guarded(perfetto_page), methods=_METHODS),
    ]


def send_trace(request: Request) -> Response:
    """Return the trace of a result as a file to download, or a page with the reason why there is
    none.
    """
    result_id = request.path_params["result_id"]
    path = trace_path(result_id)
    if path is None:
        return _no_trace(result_id)
    return FileResponse(path, media_type=_MEDIA_TYPE, filename=path.name, headers=_SAFETY)


def perfetto_page(request: Request) -> Response:
    """Return the page that opens the Perfetto UI and passes it the trace of a result."""
    result_id = request.path_params["result_id"]
    path = trace_path(result_id)
    if path is None:
        return _no_trace(result_id)
    nonce = secrets.token_urlsafe(16)
    page = render(
        "perfetto.html",
        "page",
        nonce=nonce,
        trace=f"../traces/{result_id}",
        name=path.name,
        perfetto=perfetto_address(),
    )
    policy = (
        "default-src 'none'; connect-src 'self'; base-uri 'none'; form-action 'none';"
        f" frame-ancestors 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'"
    )
    return HTMLResponse(page, headers={**_SAFETY, "Content-Security-Policy": policy})


def _no_trace(result_id: str) -> Response:
    return status_page(
        f"No trace of result {result_id}",
        f"None was stored, or a rule removed it. {RETENTION_TEXT}",
        status=HTTPStatus.NOT_FOUND,
        link=("../runs", "All runs"),
        headers=_SAFETY,
    )
