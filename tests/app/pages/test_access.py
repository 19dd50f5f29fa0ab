"""Roles of viewers and triagers: on pages, in routes, and in functions that write."""

from __future__ import annotations

import dataclasses
import json
import os
import socket
from datetime import timedelta
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient
from starlette.websockets import WebSocket, WebSocketDisconnect
from syrupy.assertion import SnapshotAssertion

from compile_hud.app import clock
from compile_hud.app.auth import access
from compile_hud.app.auth import middleware as guard
from compile_hud.app.data import triage
from compile_hud.app.data.triage import DecisionNote, Undo
from compile_hud.db.queries.alerts import load_alert, load_changes, load_series_settings
from compile_hud.db.records.alerts import AlertState
from compile_hud.db.shared.access_rules import ACCESS_VARIABLE, AccessRules, Role
from compile_hud.db.store import Store
from tests.app.alerts.test_alerts import ID
from tests.app.conftest import OpenPage, SignIn
from tests.support.pages.page_elements import text_of, texts_of, texts_of_rows, visible_text
from tests.support.stores import dashboard_stores

# Streamlit's name of it.
USER_COOKIE_NAME = "_streamlit_user"

URL = "https://hud.example.org"
SECRET = "0123456789abcdef0123456789abcdef"


@pytest.fixture
def store(seeded: Path) -> Store:
    """Return the filled store that the pages show."""
    return Store(f"duckdb:///{seeded}")


def labels(page: object) -> list[str]:
    return [button.label for button in page.button]  # type: ignore[attr-defined]


@pytest.mark.usefixtures("store")
def test_dashboard_without_sign_in_only_shows(
    open_page: OpenPage, words: SnapshotAssertion
) -> None:
    page = open_page("alerts", alert=ID)
    assert "bert / default: latency +20.0 %" in text_of(page)
    assert texts_of(page, "notice") == words
    assert labels(page) == []


@pytest.mark.usefixtures("store")
def test_a_page_is_empty_before_signing_in(
    sign_in: SignIn, open_page: OpenPage, words: SnapshotAssertion
) -> None:
    sign_in("")
    page = open_page("alerts", alert=ID)
    assert texts_of(page, "empty") == words
    assert "bert" not in text_of(page)
    assert "hud.duckdb" not in text_of(page)
    assert labels(page) == ["Sign in"]


@pytest.mark.usefixtures("store")
def test_sign_in_that_is_over_is_reported(sign_in: SignIn, open_page: OpenPage) -> None:
    sign_in("tom", iat=(dashboard_stores.NOW - timedelta(hours=13)).timestamp())
    assert "your sign-in is over." in text_of(open_page("overview")).lower()


@pytest.mark.usefixtures("store")
def test_viewer_looks_and_has_no_form(
    sign_in: SignIn, open_page: OpenPage, words: SnapshotAssertion
) -> None:
    sign_in("eve")
    page = open_page("alerts", alert=ID)
    assert texts_of(page, "notice") == words
    assert "eve@example.org (viewer)" in text_of(page)
    assert labels(page) == ["Sign out"]


def test_triager_decides_under_the_own_name(
    store: Store, sign_in: SignIn, open_page: OpenPage
) -> None:
    sign_in("tom")
    page = open_page("alerts", alert=ID)
    assert "Your name" not in [item.label for item in page.text_input]
    assert "Save the floor" not in labels(page)
    page.button("decide-noise").click()
    page.run()
    assert [item.by for item in load_changes(store, alert_id=ID)] == ["tom@example.org"]


def test_admin_sets_the_floor_of_the_series_and_takes_it_back(
    store: Store, sign_in: SignIn, open_page: OpenPage
) -> None:
    sign_in("ada")
    page = open_page("alerts", alert=ID)
    page.number_input[0].set_value(7.5)
    page.button("decide-floor").click()
    page.run()
    key = load_alert(store, ID).series_key
    assert [(item.pattern, item.floor) for item in load_series_settings(store)] == [(key, 0.075)]
    assert page.number_input[0].value == 7.5
    page.number_input[0].set_value(None)
    page.button("decide-floor").click()
    page.run()
    assert [item.floor for item in load_series_settings(store)] == [None]
    assert {item.by for item in load_changes(store)} == {"ada@example.org"}


