"""The routes of the owner's sign-in: a link's token becomes a cookie, and back."""

from __future__ import annotations

from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from compile_hud.app.auth import access
from compile_hud.app.auth.owner import OwnerSignIn
from compile_hud.app.ui.status_page import status_page
from compile_hud.db.shared.local_sign_in import SIGN_IN_PATH

# The session ends with the process at the latest.
_MAX_AGE_S = 30 * 24 * 3600
# No referrer for the next request either: the token is in the address of this one.
_HEADERS = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}


def owner_routes() -> list[Route]:
    """Return the route `/sign-in?token=TOKEN` of the links that a terminal shows."""
    return [Route(f"/{SIGN_IN_PATH}", sign_in, methods=["GET"])]


def sign_in(request: Request) -> Response:
    """Return the dashboard with a cookie for the token of a link, else the reason why not."""
    owner = access.owner_sign_in()
    if owner is None:
        text = "This dashboard has no sign-in links."
        return _refusal("No sign-in link", text, status=HTTPStatus.NOT_FOUND)
    if request.method != "GET" or _is_prefetch(request):
        # Programs that only look at a link must not use it up.
        return Response(status_code=HTTPStatus.SERVICE_UNAVAILABLE, headers=_HEADERS)
    cookie = owner.exchange(request.query_params.get("token", ""))
    if cookie is None and owner.person(request.cookies) is None:
        text = (
            "It has been used, is cut short, or is from before the dashboard was restarted. Run"
            " `hud sign-in` in a terminal for a new one."
        )
        return _refusal("This sign-in link is not valid", text, status=HTTPStatus.FORBIDDEN)
    answer = RedirectResponse("./", HTTPStatus.SEE_OTHER, headers=_HEADERS)
    if cookie is not None:
        _set_cookie(answer, owner, cookie)
    return answer


def _set_cookie(answer: Response, owner: OwnerSignIn, cookie: str) -> None:
    answer.set_cookie(
        owner.cookie_name, cookie, max_age=_MAX_AGE_S, httponly=True, samesite="strict"
    )


def _is_prefetch(request: Request) -> bool:
    """Return whether a browser loads the page before anyone opened it."""
    purposes = (request.headers.get(name, "") for name in ("sec-purpose", "purpose"))
    return any("prefetch" in purpose for purpose in purposes)


def _refusal(title: str, text: str, *, status: HTTPStatus) -> Response:
    way = ("./", "To the dashboard")
    return status_page(title, text, status=status, link=way, headers=_HEADERS)
