"""Routes for monitoring: `/metrics` for Prometheus, `/readyz` for orchestrators.

Programs cannot sign in. Both routes need the token of HUD_METRICS_TOKEN, or of the file that
HUD_METRICS_TOKEN_FILE names, if one is set or the dashboard has a sign-in.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from compile_hud.app.auth import access
from compile_hud.app.auth.access import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE
from compile_hud.app.auth.bearer import SCHEME, has_token
from compile_hud.app.data.operations import OperationalFigures, desk
from compile_hud.app.server.prometheus import exposition
from compile_hud.app.server.separate_threads import run_separately
from compile_hud.db.engine.connection_cache import CONNECTION_CACHE
from compile_hud.db.jobs.health import SchedulerStatus

_METHODS: Final = ["GET", "HEAD"]
_HEADERS: Final = {"Cache-Control": "no-store"}
_READINESS_WORDS: Final = {
    SchedulerStatus.ALIVE: "ok",
    SchedulerStatus.SILENT: "late",
    SchedulerStatus.SYNTHETIC: "synthetic",
}


def metrics_routes() -> list[Route]:
    """Return the routes `/metrics` and `/readyz`."""
    return [
        Route("/metrics", send_metrics, methods=_METHODS),
        Route("/readyz", send_readiness, methods=_METHODS),
    ]


async def send_metrics(request: Request) -> Response:
    """Return all metrics as Prometheus or OpenMetrics text, as the request accepts.

    A store that is down is a metric, too.
    """
    accepted = request.headers.get("accept", "")
    return await _for_token_bearers(request, functools.partial(_metrics, accepted=accepted))


async def send_readiness(request: Request) -> Response:
    """Return 200 while the store can be read, 503 otherwise, with the state of each scheduler."""
    return await _for_token_bearers(request, _readiness)


def metrics_token(env: Mapping[str, str]) -> str:
    """Return the token that requests need, "" for none; raise OSError if its file is missing."""
    named = env.get(TOKEN_FILE_VARIABLE)
    if named:
        return Path(named).read_text(encoding="utf-8").strip()
    return env.get(TOKEN_VARIABLE, "")


async def _for_token_bearers(
    request: Request, make: Callable[[OperationalFigures], Response]
) -> Response:
    try:
        token = metrics_token(os.environ)
    except (OSError, UnicodeDecodeError):
        text = f"the file of {TOKEN_FILE_VARIABLE} cannot be read\n"
        return PlainTextResponse(text, status_code=503)
    header = request.headers.get("authorization", "")
    is_closed = bool(token) or access.child_settings().rules.has_sign_in
    if is_closed and not has_token(header, token):
        text = f"this needs the header `Authorization: Bearer` with the token of {TOKEN_VARIABLE}\n"
        return PlainTextResponse(text, status_code=401, headers={"WWW-Authenticate": SCHEME})
    # A locked store takes seconds to answer, and pages need the common threads meanwhile.
    return make(await run_separately("store figures", desk().answer))


def _metrics(answer: OperationalFigures, *, accepted: str) -> Response:
    now = datetime.now(timezone.utc)
    encode, media_type = choose_encoder(accepted)
    text = exposition(answer.operations, results=answer.results, now=now, encode=encode)
    return PlainTextResponse(text, media_type=media_type, headers=_HEADERS)


def _readiness(answer: OperationalFigures) -> Response:
    now = datetime.now(timezone.utc)
    schedulers = answer.operations.health.schedulers if answer.operations else ()
    document = {
        "store": "ok" if answer.operations else answer.error,
        "schedulers": {item.machine: _READINESS_WORDS[item.status(now=now)] for item in schedulers},
        "connection_cache": CONNECTION_CACHE.problem or "ok",
    }
    return JSONResponse(document, status_code=200 if answer.operations else 503, headers=_HEADERS)
