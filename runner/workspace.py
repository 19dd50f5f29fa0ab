"""The settings in force, with the store and files that they name on this machine."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from compile_hud.db.records.results import Run
from compile_hud.db.store import Store
from compile_hud.runner.config.load import Config
from compile_hud.runner.execution.executor import Executor, MakeExecutor
from compile_hud.runner.persistence.spool import Spool, utc_now
from compile_hud.runner.persistence.trace_store import TraceFolder
from compile_hud.runner.system.locks import machine_lock_dir
from compile_hud.runner.system.machine import LocalMachine, Machine
from compile_hud.runner.toolchains.registry import Probe, probe

# Errors on the command line begin with this name.
logger = logging.getLogger("hud")

# The node that NVIDIA's driver makes; asking torch would take seconds, and it may be another torch.
_GPU_NODE = Path("/dev/nvidiactl")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dependencies:
    """The product's connections to its environment; tests replace them.

    Without `make_executor` cases run on this machine.
    """

    make_executor: MakeExecutor | None = None
    now: Callable[[], datetime] = utc_now
    env: Mapping[str, str] = field(default_factory=lambda: os.environ)
    has_gpu: Callable[[], bool] = _GPU_NODE.exists
    probe: Callable[[Path], Probe] = probe
    machine: Machine = field(default_factory=LocalMachine)
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """The settings in force, the store they name and the dependencies.

    `elsewhere` makes an executor on the machine of a run; None means that all runs are on this one.
    """

    config: Config
    dependencies: Dependencies
    has_store: bool = True
    elsewhere: Callable[[Run], Executor] | None = None

    def store(self, *, afterwards: str = "") -> Store:
        """Return the store; raise StoreUnavailable for an invalid URL.

        `afterwards` completes the message about a long wait: the consequence of a timeout.
        """

        # Without a message, half a minute of silence looks like a hung program.
        def tell(text: str) -> None:
            logger.warning("%s%s", text, afterwards)

        return Store(self.config.store_url, now=self.dependencies.now, on_wait=tell)

    def spool(self) -> Spool:
        """Return the spool."""
        folder = self.config.state_dir / "spool"
        return Spool(folder, now=self.dependencies.now, traces=self.traces())

    def traces(self) -> TraceFolder:
        """Return the folder of stored traces."""
        return TraceFolder(self.config.traces_dir)

    def lock_dir(self) -> Path:
        """Return the directory of the locks that every run on this machine shares."""
        return machine_lock_dir(self.dependencies.env)