@pytest.mark.parametrize("name", ["", "eve"])
def test_writing_is_refused_whatever_a_page_has_shown(
    name: str, store: Store, sign_in: SignIn
) -> None:
    sign_in(name)
    alert = load_alert(store, ID)
    note = DecisionNote(author="ada@example.org", reason="let me")
    muted = dataclasses.replace(alert, muted_until=dashboard_stores.NOW + timedelta(days=9))
    settings = triage.load_settings(alert)
    messages = [
        triage.decide_state([alert], AlertState.NOISE, note=note).problem,
        triage.decide_care([alert], [muted], note=note).problem,
        triage.comment([alert], note=note).problem,
        triage.take_back(Undo(before=(alert,), after=(alert,)), note=note),
        triage.decide_floor(settings, 0.5, note=note),
    ]
    assert all(text.startswith("Not saved: ") for text in messages)
    assert all(("sign in" if not name else "is a viewer") in text for text in messages)
    assert load_changes(store) == ()
    assert load_alert(store, ID) == alert


@pytest.mark.parametrize("name", ["", "eve", "tom"])
def test_a_missing_role_is_refused_with_a_reason(name: str, sign_in: SignIn) -> None:
    sign_in(name)
    with pytest.raises(access.NotAllowed, match="takes an admin"):
        access.require(access.present(), Role.ADMIN)


def test_floor_is_not_a_triagers(store: Store, sign_in: SignIn, words: SnapshotAssertion) -> None:
    sign_in("tom")
    settings = triage.load_settings(load_alert(store, ID))
    outcome = triage.decide_floor(settings, 0.5, note=DecisionNote())
    assert outcome == words
    assert load_series_settings(store) == ()


def test_a_floor_set_meanwhile_by_another_user_stays(
    store: Store, sign_in: SignIn, words: SnapshotAssertion
) -> None:
    sign_in("ada")
    settings = triage.load_settings(load_alert(store, ID))
    assert triage.decide_floor(settings, 0.2, note=DecisionNote()) == ""
    # The same again is no news, another value is that of somebody who has not read this one.
    assert triage.decide_floor(settings, 0.2, note=DecisionNote()) == ""
    assert triage.decide_floor(settings, 0.3, note=DecisionNote()) == words
    assert [item.floor for item in load_series_settings(store)] == [0.2]


def test_decision_that_is_sent_again_is_refused(
    store: Store, sign_in: SignIn, words: SnapshotAssertion
) -> None:
    sign_in("tom")
    alert = load_alert(store, ID)
    note = DecisionNote(reason="a")
    assert triage.decide_state([alert], AlertState.NOISE, note=note).problem == ""
    assert triage.decide_state([alert], AlertState.NOISE, note=note).problem == words
    assert len(load_changes(store, alert_id=ID)) == 1


def test_role_that_is_taken_away_is_gone_before_the_next_click(
    store: Store, sign_in: SignIn, open_page: OpenPage
) -> None:
    sign_in("tom")
    page = open_page("alerts", alert=ID)
    sign_in("eve")
    page.button("decide-noise").click()
    page.run()
    assert "eve@example.org is a viewer" in text_of(page)
    assert load_alert(store, ID).state is AlertState.OPEN


def test_names_of_people_are_text(sign_in: SignIn, store: Store, open_page: OpenPage) -> None:
    sign_in("tom", email="<b>tom</b>@example.org", groups=["x"])
    assert "&lt;b&gt;tom" in "".join(
        str(item.proto.body) for item in open_page("alerts", alert=ID).get("html")
    )
    assert texts_of_rows(open_page("alerts"), "events")
    assert load_changes(store) == ()


