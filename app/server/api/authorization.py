"""Authorization of the API: by its token, or by the role of the person who is signed in.

Without a token and without a sign-in the API is open, as the pages are.
"""

from __future__ import annotations

import os
from http import HTTPStatus
from pathlib import Path

from starlette.requests import Request

from compile_hud.app.auth import access
from compile_hud.app.auth.access import API_TOKEN_FILE_VARIABLE, API_TOKEN_VARIABLE
from compile_hud.app.auth.bearer import SCHEME, has_token
from compile_hud.app.auth.middleware import person_of_request
from compile_hud.app.auth.problems import Problem
from compile_hud.db.shared.access_rules import Role

_HINT = f"Send the header `Authorization: {SCHEME} TOKEN` with the token of {API_TOKEN_VARIABLE}"


def check_reader(request: Request) -> None:
    """Raise Problem unless the request has the token, or its person may view the dashboard."""
    token = _token()
    header = request.headers.get("authorization", "")
    if token and header:
        if has_token(header, token):
            return
        raise _unauthorized("the token is not that of this API")
    person = person_of_request(request)
    if person.is_signed_in:
        if text := access.refusal(person, Role.VIEWER):
            raise Problem(HTTPStatus.FORBIDDEN, text)
    elif token or not person.may(Role.VIEWER):
        raise _unauthorized("this API needs a token, or a sign-in")


def _token() -> str:
    """Return the token, "" for none; raise Problem if its file cannot be read."""
    named = os.environ.get(API_TOKEN_FILE_VARIABLE)
    if not named:
        return os.environ.get(API_TOKEN_VARIABLE, "")
    try:
        return Path(named).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        text = f"the file of {API_TOKEN_FILE_VARIABLE} cannot be read"
        raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, text) from error


def _unauthorized(text: str) -> Problem:
    return Problem(HTTPStatus.UNAUTHORIZED, text, hint=_HINT, WWW_Authenticate=SCHEME)
