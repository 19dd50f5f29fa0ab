"""Checks of every request: sign-in, sign-out, return to the page, and headers that protect pages.

Streamlit's own routes do the OpenID Connect exchange (authorisation code with PKCE, state and
nonce). This middleware adds the rest:

- the return to the page where the sign-in began,
- a page for a refused sign-in,
- sign-outs that hold for copies of the cookie,
- `Secure` on cookies.
"""

from __future__ import annotations

import functools
import ipaddress
import json
import secrets
from collections.abc import Callable, Collection, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import streamlit
from starlette.datastructures import MutableHeaders
from starlette.requests import HTTPConnection, Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.auth_util import get_cookie_with_chunks
from streamlit.web.server.starlette.starlette_app_utils import decode_signed_value
from streamlit.web.server.starlette.starlette_server_config import USER_COOKIE_NAME

from compile_hud.app.auth import access
from compile_hud.app.auth.problems import Problem
from compile_hud.app.ui.status_page import status_page
from compile_hud.db.shared.access_rules import Person, Role
from compile_hud.db.shared.text import shortened

LOGIN, LOGOUT, CALLBACK = "/auth/login", "/auth/logout", "/oauth2callback"
# The page to return to after a sign-in; the cookie lasts as long as a sign-in may take.
BACK_COOKIE = "hud_back"
_BACK_S = 600
# No page of ours has a longer address, and cookies are limited to 4 kB.
_MAX_BACK = 2000
_HEADERS = {
    # Another site could show the page in a frame and lure clicks onto it.
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    # The return after a sign-in needs it; other sites get no referrer.
    "Referrer-Policy": "same-origin",
}
# Streamlit serves these: files that pages offer, and metrics of its server.
_FOR_VIEWERS = ("/media/", "/_stcore/metrics")
# A probe uses any name that the network has for this machine; the answer is the same everywhere.
_PROBE = "/healthz"
# These need a token, which no page of another site has, or else the name of this server.
_FOR_MACHINES = ("/readyz", "/metrics")
_API = "/api/"
# Streamlit would take a file from every session, and keep it in memory.
_UPLOADS = "/_stcore/upload_file"
# https://www.rfc-editor.org/rfc/rfc6455#section-7.4.1
_POLICY_VIOLATION = 1008
# These methods change nothing here.
_READING = frozenset({"GET", "HEAD", "OPTIONS"})
# An unknown address is shown no longer than this.
_MAX_PATH_LENGTH = 100
# Streamlit serves its own routes and files below these names; each page has a document of ours.
_STREAMLITS = frozenset({"_stcore", "auth", "component", "media"}).union(
    path.name
    for path in (Path(streamlit.__file__).parent / "static").iterdir()
    if path.suffix != ".html"
)
Endpoint = Callable[[Request], Response]


@functools.cache
def cookie_secret() -> str:
    """Return the key that signs cookies: the one of hud.toml, else a random one of this process."""
    return access.child_settings().cookie_secret or secrets.token_hex(32)


def app_secrets() -> dict[str, Any] | None:
    """Return the secrets that `st.App` needs for the sign-in, None without one."""
    settings = access.child_settings()
    if not settings.rules.has_sign_in:
        return None
    return {
        "auth": {
            "redirect_uri": f"{settings.url}{CALLBACK}",
            "cookie_secret": cookie_secret(),
            "client_id": settings.rules.client_id,
            "client_secret": settings.client_secret,
            "server_metadata_url": f"{settings.rules.issuer}/.well-known/openid-configuration",
            "client_kwargs": {"scope": settings.scope},
        }
    }


def person_of_request(request: Request) -> Person:
    """Return the person whose sign-in cookie `request` carries."""
    owner = access.owner_of(request.cookies)
    return owner or access.person_from_claims(_claims(request.cookies))


def _claims(cookies: Mapping[str, str]) -> Mapping[str, Any]:
    """Return the claims of the sign-in cookie, empty unless this server signed it for this URL."""

    def read(name: str) -> bytes | None:
        value = cookies.get(name)
        if value is None:
            return None
        return decode_signed_value(cookie_secret(), name, value.encode("latin-1", "replace"))

    cookie = get_cookie_with_chunks(read, USER_COOKIE_NAME)
    if cookie is None:
        return {}
    user: dict[str, Any] = json.loads(cookie)
    is_ours = user.get("is_logged_in") is True and user.get("origin") == access.child_settings().url
    return user if is_ours else {}