@pytest.fixture
def sign_in_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hand over a sign-in whose lists are in a hud.toml, and return that."""
    path = tmp_path / "hud.toml"
    path.write_text('[auth]\ntriagers = "tom@example.org"\n', encoding="utf-8")
    rules = AccessRules(issuer="https://login.example.org", client_id="hud", anonymous=None)
    settings = {
        "rules": rules.to_json(),
        "path": str(path),
        "url": URL,
        "scope": "openid",
        "client_secret": "hush",
        "cookie_secret": SECRET,
    }
    monkeypatch.setattr(clock, "now", lambda: dashboard_stores.NOW)
    monkeypatch.setenv(ACCESS_VARIABLE, json.dumps(settings))
    for cached in (access.child_settings, access._rules_in, access._ended, guard.cookie_secret):
        cached.cache_clear()
    yield path
    for cached in (access.child_settings, access._rules_in, access._ended, guard.cookie_secret):
        cached.cache_clear()


def user_claims(name: str = "tom") -> dict[str, object]:
    return {
        "iss": "https://login.example.org",
        "aud": "hud",
        "sub": name,
        "iat": dashboard_stores.NOW.timestamp() - 60,
        "email": f"{name}@example.org",
        "email_verified": True,
    }


def cookie(*, secret: str = SECRET, origin: str = URL, name: str = "tom") -> dict[str, str]:
    from streamlit.web.server.starlette.starlette_app_utils import create_signed_value

    content = json.dumps({**user_claims(name), "origin": origin, "is_logged_in": True})
    return {USER_COOKIE_NAME: create_signed_value(secret, USER_COOKIE_NAME, content).decode()}


@pytest.mark.usefixtures("sign_in_config")
def test_secrets_are_taken_out_of_the_environment_and_are_not_shown() -> None:
    child_settings = access.child_settings()
    assert ACCESS_VARIABLE not in os.environ
    assert child_settings.client_secret == "hush"
    assert "hush" not in repr(child_settings)
    assert SECRET not in repr(child_settings)


def test_lists_are_read_again_when_the_file_changes(sign_in_config: Path) -> None:
    assert access.person_from_claims(user_claims()).role is Role.TRIAGER
    sign_in_config.write_text('[auth]\nadmins = ["tom@example.org"]\n', encoding="utf-8")
    assert access.person_from_claims(user_claims()).role is Role.ADMIN


@pytest.mark.parametrize("text", ["[auth", "[auth]\nadmins = 7", "auth = 1", None])
def test_a_broken_file_gives_no_role(sign_in_config: Path, text: str | None) -> None:
    if text is None:
        sign_in_config.unlink()
    else:
        sign_in_config.write_text(text, encoding="utf-8")
    assert access.person_from_claims(user_claims()).role is None


def open_route(_request: Request) -> Response:
    return PlainTextResponse("secret numbers")


def callback(request: Request) -> Response:
    """Answer as Streamlit does: always to the first page, with a cookie for who got in."""
    answer = RedirectResponse("/", status_code=302)
    if request.query_params.get("code") == "good":
        answer.set_cookie(USER_COOKIE_NAME, "signed")
    else:
        answer.delete_cookie(USER_COOKIE_NAME)
    return answer


async def stream(websocket: WebSocket) -> None:
    await websocket.accept()
    await websocket.send_text("secret numbers")


@pytest.fixture
def client(sign_in_config: Path) -> TestClient:  # noqa: ARG001
    """Return a client of a guarded route and of what stands for Streamlit's."""
    routes = [
        Route("/numbers", guard.guarded(open_route)),
        Route("/healthz", open_route),
        Route("/media/{name}", open_route),
        Route("/_stcore/upload_file/{session}/{file}", open_route, methods=["PUT", "DELETE"]),
        WebSocketRoute("/_stcore/stream", stream),
        Route("/auth/login", callback),
        Route("/auth/logout", callback),
        Route("/oauth2callback", callback),
    ]
    paths = [route.path for route in routes]
    app = Starlette(routes=routes, middleware=[Middleware(guard.Guard, paths=paths)])
    return TestClient(app, base_url=URL, follow_redirects=False)


