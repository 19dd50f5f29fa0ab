"""Routes for monitoring: their content, their token, and the rate of reads of the store."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from prometheus_client.openmetrics import parser
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import update
from starlette.applications import Starlette
from starlette.testclient import TestClient

from compile_hud.app.auth import access
from compile_hud.app.auth.access import TOKEN_FILE_VARIABLE, TOKEN_VARIABLE, ChildSettings
from compile_hud.app.data import operations as metrics_data
from compile_hud.app.data.operations import MAX_AGE_S, Desk, OperationalFigures
from compile_hud.app.data.result_figures import ResultFigures, load_result_figures
from compile_hud.app.data.store import URL_VARIABLE, current_version
from compile_hud.app.server.metrics_routes import metrics_routes
from compile_hud.app.server.prometheus import exposition
from compile_hud.db.jobs.health import DiskState, SchedulerState, ScheduleState, save_scheduler
from compile_hud.db.jobs.operations import load_operations
from compile_hud.db.records.results import RunState
from compile_hud.db.records.triage import Revision
from compile_hud.db.schema.tables import AlertTable
from compile_hud.db.store import Store
from tests.store.maintenance.test_backup import Opened
from tests.support.builders import START, make_alert, make_case, make_notification, make_run
from tests.support.sources import ROOT
from tests.support.stores.stored_results import save_alerts
from tests.support.stores.trend_stores import fill_trends

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of the store that is asked, and forget what others were answered."""
    url = f"duckdb:///{tmp_path}/hud.duckdb"
    monkeypatch.setenv(URL_VARIABLE, url)
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    monkeypatch.delenv(TOKEN_FILE_VARIABLE, raising=False)
    metrics_data.desk.cache_clear()
    return url


@pytest.fixture
def client(url: str) -> TestClient:
    """Return a client of the routes."""
    assert url
    return TestClient(Starlette(routes=metrics_routes()))


def samples_of(text: str) -> Samples:
    """Return what Prometheus' own parser reads."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def filled(url: str) -> Store:
    """Return a store with a run and a scheduler whose machine has a strange name."""
    store = Store(url)
    store.save_run(make_run(state=RunState.FINISHED, finished_at=START))
    disk = DiskState(name="state", path="/data", free_bytes=10, total_bytes=20)
    rule = ScheduleState(name="nightly", suite="nightly", toolchain="a", rule="", next_at=START)
    state = SchedulerState(
        machine='b"o\\x\n',
        process="h/1/2",
        version="0.1.0",
        started_at=START,
        heartbeat_at=START,
        schedules=(rule,),
        disks=(disk,),
        num_waiting=3,
    )
    save_scheduler(store, state)
    return store


def test_prometheus_reads_how_everything_does(url: str) -> None:
    operations = load_operations(filled(url), now=START)
    samples = samples_of(exposition(operations, now=START + timedelta(minutes=1)))
    machine = (("machine", 'b"o\\x\n'),)
    assert samples["hud_store_up", ()] == 1
    assert samples["hud_scheduler_up", machine] == 1
    assert samples["hud_spool_waiting_results", machine] == 3
    assert samples["hud_disk_free_bytes", (("disk", "state"), *machine)] == 10
    assert samples["hud_schedule_next_timestamp_seconds", (*machine, ("schedule", "nightly"))] == (
        START.timestamp()
    )
    assert samples["hud_jobs", (("state", "queued"),)] == 0
    assert START.timestamp() in samples.values()


def test_a_scheduler_that_is_silent_is_down(url: str) -> None:
    operations = load_operations(filled(url), now=START)
    samples = samples_of(exposition(operations, now=START + timedelta(minutes=10)))
    assert [value for (name, _), value in samples.items() if name == "hud_scheduler_up"] == [0]


def test_a_store_that_cannot_be_read_is_reported_and_nothing_else(
    client: TestClient, tmp_path: Path
) -> None:
    (tmp_path / "hud.duckdb").write_bytes(b"not a store")
    answer = client.get("/metrics")
    assert (answer.status_code, samples_of(answer.text)) == (200, {("hud_store_up", ()): 0.0})
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert "damaged" in answer.json()["store"]


def test_an_empty_store_is_ready(client: TestClient) -> None:
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()) == (
        200,
        {"store": "ok", "schedulers": {}, "connection_cache": "ok"},
    )
    assert client.get("/metrics").headers["content-type"].startswith("text/plain; version=0.0.4")


def test_a_late_scheduler_is_reported_and_the_dashboard_stays_ready(
    url: str, client: TestClient
) -> None:
    filled(url)
    answer = client.get("/readyz")
    assert (answer.status_code, list(answer.json()["schedulers"].values())) == (200, ["late"])


def test_the_store_is_queried_once_in_a_while_however_many_ask() -> None:
    clock = [0.0]
    reads: list[float] = []

    def ask() -> OperationalFigures:
        reads.append(clock[0])
        return OperationalFigures(operations=None)

    desk = Desk(ask, clock_s=lambda: clock[0])
    for step in range(100):
        clock[0] = step * MAX_AGE_S / 10
        desk.answer()
    assert 5 <= len(reads) <= 10
    assert min(b - a for a, b in zip(reads, reads[1:], strict=False)) > MAX_AGE_S


def by_variable(_folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Set the token itself."""
    patch.setenv(TOKEN_VARIABLE, "s3cret")


