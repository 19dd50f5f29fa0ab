"""The processes of unfinished runs: a run whose process was killed is interrupted at once."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import replace
from pathlib import Path

from compile_hud.db.errors import StoreError
from compile_hud.db.queries.runs import load_runs_of
from compile_hud.db.records.results import RunState
from compile_hud.db.shared.processes import is_gone, this_process
from compile_hud.db.store import Store

logger = logging.getLogger(__name__)


class RunProcesses:
    """A file for each unfinished run, with the process that executes it.

    Without a file, as on another machine, the heartbeats of a run show its end.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def register(self, run_id: str) -> None:
        """Note that this process executes the run; a full disk leaves that to the heartbeats."""
        with contextlib.suppress(OSError):
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / run_id).write_text(this_process(), encoding="utf-8")

    def unregister(self, run_id: str) -> None:
        """Remove the file of a run that ended."""
        with contextlib.suppress(OSError):
            (self._folder / run_id).unlink(missing_ok=True)

    def killed_runs(self) -> list[str]:
        """Return the ids of the unfinished runs whose processes are known to be gone."""
        try:
            paths = sorted(self._folder.iterdir())
        except OSError:
            return []
        return [path.name for path in paths if _is_of_gone_process(path)]


def mark_killed_runs_interrupted(store: Store, processes: RunProcesses) -> None:
    """Mark the runs of killed processes interrupted, unless they ended or were resumed.

    A store that takes no write is tried again the next time.
    """
    run_ids = processes.killed_runs()
    if not run_ids or store.is_missing():
        return
    try:
        runs = load_runs_of(store, run_ids)
        # A run that was resumed meanwhile was registered before the store had it as running.
        for run_id in processes.killed_runs():
            run = runs.get(run_id)
            if run is not None and run.state is RunState.RUNNING:
                interrupted = replace(run, state=RunState.INTERRUPTED)
                store.with_short_timeout().save_run(interrupted)
            processes.unregister(run_id)
    except StoreError as error:
        logger.info("runs of killed processes are not marked: %s", error)


def _is_of_gone_process(path: Path) -> bool:
    try:
        return is_gone(path.read_text(encoding="utf-8")) is True
    except (OSError, ValueError):
        # The run ended meanwhile, or its process was killed while it wrote the file.
        return False