@pytest.mark.parametrize(
    "path",
    ["/overveiw", "/no.page", "/nowhere/at/all", "/nowhere.at/all", "/healthz/x", "/%3Cb%3E/x"],
)
def test_an_unknown_page_is_answered_with_404(
    client: TestClient, path: str, words: SnapshotAssertion
) -> None:
    answer = client.get(path, headers=sent_as(cookie()))
    shown = path.replace("%3C", "&lt;").replace("%3E", "&gt;")
    assert f" {shown}." in answer.text
    assert visible_text(answer.text) == words
    assert 'href="/"' in answer.text
    assert answer.status_code == 404


@pytest.mark.parametrize("path", ["/healthz", "/media/x", "/favicon.png", "/_stcore/other"])
def test_other_routes_are_not_answered_by_the_page_of_404(client: TestClient, path: str) -> None:
    answer = client.get(path, headers=sent_as(cookie()))
    assert "Compile HUD" not in answer.text


def test_an_error_about_a_long_address_is_short(client: TestClient) -> None:
    answer = client.get(f"/{'a' * 4000}/b", headers=sent_as(cookie()))
    assert answer.status_code == 404
    assert len(answer.text) < 1000


def sent_as(sent: dict[str, str]) -> dict[str, bytes]:
    text = "; ".join(f"{name}={value}" for name, value in sent.items())
    return {"cookie": text.encode("latin-1")}


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ({}, 401),
        (cookie(), 200),
        (cookie(secret="another"), 401),
        (cookie(origin="https://evil.example.org"), 401),
        ({USER_COOKIE_NAME: "nonsense"}, 401),
        ({USER_COOKIE_NAME: "\u00e9"}, 401),
    ],
)
def test_a_route_needs_a_sign_in_of_this_server(
    client: TestClient, sent: dict[str, str], status: int
) -> None:
    answer = client.get("/numbers", headers=sent_as(sent))
    assert answer.status_code == status
    assert ("secret numbers" in answer.text) is (status == 200)


def test_a_route_needs_a_role(client: TestClient, sign_in_config: Path) -> None:
    sign_in_config.write_text('[auth]\nviewers = "*@elsewhere.org"\n', encoding="utf-8")
    answer = client.get("/numbers", headers=sent_as(cookie()))
    assert (answer.status_code, "tom@example.org is nobody" in answer.text) == (403, True)


def test_the_cookie_of_a_signed_out_user_is_refused(
    client: TestClient, words: SnapshotAssertion
) -> None:
    assert client.get("/numbers", headers=sent_as(cookie())).status_code == 200
    client.get("/auth/logout", headers=sent_as(cookie()))
    answer = client.get("/numbers", headers=sent_as(cookie()))
    assert answer.status_code == 401
    assert visible_text(answer.text) == words
    assert client.get("/numbers", headers=sent_as(cookie(name="eve"))).status_code == 200


@pytest.mark.parametrize(
    ("referer", "back"),
    [
        (f"{URL}/alerts?alert=a%2F1", "/alerts?alert=a%2F1"),
        (f"{URL}/", "/"),
        ("https://evil.example.org/alerts", "/"),
        (f"{URL}//evil.example.org", "/"),
        (f"{URL}/auth/logout", "/"),
        (f"{URL}/" + "x" * 3000, "/"),
        (f"{URL}/\\evil.example.org", "/"),
    ],
)
def test_one_comes_back_to_the_page_one_came_from_and_to_no_other_site(
    client: TestClient, referer: str, back: str
) -> None:
    login = client.get("/auth/login", headers={"referer": referer})
    sent = [part.split(";")[0] for part in login.headers.get_list("set-cookie")]
    answer = client.get(
        "/oauth2callback?code=good&state=s",
        headers={"cookie": "; ".join(item for item in sent if item.startswith("hud_back="))},
    )
    assert (answer.status_code, answer.headers["location"]) == (302, back)


