"""Each endpoint: the objects of the commands, pages, filters, and what has not changed."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from compile_hud.app import clock
from compile_hud.db.alerts.annotations import load_annotations, remove_annotation
from compile_hud.db.store import Store
from tests.support.builders import START, make_alert, make_case, make_run
from tests.support.stores.api_stores import CASE, EAGER
from tests.support.stores.stored_results import save_alerts
from tests.support.terminal import Terminal

API = "/api/v1"
RESULT = f"run-2/results/{CASE.key}"
pytestmark = pytest.mark.usefixtures("stored")


def _get(client: TestClient, path: str) -> Any:
    answer = client.get(f"{API}/{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("runs", "runs"),
        ("runs/run-2/document", "show run-2"),
        (f"runs/{RESULT}", f"show run-2 {CASE.key}"),
        ("runs/latest/results/*full*default*", f"show run-2 {CASE.key}"),
        (f"runs/{RESULT}/kernels", f"kernels show run-2 {CASE.key}"),
        ("alerts", "alerts list"),
        ("metrics?limit=1000", "list metrics"),
        ("alerts?state=all&model=b*", "alerts list --state all --model b*"),
        ("alerts/alert-1", "alerts show alert-1"),
        ("compare?baseline=previous&candidate=latest", "compare previous latest"),
        (
            f"kernels/diff?baseline=previous&candidate=latest&case={CASE.key}",
            f"kernels diff run-1:{CASE.key} run-2:{CASE.key}",
        ),
        (
            "kernels/diff?baseline=run-1&candidate=run-2&case=*default*&candidate_case=default",
            f"kernels diff run-1 run-2 --case {CASE.key}",
        ),
        ("modes", "modes"),
        ("trends", "trends"),
        (
            "trends?days=30&metric=speedup&metric=pass_rate&mode=default&by=model&model=b*",
            "trends --since 30d --metric speedup --metric pass_rate --mode default --by model"
            " --model b*",
        ),
        ("annotations", "annotate list"),
        ("modes?model=b*&cache=warm&calls=10000", "modes --model b* --cache warm --calls 10000"),
        (
            "compare?baseline=run-1&candidate=run-2&fail_above=0.1234567890123456",
            "compare run-1 run-2 --fail-above 0.1234567890123456",
        ),
    ],
)
def test_the_objects_are_those_of_the_command(
    path: str, command: str, client: TestClient, store_path: Path, tmp_path: Path
) -> None:
    terminal = Terminal(tmp_path)
    terminal.clock.advance((clock.now() - terminal.clock()).total_seconds())
    printed = terminal.hud(*command.split(), "--json", "--store", str(store_path))
    expected, content = json.loads(printed.stdout), _get(client, path)
    content = content.get("items", content)
    # Only the address of the dashboard comes from the settings of the command.
    for item in (*_listed(content), *_listed(expected)):
        item.pop("url", None)
    assert content == expected


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("runs?machine=box&suite=nightly&toolchain=stable", ["run-2", "run-1"]),
        ("runs?machine=other", []),
        ("runs?suite=quick", []),
        ("runs/run-2/results", ["run-2-eager", "run-2-default"]),
        ("runs/previous/results?case=eager", ["run-1-eager"]),
        (f"runs/run-2/results?case={CASE.key}", ["run-2-default"]),
        ("alerts?model=unet", []),
        ("alerts?severity=minor&owner=ada", []),
        ("alerts?state=open&state=fixed&mode=default&machine=box&text=bert", ["alert-1"]),
        ("alerts?state=fixed", []),
    ],
)
def test_filters_select(path: str, names: list[str], client: TestClient) -> None:
    assert [item["id"] for item in _get(client, path)["items"]] == names


def test_findings_are_filtered_by_code_and_case(client: TestClient) -> None:
    findings = _get(client, "findings")["items"]
    assert {item["case"] for item in findings} == {CASE.key}
    assert {item["run_id"] for item in findings} == {"run-2"}
    codes = {item["code"] for item in findings}
    assert "graph-break" in codes
    only = _get(client, "findings?run=run-1&code=graph-break&case=default")["items"]
    assert [(item["code"], item["run_id"]) for item in only] == [("graph-break", "run-1")]
    assert _get(client, "findings?case=eager")["items"] == []


def test_a_run_has_its_plan(client: TestClient) -> None:
    run = _get(client, "runs/latest")
    assert run["id"] == "run-2"
    assert [case["model"] for case in run["plan"]] == [EAGER.model, CASE.model]


def test_a_series_is_oldest_first(client: TestClient) -> None:
    points = _get(client, f"series?case={CASE.key}&metric=latency_s")["items"]
    assert [point["run_id"] for point in points] == ["run-1", "run-2"]
    assert points[0]["at"].endswith("+00:00")
    assert _get(client, f"series?case={CASE.key}&metric=latency_s&machine=x")["items"] == []
    here = _get(client, f"series?case={CASE.key}&metric=latency_s&machine=box&toolchain=stable")
    assert here["items"] == points


def test_models_and_machines_are_those_with_results(client: TestClient) -> None:
    assert _get(client, "models")["items"] == [
        {"name": "bert", "measured_on": [{"machine": "box", "toolchain": "stable"}]}
    ]
    (machine,) = _get(client, "machines")["items"]
    assert (machine["machine"], machine["toolchain"]) == ("box", "stable")


@pytest.mark.parametrize("path", ["runs", "alerts?state=all", "runs/run-2/results"])
def test_pages_have_every_item_once(path: str, client: TestClient, store: Store) -> None:
    save_alerts(store, [make_alert(f"more-{name}", case=make_case(name)) for name in "abc"])
    whole = _get(client, path)
    assert whole["next_offset"] is None
    sign = "&" if "?" in path else "?"
    items, offset = [], 0
    while offset is not None:
        page = _get(client, f"{path}{sign}limit=1&offset={offset}")
        assert len(page["items"]) == 1
        items += page["items"]
        offset = page["next_offset"]
    assert items == whole["items"]
    assert _get(client, f"{path}{sign}offset=1000000") == {"items": [], "next_offset": None}


def test_an_unchanged_store_is_not_read_again(
    client: TestClient, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = client.get(f"{API}/runs")
    tag = first.headers["etag"]
    with monkeypatch.context() as patch:
        patch.setattr("compile_hud.db.queries.runs.read_plans", None)
        for known in (tag, f'"other", {tag}', tag.removeprefix("W/")):
            again = client.get(f"{API}/runs", headers={"If-None-Match": known})
            assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    store.save_run(make_run("run-3", started_at=START.replace(day=3)))
    changed = client.get(f"{API}/runs", headers={"If-None-Match": tag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != tag
    assert [run["id"] for run in changed.json()["items"]] == ["run-3", "run-2", "run-1"]


def test_a_release_has_the_report_of_the_command(
    client: TestClient, released: Store, store_path: Path, tmp_path: Path
) -> None:
    assert not released.is_missing()
    command = ("release", "stable", "next", "--report", "--json", "--store", str(store_path))
    printed = Terminal(tmp_path).hud(*command)
    report = _get(client, "releases/report?baseline=stable&candidate=next")
    assert report == json.loads(printed.stdout)
    (item,) = _get(client, "releases")["items"]
    for side, run_id in (("baseline", "release-stable"), ("candidate", "release-next")):
        assert item[side] == report[side]
        assert item[side]["run_id"] == run_id
    assert (item["state"], item["fail_above"]) == ("finished", 0.05)


def test_a_release_that_is_not_stored_is_answered_with_those_that_are(
    client: TestClient, released: Store
) -> None:
    assert not released.is_missing()
    params = {"baseline": "next", "candidate": "stable"}
    answer = client.get(f"{API}/releases/report", params=params)
    assert (answer.status_code, "stable -> next" in answer.json()["detail"]) == (404, True)


def test_trends_are_read_again_on_another_day(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    trends = client.get(f"{API}/trends")
    known = {"If-None-Match": trends.headers["etag"]}
    assert client.get(f"{API}/trends", headers=known).status_code == 304
    tomorrow = clock.now() + timedelta(days=1)
    monkeypatch.setattr(clock, "now", lambda: tomorrow)
    changed = client.get(f"{API}/trends", headers=known)
    assert changed.status_code == 200
    assert changed.json()["since"] > trends.json()["since"]
    runs = client.get(f"{API}/runs").headers["etag"]
    monkeypatch.setattr(clock, "now", lambda: tomorrow + timedelta(days=1))
    assert client.get(f"{API}/runs", headers={"If-None-Match": runs}).status_code == 304


def test_removed_annotations_are_listed_with_all(client: TestClient, store: Store) -> None:
    (note,) = load_annotations(store)
    remove_annotation(store, note.id, by="grace", at=START)
    assert _get(client, "annotations")["items"] == []
    (item,) = _get(client, "annotations?state=all")["items"]
    assert (item["text"], item["removed_by"]) == ("driver 570", "grace")


def test_a_head_request_has_the_headers_only(client: TestClient) -> None:
    answer = client.head(f"{API}/runs")
    assert (answer.status_code, "etag" in answer.headers) == (200, True)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "private, no-cache"


def test_an_empty_store_has_empty_lists(client: TestClient, store_path: Path) -> None:
    store_path.unlink()
    for path in ("runs", "alerts", "models", "machines", "annotations", "releases"):
        assert _get(client, path) == {"items": [], "next_offset": None}
    assert client.get(f"{API}/runs/latest").status_code == 404
