"""Trends as pictures: what they show, that they are small, and that nothing depends on them."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import io
import json
import logging
import sys
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from PIL import Image
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from compile_hud.app import clock
from compile_hud.app.components.trend.rows import trend_chart
from compile_hud.app.data.page_records import AlertPage
from compile_hud.app.server import trend_image_routes as pictureroutes
from compile_hud.app.server import trend_png as picture
from compile_hud.app.server.trend_image_routes import RENDER_COMMAND, picture_routes
from compile_hud.app.server.trend_png import draw, picture_spec
from compile_hud.app.ui.alert_text import alert_text
from compile_hud.db.alerts.action_links import (
    LINK_SECRET_VARIABLE,
    Action,
    ActionLink,
    action_token,
    picture_token,
)
from compile_hud.db.records.alerts import Alert
from compile_hud.db.shared.trend_images import MAX_PICTURE_BYTES, draw_trends
from compile_hud.db.store import Store
from compile_hud.runner.alerting import notifier as pictures
from compile_hud.runner.config.load import parse_config
from compile_hud.runner.notifications.dispatcher import draw_nothing
from compile_hud.runner.workspace import Dependencies, Workspace
from tests.support.builders import START, make_alert, make_case, make_run_ref
from tests.support.records.page_results import point, series_page
from tests.support.stores.dashboard_stores import fill, regression

PNG = b"\x89PNG\r\n\x1a\n the trend"
SECRET = "0123456789abcdef0123456789abcdef"
HOSTILE = '<script>"&\N{RIGHT-TO-LEFT OVERRIDE}\n' + "x" * 10_000


def page_of(alert: Alert, *, num_points: int = 30) -> AlertPage:
    """Return the page of an alert whose series has so many points, the last ones slower."""
    points = [point(number, 0.010 + 0.002 * (number > 20)) for number in range(num_points)]
    series = dataclasses.replace(series_page(points), alerts=(alert,))
    return AlertPage(
        alert=alert,
        text=alert_text(alert),
        event=None,
        num_other_alerts=0,
        series=series,
        changes=(),
    )


ALERT = make_alert("a", first_bad=dataclasses.replace(make_run_ref(), run_id="run-21"))


def test_a_picture_is_the_chart_of_the_page_with_a_title_on_white() -> None:
    page = page_of(ALERT)
    assert page.series is not None
    spec, shown = picture_spec(page), trend_chart(metric="latency_s", _page=page.series)
    assert spec is not None
    assert (spec["layer"], spec["height"]) == (shown["layer"], shown["height"])
    assert (spec["title"]["text"], spec["background"]) == (
        f"{alert_text(ALERT).title}, latency",
        "#ffffff",
    )
    assert spec["config"]["font"] == "Liberation Sans"


def test_a_hostile_name_is_one_short_line_that_can_be_printed() -> None:
    spec = picture_spec(page_of(make_alert("a", case=make_case(HOSTILE))))
    assert spec is not None
    title = spec["title"]["text"]
    assert title.startswith('<script>"&? xxx')
    assert len(title) <= 90


def test_a_drawn_picture_is_small_and_the_same_each_time() -> None:
    spec = picture_spec(page_of(ALERT, num_points=200))
    assert spec is not None
    drawn = draw(spec)
    assert len(drawn) < MAX_PICTURE_BYTES / 2
    assert draw(spec) == drawn
    shown = Image.open(io.BytesIO(drawn)).convert("RGB")
    assert shown.width > 1000
    assert shown.getpixel((2, 2)) == (255, 255, 255)


def test_a_series_without_points_has_no_picture() -> None:
    assert picture_spec(page_of(ALERT, num_points=0)) is None
    assert picture_spec(dataclasses.replace(page_of(ALERT), series=None)) is None


def test_a_process_draws_what_is_in_the_store(tmp_path: Path) -> None:
    url = f"duckdb:///{tmp_path / 'store.duckdb'}"
    fill(Store(url))
    alert_id = regression().id
    (item,) = draw_trends([alert_id, "gone"], store_url=url, command=RENDER_COMMAND).items()
    assert item[0] == alert_id
    assert Image.open(io.BytesIO(item[1])).format == "PNG"


def script(text: str) -> tuple[str, ...]:
    return (sys.executable, "-c", text)


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        (script("raise SystemExit('no renderer')"), "no picture: no renderer"),
        (script("import os; os.abort()"), "no picture: "),
        (script("print('{')"), "no picture: "),
        (script("print('[1]')"), "no picture: "),
        (script("print('{\"a\": 1}')"), "no picture: "),
        (script('print(\'{"a": "bm90IGEgcGljdHVyZQ=="}\')'), ""),
        (("/nowhere/python",), "no picture: "),
        (script("import time; time.sleep(60)"), "no picture: .*timed out"),
    ],
)
def test_whatever_goes_wrong_costs_the_picture_alone(
    command: tuple[str, ...], problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert draw_trends(["a"], store_url="duckdb://", command=command, timeout_s=1.0) == {}
    assert len(caplog.messages) == bool(problem)


@pytest.mark.parametrize("ending", ["time.sleep(60)", "os.abort()", "print('{\"b', end='')"])
def test_what_was_drawn_before_the_trouble_is_there(
    ending: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("compile_hud.db.shared.trend_images.MORE_S", 0.0)
    line = json.dumps({"a": base64.b64encode(PNG).decode("ascii")})
    command = script(f"import os, time; print({line!r}, flush=True); {ending}")
    drawn = draw_trends(["a", "b"], store_url="duckdb://", command=command, timeout_s=3.0)
    assert drawn == {"a": PNG}


def test_nothing_is_started_for_nothing() -> None:
    assert draw_trends([], store_url="", command=("/nowhere",)) == {}


def test_ids_come_in_and_pictures_go_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setenv("HUD_DATABASE_URL", f"duckdb:///{tmp_path / 'none.duckdb'}")
    monkeypatch.setattr("sys.stdin", io.StringIO('["gone"]'))
    assert picture.main() == 0
    assert capsys.readouterr().out == ""
    monkeypatch.setenv("HUD_DATABASE_URL", "nonsense://store")
    monkeypatch.setattr("sys.stdin", io.StringIO('["gone"]'))
    assert picture.main() == 1


def test_the_runner_draws_only_where_the_dashboard_is_installed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = parse_config("", path=None, env={"HUD_DATABASE_URL": "duckdb:///a.duckdb"})
    workspace = Workspace(config=config, dependencies=Dependencies())
    assert pictures.make_draw(workspace) is not draw_nothing
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert pictures.make_draw(workspace) is draw_nothing


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Return the ids of alerts that were drawn; the picture of one is its id."""
    ids: list[str] = []
    free = threading.Lock()

    def draw_one(
        alert_ids: list[str], *, store_url: str, command: tuple[str, ...]
    ) -> dict[str, bytes]:
        assert store_url
        assert command == RENDER_COMMAND
        with free:
            ids.extend(alert_ids)
        return {id: id.encode() for id in alert_ids if id != "gone"}

    monkeypatch.setenv("HUD_DATABASE_URL", f"duckdb:///{tmp_path / 'store.duckdb'}")
    monkeypatch.setenv(LINK_SECRET_VARIABLE, SECRET)
    monkeypatch.setattr(pictureroutes, "draw_trends", draw_one)
    return ids


