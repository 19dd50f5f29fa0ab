"""Requests that get an error: always JSON with the next step, and never a traceback."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path
from typing import Any

import anyio
import pytest
from httpx2 import ASGITransport, AsyncClient
from starlette.applications import Starlette
from starlette.testclient import TestClient

from compile_hud.app.auth.problems import PROBLEM_TYPE, Problem
from compile_hud.app.server.api import routes
from compile_hud.db.store import Store
from tests.support.builders import make_alert, make_case, make_run
from tests.support.stores.api_stores import CASE
from tests.support.stores.stored_results import save_alerts

API = "/api/v1"


def _problem(client: TestClient, path: str, *, method: str = "GET") -> dict[str, Any]:
    answer = client.request(method, f"{API}/{path}")
    assert answer.headers["content-type"] == PROBLEM_TYPE
    assert answer.headers["cache-control"] == "no-store"
    problem: dict[str, Any] = answer.json()
    assert problem["status"] == answer.status_code
    assert problem["title"] == HTTPStatus(answer.status_code).phrase
    return problem


@pytest.mark.parametrize(
    ("path", "nearest"),
    [
        ("runs?limi=3", "limit"),
        ("alerts?state=opn", "open"),
        ("alerts?severity=majr", "major"),
        ("findings?code=graph-brek", "graph-break"),
        ("modes?cache=wrm", "warm"),
        ("trends?metric=spedup", "speedup"),
        ("compare?baseline=run-1&candidte=run-2", "candidate"),
    ],
)
def test_a_misspelt_parameter_is_answered_with_the_nearest(
    path: str, nearest: str, client: TestClient
) -> None:
    problem = _problem(client, path)
    assert problem["status"] == 400
    assert problem["hint"].startswith(f"Did you mean {nearest}")


@pytest.mark.usefixtures("stored")
@pytest.mark.parametrize(
    ("path", "nearest"),
    [
        ("runs/lates", "latest"),
        ("runs/latest/results/defalt", "default"),
        ("series?case=bert/inference/full/fp32/defalt/cpu&metric=latency_s", CASE.key),
        (f"series?case={CASE.key}&metric=latncy_s", "latency_s"),
        ("modes?model=brt", "bert"),
        ("trends?days=9999&model=brt", "bert"),
        ("kernels/diff?baseline=run-1&candidate=run-2&case=brt", "bert"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest(
    path: str, nearest: str, client: TestClient
) -> None:
    problem = _problem(client, path)
    assert problem["status"] == 404
    assert f"Did you mean {nearest}" in problem["detail"]


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("runs?limit=0", "1 to 1000, not '0'"),
        ("runs?limit=1001", "not '1001'"),
        ("runs?limit=-1", "not '-1'"),
        ("runs?limit=ten", "not 'ten'"),
        ("runs?limit=1.5", "not '1.5'"),
        ("runs?limit=1_0", "not '1_0'"),
        ("runs?limit=%D9%A3", "whole number"),
        ("runs?limit=" + "9" * 1999, "whole number"),
        ("runs?limit=" + "9" * 5000, "5000 characters"),
        ("runs?offset=99999999999", "from 0 to 1000000, not"),
        ("runs?limit=1&limit=2", "2 times"),
        ("compare?baseline=a&candidate=b&fail_above=nan", "fail_above"),
        ("compare?baseline=a&candidate=b&fail_above=1e9", "fail_above"),
        ("trends?days=10000", "1 to 9999"),
        ("compare?baseline=a", "'candidate' is missing"),
        ("series?case=a", "'metric' is missing"),
        ("alerts?model=a%00b", "NUL character"),
        ("alerts?model=%ff%fe", "no UTF-8"),
        ("runs/%00", "NUL character"),
        ("runs/latest/results/%ff", "no UTF-8"),
        ("alerts?text=" + "x" * 2001, "2001 characters"),
        ("runs?x%00y=1", "no parameter"),
    ],
)
def test_an_invalid_value_is_refused(path: str, text: str, client: TestClient) -> None:
    problem = _problem(client, path)
    assert problem["status"] == 400
    assert text in problem["detail"]
    assert len(problem["detail"]) < 200


@pytest.mark.parametrize(
    "path",
    [
        "",
        "run",
        "openapi.yaml",
        "runs/latest/results",
        "../v2/runs",
        "runs%0A",
        "%0A",
        "runs/latest/results/%0A%24/kernels",
        "series/",
        "%2e%2e/x",
    ],
)
def test_an_unknown_path_or_object_is_not_there(path: str, client: TestClient) -> None:
    assert _problem(client, path)["status"] == 404


@pytest.mark.parametrize("path", ["/api", "/api/", "/api/v1", "/api/v2/runs"])
def test_every_path_of_the_api_is_answered_with_json(path: str, client: TestClient) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (404, PROBLEM_TYPE)


def test_an_unknown_path_is_answered_with_the_nearest(client: TestClient) -> None:
    assert _problem(client, "alrts")["hint"].startswith("Did you mean /api/v1/alerts")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "FOO"])
@pytest.mark.parametrize("path", ["runs", "openapi.json", "alerts/alert-1"])
def test_nothing_is_written(method: str, path: str, client: TestClient) -> None:
    assert _problem(client, path, method=method)["status"] == 405
    assert client.request(method, f"{API}/{path}").headers["allow"] == "GET, HEAD"


@pytest.mark.usefixtures("locked")
def test_a_locked_store_says_when_to_ask_again(client: TestClient) -> None:
    problem = _problem(client, "runs")
    assert problem["status"] == 503
    assert client.get(f"{API}/runs").headers["retry-after"] == "5"


def test_a_damaged_store_is_an_error_of_the_store(client: TestClient, store_path: Path) -> None:
    store_path.write_bytes(b"not a store")
    problem = _problem(client, "runs")
    assert (problem["status"], "damaged" in problem["detail"]) == (503, True)


@pytest.mark.parametrize(
    "name",
    [
        "a/b", "../../etc/passwd", "<script>alert(1)</script>", "a b?c#d", "%", "'; drop table run",
        "\u202eevil", "\U0001f600", "[", "*", "x" * 400, "\n",
    ],
)  # fmt: skip
def test_hostile_names_are_names(name: str, client: TestClient, store: Store) -> None:
    case = make_case(name)
    store.save_run(make_run("run-1", plan=(case,), suite=name))
    save_alerts(store, [make_alert("alert-1", case=case)])
    answer = client.get(f"{API}/runs", params={"suite": name})
    assert [run["suite"] for run in answer.json()["items"]] == [name]
    assert client.get(f"{API}/runs/run-1").json()["plan"][0]["model"] == name
    (alert,) = client.get(f"{API}/alerts").json()["items"]
    assert alert["model"] == name
    for path in ("alerts", "runs/run-1/results", "findings"):
        params = {"model": name} if path == "alerts" else {"case": name}
        assert client.get(f"{API}/{path}", params=params).status_code == 200
    assert client.get(f"{API}/series", params={"case": name, "metric": name}).status_code == 404


def test_a_file_is_no_run(client: TestClient, stored: Store, tmp_path: Path) -> None:
    """`hud compare` takes files; a request must not read those of the server."""
    assert not stored.is_missing()
    path = tmp_path / "result.json"
    path.write_text("{}")
    answer = client.get(f"{API}/compare", params={"baseline": str(path), "candidate": "latest"})
    assert answer.status_code == 404


def test_no_more_requests_wait_than_a_thread_answers_in_time(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert store.is_missing()
    monkeypatch.setattr(routes, "MAX_WAITING", 2)

    async def ask(statuses: list[int], *, number: int) -> None:
        transport = ASGITransport(Starlette(routes=routes.api_routes()))
        async with (
            AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
            anyio.create_task_group() as group,
        ):

            async def one() -> None:
                statuses.append((await client.get(f"{API}/runs")).status_code)

            for _ in range(number):
                group.start_soon(one)

    async def ask_all() -> list[int]:
        statuses: list[int] = []
        await ask(statuses, number=5)
        await ask(statuses, number=1)
        return statuses

    *crowd, later = anyio.run(ask_all)
    assert sorted(crowd) == [200, 200, 503, 503, 503]
    assert later == 200


def test_a_problem_is_its_text() -> None:
    problem = Problem(HTTPStatus.NOT_FOUND, "no run", hint="list them", Retry_After="5")
    assert (str(problem), problem.headers) == ("no run", {"Retry-After": "5"})


@pytest.mark.parametrize("path", ["runs/%00", "runs/%2e%2e", "runs/latest/results/a%2F..%2Fb"])
def test_a_path_that_no_file_may_have_is_a_problem(path: str, guarded: TestClient) -> None:
    problem = _problem(guarded, path)
    assert problem["status"] == 400
    assert problem["hint"]
