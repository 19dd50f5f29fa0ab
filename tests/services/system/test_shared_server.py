"""Two runners and a dashboard with one PostgreSQL."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from compile_hud.db.queries.results import load_document
from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.results import RunState
from compile_hud.db.store import Store
from tests.support.pages.dashboard import serving
from tests.support.runs.run_process import ROOT

MACHINES = ("alpha", "beta")

pytestmark = pytest.mark.slow


def start_runner(folder: Path, *, machine: str, store_url: str) -> subprocess.Popen[str]:
    folder.mkdir()
    script = ROOT / "tests" / "support" / "runs" / "run_process.py"
    options = ["--machine", machine, "--store", store_url]
    return subprocess.Popen(
        [sys.executable, str(script), str(folder), *options],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT}/src"},
    )


@pytest.mark.nightly
def test_two_runners_and_a_dashboard_share_one_server(tmp_path: Path, postgres_url: str) -> None:
    # Nobody made the tables before: both runners and the dashboard find none.
    runners = [
        start_runner(tmp_path / machine, machine=machine, store_url=postgres_url)
        for machine in MACHINES
    ]
    with serving(postgres_url) as address:
        outputs = [runner.communicate(timeout=120)[0] for runner in runners]
        assert [runner.returncode for runner in runners] == [0, 0], outputs
        with urllib.request.urlopen(f"{address}/metrics", timeout=60) as answer:
            metrics = answer.read().decode()
    store = Store(postgres_url)
    runs = [summary.run for summary in load_runs(store)]
    assert sorted(run.machine for run in runs) == list(MACHINES)
    for run in runs:
        document = load_document(store, run.id)
        assert run.state is RunState.FINISHED
        keys = [result.case.key for result in document.results]
        assert sorted(keys) == sorted(case.key for case in run.plan)
        assert f'hud_last_run_timestamp_seconds{{machine="{run.machine}"' in metrics
    for machine in MACHINES:
        assert not list((tmp_path / machine / "spool").glob("*.json"))
