"""Authorization of the API: by a token, by a sign-in, and on an open dashboard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from compile_hud.app.auth import access
from compile_hud.app.auth.access import API_TOKEN_FILE_VARIABLE, API_TOKEN_VARIABLE
from compile_hud.app.auth.middleware import Guard
from compile_hud.app.server.api import authorization
from compile_hud.app.server.api.routes import api_routes
from compile_hud.db.shared.access_rules import Person, Role

RUNS = "/api/v1/runs"
TOKEN = {"Authorization": "Bearer s3cret"}


def by_variable(_folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Set the token itself."""
    patch.setenv(API_TOKEN_VARIABLE, "s3cret")


def by_file(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Name a file with the token."""
    (folder / "token").write_text("s3cret\n", encoding="ascii")
    patch.setenv(API_TOKEN_FILE_VARIABLE, str(folder / "token"))


@pytest.mark.parametrize("give", [by_variable, by_file])
@pytest.mark.parametrize("path", [RUNS, "/api/v1/openapi.json", "/api/v1/unknown"])
def test_a_set_token_is_required(
    give: Callable[[Path, pytest.MonkeyPatch], None],
    path: str,
    client: TestClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    give(tmp_path, monkeypatch)
    for header in ("", "Bearer", "Bearer wrong", "s3cret", "Basic s3cret", "Bearer s3cret2"):
        answer = client.get(path, headers={"Authorization": header} if header else {})
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "s3cret" not in answer.text
    raw = client.get(path, headers={b"Authorization": b"Bearer \xff\xe9"})
    assert raw.status_code == 401
    for scheme in ("Bearer", "bearer", "BEARER"):
        answer = client.get(path, headers={"Authorization": f"{scheme} s3cret"})
        assert answer.status_code in (200, 404)


def test_without_a_token_the_api_is_open_as_the_pages_are(client: TestClient) -> None:
    assert client.get(RUNS).status_code == 200
    assert client.get(RUNS, headers=TOKEN).status_code == 200


def test_an_empty_token_file_is_no_token(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "token").touch()
    monkeypatch.setenv(API_TOKEN_FILE_VARIABLE, str(tmp_path / "token"))
    assert client.get(RUNS).status_code == 200


def test_a_token_file_that_is_missing_opens_nothing(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(API_TOKEN_FILE_VARIABLE, str(tmp_path / "missing"))
    answer = client.get(RUNS, headers=TOKEN)
    assert (answer.status_code, str(tmp_path) in answer.text) == (503, False)


@pytest.mark.parametrize(
    ("person", "has_token", "status"),
    [
        (Person(), False, 401),
        (Person(), True, 401),
        # A role without a sign-in, as `[auth] anonymous` gives it.
        (Person(role=Role.VIEWER), False, 200),
        (Person(role=Role.VIEWER), True, 401),
        (Person(name="eve", session="s"), False, 403),
        (Person(name="eve", session="s"), True, 403),
        (Person(name="ada", session="s", role=Role.VIEWER), False, 200),
        (Person(name="ada", session="s", role=Role.ADMIN), True, 200),
    ],
)
def test_people_who_may_view_the_dashboard_may_read(
    person: Person,
    has_token: bool,
    status: int,
    client: TestClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(authorization, "person_of_request", lambda _request: person)
    if has_token:
        monkeypatch.setenv(API_TOKEN_VARIABLE, "s3cret")
    assert client.get(RUNS).status_code == status
    if has_token:
        assert client.get(RUNS, headers=TOKEN).status_code == 200


@pytest.mark.usefixtures("store_path")
def test_a_strange_host_name_is_refused_without_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other containers name the dashboard as they like; pages of other sites have no token."""
    routes = api_routes()
    guard = Guard(Starlette(routes=routes), paths=[route.path for route in routes])
    with TestClient(guard, base_url="http://dashboard.internal") as client:
        problem = client.get(RUNS).json()
        assert (problem["status"], API_TOKEN_VARIABLE in problem["hint"]) == (421, True)
        monkeypatch.setenv(API_TOKEN_VARIABLE, "s3cret")
        assert access.has_api_token()
        assert client.get(RUNS).status_code == 401
        assert client.get(RUNS, headers=TOKEN).status_code == 200
        assert client.get("/api/v1/zzz", headers=TOKEN).json()["status"] == 404
        assert client.get("/runs", headers=TOKEN).status_code == 421


def test_a_page_of_another_site_is_refused_with_json() -> None:
    routes = api_routes()
    guard = Guard(Starlette(routes=routes), paths=[route.path for route in routes])
    with TestClient(guard, base_url="http://127.0.0.1") as client:
        answer = client.post(RUNS, headers={"Origin": "https://other.example"})
    assert (answer.status_code, answer.json()["status"]) == (403, 403)