@pytest.mark.parametrize("value", ["//evil.example.org", "https://evil.example.org", "%2F%2Fx"])
def test_forged_way_back_leads_to_the_first_page(client: TestClient, value: str) -> None:
    sent = {"cookie": f"hud_back={value}"}
    answer = client.get("/oauth2callback?code=good&state=s", headers=sent)
    assert answer.headers["location"] == "/"


@pytest.mark.parametrize("query", ["state=s&code=bad", "error=access_denied"])
def test_sign_in_that_fails_reports_it(
    client: TestClient, query: str, words: SnapshotAssertion
) -> None:
    answer = client.get(f"/oauth2callback?{query}")
    assert answer.status_code == 403
    assert visible_text(answer.text) == words
    assert f"{USER_COOKIE_NAME}=" in answer.headers["set-cookie"]


def test_way_back_from_signing_out_is_no_failure(client: TestClient) -> None:
    assert client.get("/oauth2callback").headers["location"] == "/"


def test_files_of_pages_need_the_role_of_a_viewer(client: TestClient) -> None:
    assert client.get("/media/1.csv").status_code == 401
    assert client.get("/media/1.csv", headers=sent_as(cookie())).status_code == 200


@pytest.mark.parametrize(
    ("host", "is_allowed"),
    [
        ("hud.example.org", True),
        ("localhost:8501", True),
        ("127.0.0.1:8501", True),
        ("[::1]:8501", True),
        ("10.0.0.7", True),
        ("evil.example.org", False),
        ("hud.example.org.evil.net", False),
        ("127.0.0.1.evil.net", False),
    ],
)
def test_name_that_another_site_gives_this_machine_is_refused(
    host: str, is_allowed: bool, client: TestClient
) -> None:
    headers = {**sent_as(cookie()), "host": host.encode()}
    assert client.get("/numbers", headers=headers).status_code == (200 if is_allowed else 421)
    assert client.get("/healthz", headers=headers).status_code == 200
    if is_allowed:
        with client.websocket_connect("/_stcore/stream", headers=headers) as socket:
            assert socket.receive_text() == "secret numbers"
    else:
        with (
            pytest.raises(WebSocketDisconnect),
            client.websocket_connect("/_stcore/stream", headers=headers),
        ):
            pass


@pytest.fixture
def open_client(monkeypatch: pytest.MonkeyPatch) -> TestClient:
    """Return a client of a server without sign-in, which listens on all addresses."""
    monkeypatch.setenv(access.LISTEN_VARIABLE, "0.0.0.0")
    monkeypatch.setattr(socket, "gethostname", lambda: "Lab3")
    for name in (access.TOKEN_VARIABLE, access.TOKEN_FILE_VARIABLE):
        monkeypatch.delenv(name, raising=False)
    access.child_settings.cache_clear()
    paths = ("/numbers", "/healthz", "/readyz", "/metrics")
    routes = [
        *(Route(path, guard.guarded(open_route)) for path in paths),
        Route("/_stcore/upload_file/{session}/{file}", open_route, methods=["PUT", "GET"]),
        WebSocketRoute("/_stcore/stream", stream),
    ]
    app = Starlette(routes=routes, middleware=[Middleware(guard.Guard)])
    return TestClient(app, base_url="http://127.0.0.1:8501", follow_redirects=False)


@pytest.mark.parametrize(
    ("host", "is_allowed"),
    [("lab3:8501", True), ("192.168.7.9", True), ("lab3.evil.test", False), ("other.test", False)],
)
def test_a_server_without_sign_in_checks_the_name_too(
    open_client: TestClient, host: str, is_allowed: bool
) -> None:
    for path in ("/numbers", "/readyz", "/metrics"):
        answer = open_client.get(path, headers={"host": host})
        assert answer.status_code == (200 if is_allowed else 421)
    assert open_client.get("/healthz", headers={"host": host}).status_code == 200


