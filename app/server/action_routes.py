"""The routes of the links in messages: a page with a button, and only the button changes anything.

Programs open the links of messages before people do (mail scanners, previews of chats), so a GET
changes nothing. The token carries the permission; nothing else of a request is trusted. On a
dashboard of the local user a link only shows, as pages do, until that user has signed in.
"""

from __future__ import annotations

import dataclasses
import functools
import secrets
from collections.abc import Callable, Sequence
from http import HTTPStatus
from urllib.parse import parse_qs

from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from compile_hud.app import clock
from compile_hud.app.auth import access
from compile_hud.app.auth.middleware import person_of_request
from compile_hud.app.data import action_links
from compile_hud.app.data.action_links import LinkRequest, MeanwhileChanged, ReasonNeeded
from compile_hud.app.ui.alert_text import alert_text
from compile_hud.app.ui.templates.environment import render
from compile_hud.app.ui.urls import decide_url
from compile_hud.db.alerts.action_links import (
    ACTIONS_PATH,
    LinkExpired,
    LinkRefused,
    is_page_proof,
    page_proof,
    read_action,
)
from compile_hud.db.errors import NotFoundError, StoreError
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.shared.access_rules import Person, Role

PROOF, WHY = "page", "why"
MAX_WHY_LENGTH = 500
# A reason of four-byte characters has three characters of the form for each byte; then comes the
# proof.
_MAX_BODY_BYTES = 12 * MAX_WHY_LENGTH + 1000
_MAX_ALERTS_SHOWN = 10
_HEADERS = {
    "Cache-Control": "no-store",
    # With no referrer at all, browsers send the form without its origin, which the server checks.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
}
# The label of each decision's button, and the effect of the decision.
_WORDS = {
    AlertState.ACKNOWLEDGED: (
        "Acknowledge",
        "Someone is working on it. It closes when the level recovers.",
    ),
    AlertState.EXPECTED: (
        "Mark as expected",
        "The new level is intended. It is the baseline from the first bad run on.",
    ),
    AlertState.NOISE: ("Mark as noise", "A false positive. It stays silent when it recurs."),
}


def action_routes() -> list[Route]:
    """Return the route `/act/TOKEN` of a link in a message."""
    path = f"/{ACTIONS_PATH}/{{token:path}}"
    return [
        Route(path, ask, methods=["GET", "HEAD"]),
        Route(path, act, methods=["POST"], name="act"),
    ]


def ask(request: Request) -> Response:
    """Return the page that describes the decision and has the button for it."""
    return _answer(request, functools.partial(_asking, person=person_of_request(request)))


async def act(request: Request) -> Response:
    """Apply the decision of the link when its own page requests it, and return the result as a
    page.
    """
    form = await _form(request)

    def perform(token: str, key: bytes) -> Response:
        return _perform(token, key, form=form, person=person_of_request(request))

    return await run_in_threadpool(_answer, request, perform)


def _answer(request: Request, reply: Callable[[str, bytes], Response]) -> Response:
    """Return the reply of `reply` to a token and the key, or a page that names the problem."""
    key = action_links.link_key()
    token = request.path_params["token"]
    try:
        if key is None:
            raise LinkRefused("no links here")
        return reply(token, key)
    except LinkExpired:
        return _refusal(HTTPStatus.GONE, "This link has expired.")
    except LinkRefused:
        text = "This link is not valid: it is cut short, changed, or of another dashboard."
        return _refusal(HTTPStatus.FORBIDDEN, text)
    except NotFoundError:
        text = "The alerts of this message are no longer in the store."
        return _refusal(HTTPStatus.NOT_FOUND, text)
    except ReasonNeeded:
        text = "A failure is expected only with a reason. Open the link again and write it."
        return _refusal(HTTPStatus.BAD_REQUEST, text)
    except MeanwhileChanged:
        text = "The alerts of this message changed meanwhile. Nothing was done."
        return _refusal(HTTPStatus.CONFLICT, text)
    except StoreError:
        text = "The store cannot be reached now. Nothing was done; try again in a minute."
        return _refusal(HTTPStatus.SERVICE_UNAVAILABLE, text)


