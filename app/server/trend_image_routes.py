"""The route of a trend as a picture, for receivers that fetch images.

A signed token names the trend, since chats cannot sign in. Drawing takes seconds of a core. One
picture is drawn at a time, in a thread that no page needs, and again only when the store has
changed. Requests for the same picture wait for one drawing.
"""

from __future__ import annotations

import asyncio
import functools
import sys

from anyio.lowlevel import RunVar
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from compile_hud.app import clock
from compile_hud.app.data import action_links, store
from compile_hud.app.server.separate_threads import run_separately
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
# A chat asks again. Those who wait longest would wait for a minute.
MAX_WAITING = 20
_RETRY_S = 30
_WAITING: RunVar[dict[str, asyncio.Task[bytes]]] = RunVar("pictures that are drawn")


def picture_routes() -> list[Route]:
    """Return the route `/pictures/TOKEN.png`."""
    path = f"/{PICTURES_PATH}/{{token:path}}.png"
    return [Route(path, send_picture, methods=["GET", "HEAD"])]


async def send_picture(request: Request) -> Response:
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
        picture = await _picture(alert_id)
    except LookupError:
        return PlainTextResponse("there is no picture\n", status_code=404, headers=_SAFETY)
    if picture is None:
        headers = {**_SAFETY, "Retry-After": str(_RETRY_S)}
        text = "too many pictures are waiting to be drawn\n"
        return PlainTextResponse(text, status_code=503, headers=headers)
    return Response(picture, media_type="image/png", headers=_SAFETY)


async def _picture(alert_id: str) -> bytes | None:
    """Return the picture of an alert, None if too many wait; raise LookupError as `_drawn` does."""
    waiting = _WAITING.get({})
    _WAITING.set(waiting)
    task = waiting.get(alert_id)
    if task is None:
        if len(waiting) >= MAX_WAITING:
            return None
        task = asyncio.create_task(
            run_separately("pictures", functools.partial(_draw_newest, alert_id))
        )
        waiting[alert_id] = task
        task.add_done_callback(functools.partial(_end, waiting, alert_id))
    # A request that is given up leaves the drawing to the other requests.
    return await asyncio.shield(task)


def _end(waiting: dict[str, asyncio.Task[bytes]], alert_id: str, task: asyncio.Task[bytes]) -> None:
    waiting.pop(alert_id, None)
    if not task.cancelled():
        # An exception that is never read would be logged.
        task.exception()


def _draw_newest(alert_id: str) -> bytes:
    return _drawn(alert_id, store.store_url(), store.store_version())


@functools.lru_cache(maxsize=_MAX_IMAGES)
def _drawn(alert_id: str, store_url: str, _version: int) -> bytes:
    """Return a picture; raise LookupError, which is not cached, if drawing failed this time."""
    return draw_trends([alert_id], store_url=store_url, command=RENDER_COMMAND)[alert_id]