def test_the_name_that_a_server_listens_on_is_its_own(
    open_client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(access.LISTEN_VARIABLE, "Bench.lan")
    for host, status in (("bench.lan", 200), ("lab3", 421)):
        assert open_client.get("/numbers", headers={"host": host}).status_code == status


def test_probes_with_a_token_use_any_name(
    open_client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(access.TOKEN_FILE_VARIABLE, "/run/secrets/token")
    headers = {"host": "metrics.inner.test"}
    for path, status in (("/readyz", 200), ("/metrics", 200), ("/numbers", 421)):
        assert open_client.get(path, headers=headers).status_code == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"name": "vera"}, 403),
        ({"name": "tom", "secret": "another"}, 403),
        ({"name": "tom"}, 200),
    ],
)
def test_a_file_takes_a_sign_in_with_the_role(
    client: TestClient, headers: dict[str, str], status: int
) -> None:
    sent = sent_as(cookie(**headers)) if headers else {}
    for method in ("PUT", "DELETE"):
        answer = client.request(method, "/_stcore/upload_file/s/f", headers=sent)
        assert answer.status_code == status


@pytest.mark.parametrize("method", ["PUT", "GET", "DELETE", "OPTIONS"])
def test_a_server_without_sign_in_takes_no_file(open_client: TestClient, method: str) -> None:
    answer = open_client.request(method, "/_stcore/upload_file/s/f", content=b"x" * 4096)
    assert answer.status_code == 403
    assert "secret numbers" not in answer.text


@pytest.mark.parametrize(
    ("origin", "is_allowed"),
    [
        ("http://127.0.0.1:8501", True),
        (None, True),
        ("http://127.0.0.1:9000", False),
        ("http://localhost:8501", False),
        ("https://other.test", False),
        ("http://[::1", False),
        ("null", False),
        ("", False),
    ],
)
def test_a_session_is_for_pages_of_this_server_and_no_name_is_looked_up(
    open_client: TestClient,
    monkeypatch: pytest.MonkeyPatch,
    origin: str | None,
    is_allowed: bool,
) -> None:
    def no_lookup(*_arguments: object, **_options: object) -> None:
        raise AssertionError("a name was looked up")

    for name in ("getaddrinfo", "gethostbyname", "getfqdn"):
        monkeypatch.setattr(socket, name, no_lookup)
    headers = {"host": "127.0.0.1:8501"} | ({} if origin is None else {"origin": origin})
    if is_allowed:
        with open_client.websocket_connect("/_stcore/stream", headers=headers) as session:
            assert session.receive_text() == "secret numbers"
        return
    with (
        pytest.raises(WebSocketDisconnect),
        open_client.websocket_connect("/_stcore/stream", headers=headers),
    ):
        pass


@pytest.mark.parametrize("origin", [URL, "https://evil.example.org"])
def test_a_proxy_may_replace_the_host_name_of_its_own_pages(
    client: TestClient, origin: str
) -> None:
    headers = {**sent_as(cookie()), "host": "127.0.0.1:8501", "origin": origin}
    if origin == URL:
        with client.websocket_connect("/_stcore/stream", headers=headers) as session:
            assert session.receive_text() == "secret numbers"
        return
    with (
        pytest.raises(WebSocketDisconnect),
        client.websocket_connect("/_stcore/stream", headers=headers),
    ):
        pass


def test_answers_cannot_be_framed_and_cookies_are_secure(client: TestClient) -> None:
    answer = client.get("/numbers", headers=sent_as(cookie()))
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "same-origin"
    for path in ("/oauth2callback?code=good&state=s", "/auth/login"):
        cookies = client.get(path).headers.get_list("set-cookie")
        assert cookies
        assert all("; secure" in item.lower() for item in cookies)