def guarded(endpoint: Endpoint, *, role: Role = Role.VIEWER) -> Endpoint:
    """Return `endpoint` with a check of the role; without the rights of `role` it returns a 403
    page.
    """

    def checked(request: Request) -> Response:
        return _refused(request, role) or endpoint(request)

    return checked


def _refused(request: Request, role: Role) -> Response | None:
    """Return a 403 page for an unauthorised request, else None."""
    person = person_of_request(request)
    try:
        access.require(person, role)
    except access.NotAllowed as error:
        known = person.is_signed_in
        status = HTTPStatus.FORBIDDEN if known else HTTPStatus.UNAUTHORIZED
        return status_page("Access denied", f"{error}.", status=status)
    return None


def _refused_route(request: Request) -> Response | None:
    """Return the answer to a request of Streamlit's own routes that is not allowed, else None."""
    path = request.scope["path"]
    if path.startswith(_FOR_VIEWERS):
        return _refused(request, Role.VIEWER)
    if not path.startswith(_UPLOADS):
        return None
    if access.may_upload(person_of_request(request)):
        return None
    text = "a file takes a sign-in with the role triager\n"
    return PlainTextResponse(text, status_code=HTTPStatus.FORBIDDEN)


class Guard:
    """The outermost middleware of the application.

    `paths` are the routes that exist. With any given, every other page address gets a 404.
    """

    def __init__(self, app: ASGIApp, *, paths: Collection[str] = ()) -> None:
        self._app = app
        self._paths = frozenset(paths)
        # Routes with a parameter serve a file for each name in their folder.
        folders = (path.split("/")[1] for path in self._paths if "{" in path)
        self._folders = _STREAMLITS.union(folders)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the request, pass it on, and add headers to the response."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        connection = HTTPConnection(scope)
        if not _is_own_name(connection.url.hostname or "", path=scope["path"]):
            await _refuse_name(scope, receive, send)
        elif scope["type"] == "websocket":
            if _is_same_origin(connection):
                await self._app(scope, receive, send)
            else:
                await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        else:
            await self._pass(Request(scope, receive), send)

    async def _pass(self, request: Request, send: Send) -> None:
        scope, path = request.scope, request.scope["path"]
        if path == LOGOUT:
            access.end(person_of_request(request))
        app = self._app
        if request.method not in _READING and not _is_same_origin(request):
            text = "only pages of this dashboard may send that"
            app = (
                Problem(HTTPStatus.FORBIDDEN, text).response()
                if path.startswith(_API)
                else PlainTextResponse(f"{text}\n", status_code=HTTPStatus.FORBIDDEN)
            )
        elif refused := _refused_route(request):
            app = refused
        elif path.startswith(_API) and _has_step_or_nul(path):
            # Streamlit would refuse it without a word.
            text = "the path has a NUL character or a step `..`"
            hint = "Send a name with such a part as a parameter of a list, or by its id"
            app = Problem(HTTPStatus.BAD_REQUEST, text, hint=hint).response()
        if self._paths and self._is_nowhere(path):
            # Streamlit would draw the overview with a message of its own over it, or below a folder
            # an empty page.
            shown_path = shortened(path, limit=_MAX_PATH_LENGTH)
            text = f"This dashboard has no page {shown_path}. The overview leads to all it has."
            app = status_page("No such page", text, status=HTTPStatus.NOT_FOUND)
        answer = _ResponseSender(request, send=send)
        await app(scope, request.receive, answer)
        await answer.finish(scope, request.receive)

    def _is_nowhere(self, path: str) -> bool:
        first = path.strip("/").partition("/")[0]
        return bool(first) and path.rstrip("/") not in self._paths and first not in self._folders


def _has_step_or_nul(path: str) -> bool:
    return "\0" in path or ".." in path.replace("\\", "/").split("/")


def _is_own_name(host: str, *, path: str) -> bool:
    """Return whether `host` is a name of this server.

    DNS rebinding: any site can point its own name at the address of this machine, and its pages
    then share an origin with this server. It cannot do that with a numeric address, with the name
    of `[server] url` or with the names of the address that this server listens on. That holds for
    a server without a sign-in as well: its readers are on the network that the other site is not.
    """
    if path == _PROBE or (path in _FOR_MACHINES and access.has_machine_token()):
        return True
    if path.startswith(_API) and access.has_api_token():
        return True
    names = {"localhost", urlsplit(access.child_settings().url).hostname, *access.own_names()}
    return host in names or _is_number(host)


