"""The routes of the API: who may read, what is valid, what is unchanged, and errors as JSON."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import logging
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NoReturn

from anyio.lowlevel import RunVar
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from compile_hud.app import clock
from compile_hud.app.auth import access
from compile_hud.app.auth.problems import RETRY_S, Problem
from compile_hud.app.data import store
from compile_hud.app.data.store import StoreVersion
from compile_hud.app.server.api.authorization import check_reader
from compile_hud.app.server.api.openapi import OPENAPI_PATH, openapi_document
from compile_hud.app.server.separate_threads import run_separately
from compile_hud.db.errors import NotFoundError, StoreError, StoreLocked, StoreUnavailable
from compile_hud.runner.documents.endpoints import (
    ENDPOINTS,
    PREFIX,
    Endpoint,
    EndpointSource,
    Page,
    Values,
)
from compile_hud.runner.documents.parameters import near_hint, read_values
from compile_hud.runner.errors import InvalidParameter, NoSuchDocument, NoSuchResult

logger = logging.getLogger(__name__)

# Requests wait for one thread, which pages do not need. Those that wait longest wait for a minute.
MAX_WAITING = 20
_READING = ("GET", "HEAD")
# Browsers and proxies ask again, and the store has the answer whether anything changed.
_CACHING = {"Cache-Control": "private, no-cache", "Vary": "Authorization, Cookie"}
_WAITING: RunVar[list[int]] = RunVar("requests of the API that wait")


def api_routes() -> list[Route]:
    """Return the routes of all endpoints, of the OpenAPI document, and of unknown paths."""
    endpoints = [
        # The key of a case has slashes.
        _WholePath(f"{PREFIX}{item.path.replace('{case}', '{case:path}')}", _EndpointRoute(item))
        for item in ENDPOINTS
    ]
    document = _WholePath(OPENAPI_PATH, _DocumentRoute())
    # Streamlit would draw the overview at any other path.
    unknown = [_WholePath(path, _UnknownRoute()) for path in ("/api", "/api/{path:path}")]
    return [*endpoints, document, *unknown]


class _WholePath(Route):
    """A route of a path that may have line breaks, which are part of a name."""

    def __init__(self, path: str, endpoint: _ApiRoute) -> None:
        super().__init__(path, endpoint)
        pattern = self.path_regex.pattern.removesuffix("$")
        self.path_regex = re.compile(rf"{pattern}\Z", re.DOTALL)


class _ApiRoute:
    """A route that answers GET and HEAD, and every error as JSON."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response to one request."""
        request = Request(scope, receive)
        try:
            check_reader(request)
            response = await self.reply(request)
        except Problem as problem:
            response = problem.response()
        response.headers["X-Content-Type-Options"] = "nosniff"
        await response(scope, receive, send)

    async def reply(self, request: Request) -> Response:
        """Return the response; raise Problem for an error."""
        raise NotImplementedError


class _EndpointRoute(_ApiRoute):
    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    async def reply(self, request: Request) -> Response:
        """Return the objects of the endpoint, or 304 if the store has not changed."""
        _check_method(request)
        values = _values(request, self._endpoint)
        known = request.headers.get("if-none-match", "")
        waiting = _WAITING.get([0])
        _WAITING.set(waiting)
        if waiting[0] >= MAX_WAITING:
            raise _unavailable("too many requests are waiting", retry_s=RETRY_S)
        waiting[0] += 1
        try:
            read = functools.partial(_read, self._endpoint, values, known=known)
            return await run_separately("api", read)
        finally:
            waiting[0] -= 1


class _DocumentRoute(_ApiRoute):
    async def reply(self, request: Request) -> Response:
        """Return the OpenAPI document."""
        _check_method(request)
        return JSONResponse(openapi_document(), headers=_CACHING)


class _UnknownRoute(_ApiRoute):
    async def reply(self, request: Request) -> NoReturn:
        """Raise Problem with the paths that exist."""
        paths = [OPENAPI_PATH, *(f"{PREFIX}{item.path}" for item in ENDPOINTS)]
        hint = near_hint(request.url.path, paths, noun="paths")
        raise Problem(HTTPStatus.NOT_FOUND, "the API has no such path", hint=hint)


def _check_method(request: Request) -> None:
    if request.method not in _READING:
        allowed = ", ".join(_READING)
        text = f"the API only reads: {allowed}"
        raise Problem(HTTPStatus.METHOD_NOT_ALLOWED, text, Allow=allowed)


def _values(request: Request, endpoint: Endpoint) -> Values:
    query, path = request.query_params, request.path_params
    of_query = [item for item in endpoint.all_parameters if not item.is_in_path]
    of_path = [item for item in endpoint.all_parameters if item.is_in_path]
    try:
        return {
            **read_values({name: query.getlist(name) for name in query}, of_query),
            **read_values({name: [path[name]] for name in path}, of_path),
        }
    except InvalidParameter as error:
        hint = str(error.parameters["hint"])
        raise Problem(HTTPStatus.BAD_REQUEST, str(error), hint=hint) from error


def _read(endpoint: Endpoint, values: Values, *, known: str) -> Response:
    """Return the response of an endpoint; `known` is the header If-None-Match."""
    try:
        # The version is read first: a write in between costs the next request a read.
        at = store.current_version()
        tag = _entity_tag(at, day=f"{clock.now():%Y-%m-%d}" if endpoint.is_dated else "")
        headers = {**_CACHING, "ETag": tag}
        if tag in _tags(known):
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        content = endpoint.read(_source(at), values)
    except (NotFoundError, NoSuchDocument, NoSuchResult) as error:
        raise Problem(HTTPStatus.NOT_FOUND, str(error)) from error
    except StoreLocked as error:
        raise _unavailable(str(error), retry_s=RETRY_S) from error
    except StoreUnavailable as error:
        raise _unavailable(str(error)) from error
    except StoreError as error:
        logger.warning("%s: %s", endpoint.path, error)
        raise Problem(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from error
    return JSONResponse(_to_json(content), headers=headers)


def _source(at: StoreVersion) -> EndpointSource:
    return EndpointSource(store=at.store, now=clock.now, dashboard=access.child_settings().url)


def _to_json(content: Mapping[str, Any] | Page) -> Mapping[str, Any]:
    return content.to_json() if isinstance(content, Page) else content


def _entity_tag(at: StoreVersion, *, day: str) -> str:
    """Return the ETag of every response from this store, program and dashboard on `day`."""
    version = importlib.metadata.version("compile-hud")
    source = f"{at.url} {version} {access.child_settings().url} {day}"
    digest = hashlib.sha256(source.encode()).hexdigest()[:12]
    return f'W/"{digest}-{at.number}"'


def _tags(header: str) -> set[str]:
    """Return the tags of If-None-Match as weak ones, the only ones here."""
    tags = (tag.strip() for tag in header.split(","))
    return {tag if tag.startswith("W/") else f"W/{tag}" for tag in tags if tag}


def _unavailable(text: str, *, retry_s: int | None = None) -> Problem:
    headers = {} if retry_s is None else {"Retry_After": str(retry_s)}
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, text, **headers)
