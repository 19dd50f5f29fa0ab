"""The dashboard as one ASGI application: pages and routes in one process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import altair  # noqa: F401  imported for the frozen heap below
import pandas  # noqa: F401
import streamlit
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.routing import Route

from compile_hud.app import main
from compile_hud.app.auth.middleware import CALLBACK, Guard, app_secrets
from compile_hud.app.server import gc_freeze
from compile_hud.app.server.action_routes import action_routes
from compile_hud.app.server.api.routes import api_routes
from compile_hud.app.server.metrics_routes import metrics_routes
from compile_hud.app.server.owner_routes import owner_routes
from compile_hud.app.server.page_routes import shell_routes
from compile_hud.app.server.trace_routes import trace_routes
from compile_hud.app.server.trend_image_routes import picture_routes
from compile_hud.app.ui.templates.environment import compile_all


async def healthz(_request: Request) -> PlainTextResponse:
    """Return 200 as long as the server answers; the store is not touched."""
    return PlainTextResponse("ok\n")


async def to_overview(request: Request) -> RedirectResponse:
    """Redirect to the overview with the same parameters."""
    return RedirectResponse(f"./?{request.url.query}" if request.url.query else "./")


async def to_icon(_request: Request) -> RedirectResponse:
    """Redirect to the icon of the pages; browsers request this path for responses without one."""
    return RedirectResponse("./favicon.png")


@asynccontextmanager
async def lifespan(application: Any) -> AsyncIterator[None]:
    """Compile the templates before the first request, and keep the heap small after it."""
    compile_all()
    async with gc_freeze.settling(application):
        yield


_ROUTES = [
    Route("/healthz", healthz, methods=["GET", "HEAD"]),
    Route("/favicon.ico", to_icon, methods=["GET", "HEAD"]),
    *trace_routes(),
    *metrics_routes(),
    *api_routes(),
    *action_routes(),
    *owner_routes(),
    *picture_routes(),
    *shell_routes(["", *(view.path for view in main.VIEWS[1:])]),
    # Streamlit serves its first page at `/` only, under no path of its own.
    Route(f"/{main.VIEWS[0].path}", to_overview, methods=["GET", "HEAD"]),
]

app = streamlit.App(
    Path(main.__file__),
    lifespan=lifespan,
    secrets=app_secrets(),
    middleware=[Middleware(Guard, paths=[CALLBACK, *(route.path for route in _ROUTES)])],
    routes=_ROUTES,
)

# The modules imported so far are never garbage. Freezing them gives five to seven times the reruns
# a second.
gc_freeze.freeze()
