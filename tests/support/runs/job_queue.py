"""A state directory and a job worker on it, with a fake executor."""

from __future__ import annotations

import dataclasses
import threading
from pathlib import Path
from typing import Any

from compile_hud.db.records.results import RunDocument
from compile_hud.db.store import Store
from compile_hud.runner.config.load import Config, parse_config
from compile_hud.runner.config.schedules import Schedule
from compile_hud.runner.events import Event, LogMessage
from compile_hud.runner.scheduling.job_requests import JobRequest, JobRequests
from compile_hud.runner.scheduling.job_worker import JobRunner, JobServices, JobWorker
from compile_hud.runner.workspace import Dependencies, Workspace
from tests.support.fakes import FakeClock, FakeExecutor, make_catalog

NIGHT = Schedule(name="night", cron="30 2 1 1 *", timezone="UTC", suite="mine", toolchain="current")
CONFIG = """
[run]
reference_cases = false
[machine]
name = "box"
[suites.mine]
models = "bert"
modes = ["eager", "default"]
"""
REQUEST = JobRequest(
    dedupe_key="night 2026-01-01T02:30", suite="mine", toolchain="current", trigger="schedule night"
)


class JobSandbox:
    """A state directory and a job worker on it."""

    def __init__(self, folder: Path) -> None:
        env = {"HUD_STATE_DIR": str(folder), "HUD_LOCK_DIR": str(folder / "run")}
        self.clock = FakeClock()
        self.executor = FakeExecutor(clock=self.clock)
        self.events: list[Event] = []
        self.judged: list[RunDocument] = []
        config: Config = dataclasses.replace(
            parse_config(CONFIG, path=None, env=env), catalog=make_catalog("bert")
        )
        dependencies = Dependencies(
            make_executor=lambda **_: self.executor,
            now=self.clock,
            env=env,
            has_gpu=lambda: False,
        )
        self.workspace = Workspace(config=config, dependencies=dependencies)
        self.requests = JobRequests(folder / "jobs")
        self.loop = JobWorker(
            workspace=self.workspace,
            services=JobServices(
                notify=self.events.append, judge=self.judged.append, send_notifications=lambda: None
            ),
            wake=threading.Event(),
        )

    def with_services(self, *, workspace: Workspace | None = None, **services: Any) -> JobWorker:
        """Return the worker with other `services`, and with another workspace if one is given."""
        return dataclasses.replace(
            self.loop,
            workspace=workspace or self.workspace,
            services=dataclasses.replace(self.loop.services, **services),
        )

    def with_night(self, night: Schedule, *, cluster: JobRunner) -> JobWorker:
        """Return the worker with one schedule, and a cluster for jobs that need one."""
        config = dataclasses.replace(self.workspace.config, schedules={night.name: night})
        workspace = dataclasses.replace(self.workspace, config=config)
        return dataclasses.replace(self.loop, workspace=workspace, cluster=cluster)

    @property
    def store(self) -> Store:
        return self.workspace.store()

    def messages(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, LogMessage)]
