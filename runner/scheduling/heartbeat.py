"""The state that the scheduler stores every minute, for the health page and metrics."""

from __future__ import annotations

import importlib.metadata
import logging
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from sqlalchemy.engine import make_url

from compile_hud.db.errors import StoreError
from compile_hud.db.jobs.health import (
    DeviceState,
    DiskState,
    SchedulerState,
    ScheduleState,
    save_scheduler,
)
from compile_hud.db.shared.processes import this_process
from compile_hud.runner.system.gpus import list_gpus, list_users
from compile_hud.runner.workspace import Workspace

logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class HealthReporter:
    """Stores the state of this machine's scheduler.

    `schedules` lists the next runs, `current_job` returns the current job, empty while it waits.
    """

    workspace: Workspace
    schedules: Callable[[], tuple[ScheduleState, ...]]
    current_job: Callable[[], str]
    started_at: datetime
    _devices: tuple[DeviceState, ...] = field(default=(), init=False)

    def report(self) -> None:
        """Store the state; a busy store gets the next one."""
        try:
            save_scheduler(self.workspace.store(), self.state())
        except (StoreError, OSError) as error:
            logger.info("no sign of life this time: %s", error)

    def state(self) -> SchedulerState:
        """Return the state of the scheduler."""
        config, spool = self.workspace.config, self.workspace.spool()
        current_job = self.current_job()
        if not current_job:
            # The query would disturb a measurement: nvidia-smi uses a tenth of a second of a core.
            self._devices = self._look_at_devices()
        return SchedulerState(
            machine=config.machine,
            process=this_process(),
            version=_version(),
            started_at=self.started_at,
            heartbeat_at=self.workspace.dependencies.now(),
            current_job=current_job,
            schedules=self.schedules(),
            devices=self._devices,
            disks=tuple(self._disks()),
            num_waiting=len(spool.pending()),
            num_broken=len(list(spool.broken_directory.glob("*.json"))),
        )

    def _look_at_devices(self) -> tuple[DeviceState, ...]:
        dependencies = self.workspace.dependencies
        if not dependencies.has_gpu():
            return ()
        users = list_users(dependencies.machine)
        return tuple(
            DeviceState(
                device=f"cuda:{gpu.index}",
                name=gpu.name,
                users=tuple(user.text for user in users if user.gpu_uuid == gpu.uuid),
            )
            for gpu in list_gpus(dependencies.machine)
        )

    def _disks(self) -> Iterator[DiskState]:
        config = self.workspace.config
        places = {"state": config.state_dir, "store": store_folder(config.store_url)}
        for name, folder in {**places, "traces": config.traces_dir}.items():
            if folder is not None:
                existing = existing_folder(folder)
                usage = shutil.disk_usage(existing)
                yield DiskState(
                    name=name,
                    path=str(folder.absolute()),
                    free_bytes=usage.free,
                    total_bytes=usage.total,
                )


def store_folder(url: str) -> Path | None:
    """Return the folder of a DuckDB store, None for a store without a file."""
    parsed = make_url(url)
    if parsed.drivername != "duckdb" or not parsed.database or parsed.database == ":memory:":
        return None
    return Path(parsed.database).parent


def existing_folder(path: Path) -> Path:
    """Return `path`, or the nearest existing folder above it."""
    absolute = path.absolute()
    return next(folder for folder in (absolute, *absolute.parents) if folder.exists())


def _version() -> str:
    try:
        return importlib.metadata.version("compile-hud")
    except importlib.metadata.PackageNotFoundError:
        return ""
