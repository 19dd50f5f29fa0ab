"""A terminal with a confirmed alert whose runs are of two commits, or of two versions of torch."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import update

from compile_hud.db.queries.alerts import load_alert
from compile_hud.db.records.alerts import Alert
from compile_hud.db.records.results import Case, Run
from compile_hud.db.schema.tables import JobTable
from compile_hud.db.shared.model_code import MODEL_COMMITS
from compile_hud.runner.cli.bisect.alert_search import AlertSearches, queue_searches
from compile_hud.runner.config.load import load_config
from compile_hud.runner.events import Event, LogMessage
from compile_hud.runner.scheduling.job_requests import JobRequests
from compile_hud.runner.scheduling.job_worker import JobServices, JobWorker
from compile_hud.runner.toolchains.torch_releases import TorchSource
from compile_hud.runner.workspace import Dependencies, Workspace
from tests.support.builders import START, make_alert, make_case, make_run, make_run_ref
from tests.support.runs.bisection import BisectTerminal, CommitTerminal
from tests.support.stores.stored_results import save_alerts

SETTINGS = "[alerts]\nbisect = true\n"
TORCH = "2.13.0@0123456789"


class AlertSearchDesk:
    """The store, the queue and the worker for confirmed alerts of `terminal`."""

    def __init__(self, terminal: BisectTerminal, *, settings: str = SETTINGS) -> None:
        self.terminal = terminal
        self.events: list[Event] = []
        self._num_runs = 0
        # The versions that the index lists, and the sources of the queries.
        self.versions: Sequence[str] = ()
        self.sources: list[TorchSource] = []
        path = terminal.folder / "hud.toml"
        path.write_text(path.read_text() + settings)
        self.case: Case = make_case("net", family="own", shape="default", mode="eager")

    @property
    def workspace(self) -> Workspace:
        """Return the settings in force."""
        terminal = self.terminal
        env = {
            "HUD_LOCK_DIR": str(terminal.folder / "locks"),
            "HUD_STATE_DIR": str(terminal.folder / ".hud"),
        }
        dependencies = Dependencies(
            make_executor=terminal.make_executor,
            now=terminal.clock,
            env=env,
            has_gpu=lambda: False,
            probe=lambda python: terminal.probe(python),
        )
        config = load_config(terminal.folder / "hud.toml", env=env)
        return Workspace(config=config, dependencies=dependencies)

    def save_alert(
        self,
        good: Mapping[str, Any] | str,
        bad: Mapping[str, Any] | str,
        *,
        torch: tuple[str, str] = (TORCH, TORCH),
        **values: Any,
    ) -> Alert:
        """Store an alert between two runs with these revisions of the model's code."""
        runs = [
            self._run(name, code=code, torch=version, day=day)
            for day, (name, code, version) in enumerate(
                zip(("good", "bad"), (good, bad), torch, strict=True)
            )
        ]
        store = self.terminal.store()
        for run in runs:
            store.save_run(run)
        before, after = map(make_run_ref, runs)
        given: dict[str, Any] = {
            "case": self.case,
            "metric": "latency_cpu_s",
            "toolchain": "current",
            "last_good": before,
            "first_bad": after,
            "is_confirmed": True,
            **values,
        }
        alert = make_alert(**given)
        save_alerts(store, [alert])
        return alert

    def _run(self, name: str, *, code: Any, torch: str, day: int) -> Run:
        self._num_runs += 1
        commits = code if isinstance(code, Mapping) else {"net": code}
        return make_run(
            f"{name}-{self._num_runs}",
            plan=(self.case,),
            toolchain="current",
            revision=torch,
            started_at=START + timedelta(days=day),
            finished_at=START + timedelta(days=day, minutes=5),
            environment={MODEL_COMMITS: commits},
        )

    def queue(self) -> None:
        """Queue the searches of the stored alerts."""
        queue_searches(self.workspace, notify=self.events.append, versions_of=self._versions_of)

    def _versions_of(self, source: TorchSource) -> Sequence[str]:
        self.sources.append(source)
        return self.versions

    def worker(self) -> JobWorker:
        """Return the worker of the queue."""
        workspace = self.workspace
        searcher = AlertSearches(
            workspace=workspace, notify=self.events.append, versions_of=self._versions_of
        )
        return JobWorker(
            workspace=workspace,
            services=JobServices(
                notify=self.events.append,
                judge=lambda *_documents: None,
                send_notifications=lambda: None,
                searcher=searcher,
            ),
            wake=threading.Event(),
        )

    def lease_in_dead_processes(self, num_attempts: int) -> None:
        """Lease the job that often in processes that have died since."""
        code = "from compile_hud.db.shared.processes import this_process; print(this_process())"
        dead = subprocess.check_output([sys.executable, "-c", code], text=True).strip()
        store = self.terminal.store()
        for _ in range(num_attempts):
            assert store.lease_job(machine="box") is not None
            with store.write() as connection:
                connection.execute(update(JobTable).values(holder=dead))

    @property
    def requests(self) -> JobRequests:
        return JobRequests(self.terminal.folder / ".hud" / "jobs")

    def document(self, alert_id: str = "alert-1") -> Any:
        """Return the search of the stored alert."""
        return load_alert(self.terminal.store(), alert_id).bisection

    def revise(self, **values: Any) -> None:
        """Replace fields of the stored alert."""
        store = self.terminal.store()
        save_alerts(store, [dataclasses.replace(load_alert(store, "alert-1"), **values)])

    def messages(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, LogMessage)]


def commit_desk(folder: Path, levels: Mapping[str, float], *, settings: str = SETTINGS) -> Any:
    """Return the terminal of a repository with these commits, and its desk."""
    terminal = CommitTerminal(folder, levels)
    return terminal, AlertSearchDesk(terminal, settings=settings)