CLIENT = TestClient(Starlette(routes=picture_routes()))


def address(alert_id: str, *, days: float = 1) -> str:
    until = clock.now() + timedelta(days=days)
    return f"/pictures/{picture_token(alert_id, key=SECRET.encode(), until=until)}.png"


def test_a_picture_is_drawn_once_for_a_store_as_it_is(drawn: list[str]) -> None:
    for _ in range(3):
        answer = CLIENT.get(address("shown"))
    assert (answer.status_code, answer.content) == (200, b"shown")
    assert answer.headers["content-type"] == "image/png"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert drawn == ["shown"]


def test_a_picture_that_cannot_be_drawn_is_not_there_and_is_tried_again(drawn: list[str]) -> None:
    assert [CLIENT.get(address("gone")).status_code for _ in range(2)] == [404, 404]
    assert drawn == ["gone", "gone"]


def test_requests_for_one_picture_wait_for_one_drawing_and_pages_for_none(
    drawn: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    is_free = threading.Event()
    draw_one = pictureroutes.draw_trends

    def draw_slowly(*arguments: Any, **options: Any) -> dict[str, bytes]:
        assert is_free.wait(60)
        return draw_one(*arguments, **options)

    monkeypatch.setattr(pictureroutes, "draw_trends", draw_slowly)
    monkeypatch.setattr(pictureroutes, "MAX_WAITING", 3)
    page = Route("/page", lambda _request: PlainTextResponse())
    app = Starlette(routes=[*picture_routes(), page])

    async def statuses() -> tuple[set[int], list[int]]:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://hud") as client:
            # More than the server has threads for pages.
            names = [f"slow-{number % 3}" for number in range(90)]
            waiting = [asyncio.create_task(client.get(address(name))) for name in names]
            while len(pictureroutes._WAITING.get({})) < 3:
                await asyncio.sleep(0)
            refused, page = await client.get(address("one-more")), await client.get("/page")
            assert int(refused.headers["retry-after"]) > 0
            is_free.set()
            answers = {answer.status_code for answer in await asyncio.gather(*waiting)}
        return answers, [refused.status_code, page.status_code]

    assert asyncio.run(statuses()) == ({200}, [503, 200])
    assert sorted(drawn) == ["slow-0", "slow-1", "slow-2"]


ACTION = ActionLink(notification_id="msg_1", action=Action.NOISE, number=1)


@pytest.mark.parametrize(
    "path",
    [
        "/pictures/x.png",
        "/pictures/a/b.png",
        f"/pictures/{'x' * 5000}.png",
        pytest.param(address("old", days=-1), id="expired"),
        pytest.param(
            f"/pictures/{action_token(ACTION, key=SECRET.encode(), until=START)}.png", id="action"
        ),
    ],
)
def test_a_picture_needs_a_token(drawn: list[str], path: str) -> None:
    assert CLIENT.get(path).status_code == 403
    assert drawn == []


def test_without_a_secret_there_are_no_pictures(
    drawn: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(LINK_SECRET_VARIABLE)
    assert CLIENT.get(address("shown")).status_code == 403
    assert drawn == []