def _asking(token: str, key: bytes, *, person: Person) -> Response:
    request = _load(token, key)
    if not request.alerts:
        return _nothing_left(request)
    button, meaning = _WORDS[request.state]
    content = render(
        "actions.html",
        "question",
        request=request,
        listed=_list(request.alerts),
        button=button,
        meaning=meaning,
        proof=page_proof(token, key=key),
        proof_name=PROOF,
        why_name=WHY,
        max_length=MAX_WHY_LENGTH,
        author_text=_author_text(request, person),
    )
    return _page(f"{button}?", content)


def _perform(token: str, key: bytes, *, form: dict[str, str], person: Person) -> Response:
    request = _load(token, key)
    if not is_page_proof(form.get(PROOF, ""), token, key=key):
        text = "Only the button on this link's own page changes anything. Open the link again."
        return _refusal(HTTPStatus.FORBIDDEN, text)
    if access.owner_sign_in() is not None and not person.may(Role.TRIAGER):
        text = f"This dashboard is read-only. {access.LINK_ADVICE}."
        return _refusal(HTTPStatus.FORBIDDEN, text)
    if not request.alerts:
        return _nothing_left(request)
    try:
        why = form.get(WHY, "").strip()[:MAX_WHY_LENGTH]
        action_links.act(request, by=_author(request, person), why=why)
    except MeanwhileChanged:
        # The second half of a double click finds its request done.
        request = _load(token, key)
        if request.alerts:
            raise
        return _nothing_left(request)
    title = f"Done: {len(request.alerts)} now {request.state}"
    decided = [dataclasses.replace(alert, state=request.state) for alert in request.alerts]
    return _result(title, decided, request=request)


def _result(title: str, alerts: Sequence[Alert], *, request: LinkRequest) -> Response:
    content = render("actions.html", "result", request=request, listed=_list(alerts))
    return _page(title, content)


def _author(request: LinkRequest, person: Person) -> str:
    has_owner = access.owner_sign_in() is not None
    return person.name if has_owner and person.is_signed_in else f"{request.receiver} link"


def _author_text(request: LinkRequest, person: Person) -> str:
    """Return the name in the record, or how to get one on a dashboard of the local user."""
    if access.owner_sign_in() is not None and not person.may(Role.TRIAGER):
        # A link in a message is of another site, so its request comes without the cookie.
        return f"The button needs the sign-in of this machine's user. {access.LINK_ADVICE}."
    return f'The record names "{_author(request, person)}" as its author.'


def _load(token: str, key: bytes) -> LinkRequest:
    return action_links.load_link_request(read_action(token, key=key, now=clock.now()))


def _nothing_left(request: LinkRequest) -> Response:
    """Return the page for a link whose alerts all changed already."""
    if not request.settled:
        text = "The alerts of this message changed after it was sent. They are now:"
        return _refusal(HTTPStatus.CONFLICT, text, now=request.changed)
    return _result(f"Already {request.state}", request.settled, request=request)


def _list(alerts: Sequence[Alert]) -> Markup:
    shown = alerts[:_MAX_ALERTS_SHOWN]
    items = [
        (decide_url(alert.id), alert.case.key, alert_text(alert).mark, alert.state)
        for alert in shown
    ]
    return render("actions.html", "alerts", items=items, num_left=len(alerts) - len(shown))


def _refusal(status: HTTPStatus, text: str, *, now: Sequence[Alert] = ()) -> Response:
    """Return a page with the reason of a refusal, and the alerts as they are `now`."""
    # The path of an unsigned token, even its depth, is a stranger's choice.
    has_link = status is not HTTPStatus.FORBIDDEN
    content = render("actions.html", "refusal", words=text, listed=_list(now), has_link=has_link)
    return _page("Nothing was changed", content, status=status)


def _page(title: str, content: Markup, *, status: HTTPStatus = HTTPStatus.OK) -> Response:
    nonce = secrets.token_urlsafe(16)
    page = render("actions.html", "page", title=title, content=content, nonce=nonce)
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none';"
        f" style-src 'nonce-{nonce}'"
    )
    headers = {**_HEADERS, "Content-Security-Policy": policy}
    return HTMLResponse(page, status_code=status, headers=headers)


async def _form(request: Request) -> dict[str, str]:
    """Return the fields of a form; none of a form that is longer or has more fields than ours."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _MAX_BODY_BYTES:
            return {}
    try:
        fields = parse_qs(body.decode("ascii", "replace"), max_num_fields=10)
    except ValueError:
        return {}
    return {name: values[0] for name, values in fields.items()}
