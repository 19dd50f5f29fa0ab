"""The route of a trend as a picture, for receivers that fetch images.

A signed token names the trend, since chats cannot sign in. Drawing takes seconds of a core: one
picture is drawn at a time, and again only when the store has changed.
"""

from __future__ import annotations

import functools
import sys
import threading

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from compile_hud.app import clock
from compile_hud.app.data import action_links, store
from compile_hud.db.alerts.action_links import PICTURES_PATH, LinkRefused, read_picture
from compile_hud.db.shared.trend_images import draw_trends

_SAFETY = {
    "Cache-Control": "no-store",
    # A narrower policy would block the styles that a browser adds when it shows a picture by
    # itself.
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Robots-Tag": "noindex",
}
# The renderer has a process of its own: a crash or an endless loop costs one picture.
RENDER_COMMAND = (sys.executable, "-P", "-m", "compile_hud.app.server.trend_png")
_MAX_IMAGES = 64
_one_at_a_time = threading.Lock()


def picture_routes() -> list[Route]:
    """Return the route `/pictures/TOKEN.png`."""
    path = f"/{PICTURES_PATH}/{{token:path}}.png"
    return [Route(path, send_picture, methods=["GET", "HEAD"])]


def send_picture(request: Request) -> Response:
    """Return the trend of a token as a PNG, or the reason why there is none."""
    key = action_links.link_key()
    try:
        if key is None:
            raise LinkRefused("no links here")
        alert_id = read_picture(request.path_params["token"], key=key, now=clock.now())
    except LinkRefused:
        text = "this address is not valid, or has expired\n"
        return PlainTextResponse(text, status_code=403, headers=_SAFETY)
    try:
        with _one_at_a_time:
            picture = _drawn(alert_id, store.store_url(), store.store_version())
    except LookupError:
        return PlainTextResponse("there is no picture\n", status_code=404, headers=_SAFETY)
    return Response(picture, media_type="image/png", headers=_SAFETY)


@functools.lru_cache(maxsize=_MAX_IMAGES)
def _drawn(alert_id: str, store_url: str, _version: int) -> bytes:
    """Return a picture; raise LookupError, which is not cached, if drawing failed this time."""
    return draw_trends([alert_id], store_url=store_url, command=RENDER_COMMAND)[alert_id]