def _is_same_origin(connection: HTTPConnection) -> bool:
    """Return whether a request comes from a page of this server, or from no page at all.

    Streamlit would look up the addresses of this machine for any other origin, and wait for the
    name server meanwhile, together with all other requests.
    """
    origin = connection.headers.get("origin")
    if origin is None:
        return True
    # A proxy may replace the name by which people open this server.
    addresses = {connection.headers.get("host"), urlsplit(access.child_settings().url).netloc}
    try:
        return urlsplit(origin).netloc in addresses - {""}
    except ValueError:
        return False


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def _refuse_name(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": _POLICY_VIOLATION})
        return
    text = (
        "This dashboard does not accept the host name in this address. Open it at 127.0.0.1, or"
        " set [server] url in hud.toml to its public address."
    )
    status = HTTPStatus.MISDIRECTED_REQUEST
    if scope["path"].startswith(_API):
        answer = Problem(
            status, text, hint=f"With {access.API_TOKEN_VARIABLE}, any name is accepted"
        )
        await answer.response()(scope, receive, send)
        return
    await status_page("Unknown host name", text, status=status)(scope, receive, send)


class _ResponseSender:
    """Sends a response; a sign-in callback gets a redirect to the page, or a refusal, instead."""

    def __init__(self, request: Request, *, send: Send) -> None:
        self._request = request
        self._send = send
        self._path = request.scope["path"]
        self._instead: Response | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            self._treat(headers)
            _protect(headers)
        if self._instead is None:
            await self._send(message)

    def _treat(self, headers: MutableHeaders) -> None:
        if self._path == LOGIN and (back := _back_of(self._request)):
            headers.append("Set-Cookie", _back_cookie(back, age_s=_BACK_S))
        if self._path != CALLBACK:
            return
        cookies = headers.getlist("set-cookie")
        # Streamlit redirects to the first page in every case; only a successful sign-in sets this
        # cookie.
        if any(_is_set(cookie, USER_COOKIE_NAME) for cookie in cookies):
            self._instead = RedirectResponse(_return_page(self._request), status_code=302)
        elif "state" in self._request.query_params or "error" in self._request.query_params:
            self._instead = status_page(
                "The sign-in did not succeed",
                "The provider refused it, or its answer is too old or was used before. Go to the"
                " dashboard and sign in again.",
                status=HTTPStatus.FORBIDDEN,
            )
        if self._instead is not None:
            for cookie in (*cookies, _back_cookie("", age_s=0)):
                self._instead.headers.append("Set-Cookie", cookie)
            _protect(self._instead.headers)

    async def finish(self, scope: Scope, receive: Receive) -> None:
        """Send the response that replaces the original one, if any."""
        if self._instead is not None:
            await self._instead(scope, receive, self._send)


def _is_set(cookie: str, name: str) -> bool:
    cookie_name, _, rest = cookie.partition("=")
    return cookie_name == name and "max-age=0" not in rest.lower()


def _protect(headers: MutableHeaders) -> None:
    """Add the headers of every page; cookies of a server with HTTPS become `Secure`."""
    for name, value in _HEADERS.items():
        headers.setdefault(name, value)
    cookies = headers.getlist("set-cookie")
    if not cookies or not access.child_settings().url.startswith("https:"):
        return
    del headers["set-cookie"]
    for cookie in cookies:
        is_so = "; secure" in cookie.lower()
        headers.append("Set-Cookie", cookie if is_so else f"{cookie}; Secure")


def _back_of(request: Request) -> str:
    """Return the page of ours that `request` came from, "" for none."""
    parts = urlsplit(request.headers.get("referer", ""))
    if f"{parts.scheme}://{parts.netloc}" != access.child_settings().url:
        return ""
    return _own_page(f"{parts.path}?{parts.query}" if parts.query else parts.path)


def _return_page(request: Request) -> str:
    return _own_page(unquote(request.cookies.get(BACK_COOKIE, ""))) or "/"


def _own_page(page: str) -> str:
    """Return `page` if it is a path on this server, "" for one that could leave it."""
    is_path = page.startswith("/") and not page.startswith("//")
    is_plain = page.isascii() and page.isprintable() and "\\" not in page
    is_loop = page.partition("?")[0] in (LOGIN, LOGOUT, CALLBACK)
    return page if is_path and is_plain and not is_loop and len(page) <= _MAX_BACK else ""


def _back_cookie(page: str, *, age_s: int) -> str:
    value = quote(page, safe="")
    return f"{BACK_COOKIE}={value}; Path={CALLBACK}; Max-Age={age_s}; HttpOnly; SameSite=Lax"
