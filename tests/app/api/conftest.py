"""A store with one of each object that the API sends, under the names of its examples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient

from compile_hud.app.auth.access import API_TOKEN_FILE_VARIABLE, API_TOKEN_VARIABLE
from compile_hud.app.server.api.routes import api_routes
from compile_hud.db.records.results import RunState
from compile_hud.db.store import Store
from tests.support.builders import (
    START,
    make_alert,
    make_case,
    make_kernel,
    make_result,
    make_run,
    make_run_ref,
)
from tests.support.stores.stored_results import save_alerts

CASE = make_case("bert", shape="full")
EAGER = make_case("bert", shape="full", mode="eager")


@pytest.fixture(autouse=True)
def _no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(API_TOKEN_VARIABLE, raising=False)
    monkeypatch.delenv(API_TOKEN_FILE_VARIABLE, raising=False)


@pytest.fixture
def stored(store: Store) -> Store:
    """Return the store with two runs, kernels, findings and an alert."""
    for number in (1, 2):
        run = make_run(
            f"run-{number}",
            plan=(EAGER, CASE),
            started_at=START.replace(day=number),
            finished_at=START.replace(day=number),
            state=RunState.FINISHED,
            suite="nightly",
        )
        results = [
            make_result(f"{run.id}-eager", run=run, case=EAGER),
            make_result(
                f"{run.id}-default",
                run=run,
                case=CASE,
                kernels=[make_kernel()],
                details={"graph_breaks": [{"reason": "print", "line": "model.py:7"}]},
            ),
        ]
        store.ingest_all(run, [(result.id, result) for result in results])
    alert = make_alert(case=CASE, first_bad=make_run_ref(run))
    save_alerts(store, [replace(alert, event_id="event-1")])
    return store


@pytest.fixture
def client(store_path: Path) -> Iterator[TestClient]:
    """Return a client of the API, at an address that its server knows."""
    assert store_path
    with TestClient(Starlette(routes=api_routes()), base_url="http://127.0.0.1") as client:
        yield client
