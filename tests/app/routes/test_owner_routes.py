"""The exchange of a sign-in link for a cookie, as browsers and attackers ask for it."""

from __future__ import annotations

import json
import logging
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient
from syrupy.assertion import SnapshotAssertion

from compile_hud.app.auth import access
from compile_hud.app.auth.middleware import Guard, guarded
from compile_hud.app.server.owner_routes import owner_routes
from compile_hud.db.jobs.live_log import STATE_VARIABLE
from compile_hud.db.shared import local_sign_in
from compile_hud.db.shared.access_rules import ACCESS_VARIABLE, AccessRules, Role
from compile_hud.db.shared.local_sign_in import load_links
from tests.support.pages.page_elements import visible_text

URL = "http://127.0.0.1:8611"


def write(_request: Request) -> Response:
    return PlainTextResponse("written")


def start(monkeypatch: pytest.MonkeyPatch, **settings: object) -> TestClient:
    """Return a client of a dashboard that `hud serve` has just started."""
    content = {"rules": AccessRules().to_json(), "url": URL, "is_owned": True, **settings}
    monkeypatch.setenv(ACCESS_VARIABLE, json.dumps(content))
    access.child_settings.cache_clear()
    access.owner_sign_in.cache_clear()
    routes = [
        *owner_routes(),
        Route("/", write),
        Route("/write", guarded(write, role=Role.ADMIN), methods=["GET", "POST"]),
    ]
    app = Starlette(routes=routes, middleware=[Middleware(Guard)])
    return TestClient(app, base_url=URL, follow_redirects=False)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[TestClient]:
    monkeypatch.setenv(STATE_VARIABLE, str(tmp_path))
    yield start(monkeypatch)
    access.child_settings.cache_clear()
    access.owner_sign_in.cache_clear()


def link() -> str:
    owner = access.owner_sign_in()
    assert owner is not None
    return owner.link()


def test_a_link_leads_to_the_dashboard_with_a_cookie_that_scripts_cannot_read(
    client: TestClient,
) -> None:
    answer = client.get(link())
    assert (answer.status_code, answer.headers["location"]) == (303, "./")
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("hud_owner_8611=")
    assert {"HttpOnly", "Path=/", "SameSite=strict"} <= set(cookie.split("; "))
    assert client.post("/write").status_code == 200


def test_without_the_cookie_nothing_is_written(
    client: TestClient, words: SnapshotAssertion
) -> None:
    answer = client.post("/write")
    assert answer.status_code == 401
    assert visible_text(answer.text) == words


def test_a_used_link_is_refused_to_another_browser(
    client: TestClient, words: SnapshotAssertion
) -> None:
    used = link()
    client.get(used)
    # The browser that used it opens the dashboard.
    assert client.get(used).headers["location"] == "./"
    client.cookies.clear()
    answer = client.get(used)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers
    assert visible_text(answer.text) == words


def test_a_link_and_a_cookie_of_before_a_restart_are_refused(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.get(link())
    unused, cookies = link(), dict(client.cookies)
    restarted = start(monkeypatch)
    restarted.cookies.update(cookies)
    assert restarted.post("/write").status_code == 401
    assert restarted.get(unused).status_code == 403
    assert restarted.get(link()).status_code == 303


@pytest.mark.parametrize("host", ["evil.test:8611", "localhost.evil.test", "box"])
def test_a_wrong_host_uses_no_link_up(client: TestClient, host: str) -> None:
    answer = client.get(link(), headers={"host": host})
    assert (answer.status_code, "set-cookie" in answer.headers) == (421, False)
    assert client.get(link()).status_code == 303


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        (URL, 200),
        ("http://127.0.0.1:9000", 403),
        ("http://localhost:8611", 403),
        ("https://evil.test", 403),
        ("null", 403),
    ],
)
def test_a_write_of_another_site_is_refused_although_the_cookie_comes_with_it(
    client: TestClient, origin: str, status: int
) -> None:
    client.get(link())
    # Pages of other ports of one host are of one site, so SameSite does not keep the cookie back.
    assert client.post("/write", headers={"origin": origin}).status_code == status


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("HEAD", {}),
        ("GET", {"sec-purpose": "prefetch;prerender"}),
        ("GET", {"purpose": "prefetch"}),
    ],
)
def test_a_program_that_only_looks_uses_no_link_up(
    client: TestClient, method: str, headers: dict[str, str]
) -> None:
    answer = client.request(method, link(), headers=headers)
    assert (answer.status_code, "set-cookie" in answer.headers) == (503, False)
    assert client.get(link()).status_code == 303


def test_no_other_site_and_no_log_hears_of_a_token(
    client: TestClient, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    # The client itself writes the address of each request to a log of its own.
    for name in ("httpx2", "httpx"):
        logging.getLogger(name).disabled = True
    token = link().partition("token=")[2]
    answers = [client.get(link()), client.get(f"/sign-in?token={token}x"), client.get(link())]
    for answer in answers:
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["cache-control"] == "no-store"
        assert token not in answer.text
        assert token not in answer.headers.get("location", "")
    assert token not in caplog.text
    assert token not in "".join(capfd.readouterr())


def test_a_dashboard_without_owner_has_no_links(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, words: SnapshotAssertion
) -> None:
    del client
    answer = start(monkeypatch, is_owned=False).get("/sign-in?token=x")
    assert answer.status_code == 404
    assert visible_text(answer.text) == words


def test_the_link_is_in_a_file_of_the_user_alone_and_changes_with_each_use(
    client: TestClient, tmp_path: Path
) -> None:
    first = link()
    (path,) = (tmp_path / "sign-in").iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [item.url for item in load_links(tmp_path)] == [first]
    client.get(first)
    assert [item.url for item in load_links(tmp_path)] == [link()]
    access.withdraw_link()
    assert list(path.parent.iterdir()) == []


@pytest.mark.usefixtures("client")
def test_the_link_of_a_process_that_died_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link()
    monkeypatch.setattr(local_sign_in, "this_process", lambda: "another")
    access.withdraw_link()
    assert len(load_links(tmp_path)) == 1
    monkeypatch.setattr(local_sign_in, "is_gone", lambda _process: True)
    assert load_links(tmp_path) == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema_version": 2}', "\x00"])
def test_a_broken_file_of_a_link_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "sign-in").mkdir()
    (tmp_path / "sign-in" / "08501.json").write_text(text, encoding="utf-8")
    assert load_links(tmp_path) == []


@pytest.mark.usefixtures("client")
def test_a_state_directory_that_cannot_be_written_costs_only_the_command(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "sign-in").write_text("a file where the folder belongs", encoding="utf-8")
    assert link().startswith(URL)
    assert "sign-in" in caplog.text
    assert load_links(tmp_path) == []