def by_file(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Name a file with the token."""
    (folder / "token").write_text("s3cret\n", encoding="ascii")
    patch.setenv(TOKEN_FILE_VARIABLE, str(folder / "token"))


@pytest.mark.parametrize("give", [by_variable, by_file])
@pytest.mark.parametrize("path", ["/metrics", "/readyz"])
def test_a_set_token_is_required(
    give: Callable[[Path, pytest.MonkeyPatch], None],
    path: str,
    client: TestClient,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    give(tmp_path, monkeypatch)
    assert client.get(path).status_code == 401
    for wrong in ("Bearer", "Bearer wrong", "s3cret", "Basic s3cret", "Bearer s3cret2"):
        answer = client.get(path, headers={"Authorization": wrong})
        assert answer.status_code == 401
        assert "s3cret" not in answer.text
    for scheme in ("Bearer", "bearer"):
        answer = client.get(path, headers={"Authorization": f"{scheme} s3cret"})
        assert answer.status_code == 200


def test_a_parser_of_openmetrics_gets_openmetrics(client: TestClient) -> None:
    """The library's own parser refuses a text without its end."""
    answer = client.get("/metrics", headers={"Accept": "application/openmetrics-text"})
    assert answer.headers["content-type"].startswith("application/openmetrics-text; version=1.0.0")
    families = {family.name for family in parser.text_string_to_metric_families(answer.text)}
    assert "hud_store_up" in families
    assert "# EOF" not in client.get("/metrics").text


def test_a_token_file_that_is_missing_opens_nothing(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN_FILE_VARIABLE, str(tmp_path / "missing"))
    answer = client.get("/metrics")
    assert (answer.status_code, "hud_" in answer.text) == (503, False)


def test_with_sign_in_a_token_is_required(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = replace(access.child_settings().rules, issuer="https://login.example")
    assert rules.has_sign_in
    monkeypatch.setattr(access, "child_settings", lambda: replace(ChildSettings(), rules=rules))
    assert client.get("/metrics").status_code == 401
    monkeypatch.setenv(TOKEN_VARIABLE, "s3cret")
    assert client.get("/metrics", headers={"Authorization": "Bearer "}).status_code == 401
    assert client.get("/metrics", headers={"Authorization": "Bearer s3cret"}).status_code == 200


def test_results_are_those_of_the_trends(url: str) -> None:
    store = Store(url)
    fill_trends(store)
    case = make_case("bert", mode="default")
    alerts = [
        make_alert("severe", case=case, change_pct=40.0),
        make_alert("minor", case=case, change_pct=6.0, metric="speedup"),
        make_alert("better", case=case, verdict="improvement", metric="peak_bytes"),
        make_alert("noise", case=case, state="noise", metric="compile_cold_s"),
    ]
    save_alerts(store, alerts)
    results = load_result_figures.read_at(current_version())
    samples = samples_of(exposition(load_operations(store, now=START), results=results, now=START))
    case = (("mode", "max-autotune"), ("phase", "inference"))
    labels = (("device", "cpu"), ("machine", "box"), *case, ("toolchain", "stable"))
    # 4 of bert and 8 of t5; vit fails in max-autotune.
    assert samples["hud_geomean_speedup", labels] == pytest.approx(32**0.5)
    assert samples["hud_geomean_compile_cold_seconds", labels] == pytest.approx(10 * 32**0.5)
    assert samples["hud_geomean_peak_bytes", labels] == pytest.approx(1e9)
    assert samples["hud_pass_ratio", labels] == pytest.approx(2 / 3)
    assert (samples["hud_cohort_models", labels], samples["hud_models", labels]) == (2, 3)
    by_severity = {
        dict(labels)["severity"]: value
        for (name, labels), value in samples.items()
        if name == "hud_open_alerts"
    }
    assert by_severity == {"severe": 1, "major": 0, "minor": 1}


def test_missing_case_counts_in_the_results(url: str) -> None:
    store = Store(url)
    fill_trends(store)
    gone = make_alert("gone", case=make_case("t5", mode="default"), kind="vanished")
    save_alerts(store, [gone])
    results = load_result_figures.read_at(current_version())
    samples = samples_of(exposition(load_operations(store, now=START), results=results, now=START))
    (value,) = (
        value
        for (name, labels), value in samples.items()
        if name == "hud_geomean_speedup" and ("mode", "default") in labels
    )
    assert value == pytest.approx(4.0)


def test_muted_alerts_are_not_open(url: str) -> None:
    assert url
    alert = make_alert(case=make_case("bert"))
    muted = replace(alert, muted_until=START + timedelta(days=1))
    figures = ResultFigures(alerts=(alert, muted))
    assert sum(figures.num_open(now=START).values()) == 1
    assert sum(figures.num_open(now=START + timedelta(days=2)).values()) == 2


def test_route_has_the_results(url: str, client: TestClient) -> None:
    fill_trends(Store(url))
    assert "hud_geomean_speedup{" in client.get("/metrics").text


def test_dashboard_of_grafana_asks_for_metrics_that_exist(url: str) -> None:
    dashboard = json.loads((ROOT / "docker/grafana/compile-hud.json").read_text(encoding="utf-8"))
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    queries += [item.get("definition", "") for item in dashboard["templating"]["list"]]
    text = (ROOT / "docs" / "how-to" / "operations.md").read_text(encoding="utf-8")
    named = set(re.findall(r"hud_\w+", " ".join(queries)))
    # The metrics of the document are those of the route.
    assert named - described_in(text) == set()
    assert {"hud_geomean_speedup", "hud_pass_ratio", "hud_open_alerts"} <= named
    labels = set(re.findall(r"(\w+)=~?\"", " ".join(queries)))
    assert labels == {"machine", "toolchain", "phase", "state"}
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
    assert url


def described_in(text: str) -> set[str]:
    """Return the names in the tables of metrics."""
    return set(re.findall(r"`(hud_\w+)`(?=[ ,][^\n]*\|)", text.partition("## Metrics")[2]))


def test_every_metric_is_described(url: str) -> None:
    text = (ROOT / "docs" / "how-to" / "operations.md").read_text(encoding="utf-8")
    store = filled(url)
    opened = Opened(revisions=(Revision(alert=make_alert()), Revision(alert=make_alert("muted"))))
    store.revise_alerts(
        lambda _before: opened, by="judge", tell=lambda _before, _decided: [make_notification()]
    )
    with store.write() as connection:
        is_muted = AlertTable.c.id == "muted"
        until = START + timedelta(days=1)
        connection.execute(update(AlertTable).where(is_muted).values(muted_until=until))
    fill_trends(store)
    results = load_result_figures.read_at(current_version())
    operations = load_operations(store, now=START)
    samples = samples_of(exposition(operations, results=results, now=START))
    names = {name for name, _ in samples}
    open_regressions = (("state", "open"), ("verdict", "regression"))
    assert samples["hud_alerts", open_regressions] == 1
    assert samples["hud_muted_alerts", open_regressions] == 1
    later = samples_of(exposition(load_operations(store, now=START + timedelta(days=2)), now=START))
    assert later["hud_alerts", open_regressions] == 2
    assert len(names) == 22
    # No case of this store measured these.
    unmeasured = {"hud_geomean_energy_joules", "hud_geomean_compile_warm_seconds"}
    assert described_in(text) == names | unmeasured
