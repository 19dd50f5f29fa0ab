"""What the page of a run reads while the run is going; a part of `app.data.store`."""

from __future__ import annotations

import os
from pathlib import Path

from compile_hud.app.data import store as data
from compile_hud.db.jobs.live_log import STATE_VARIABLE, LiveLog, find_live_log
from compile_hud.db.jobs.queue import get_live_log


def load_local_log(run_id: str) -> LiveLog | None:
    """Return what the case of a run has printed, where it runs on this machine."""
    folder = os.environ.get(STATE_VARIABLE)
    return find_live_log(Path(folder), run_id) if folder else None


def load_told_log(run_id: str) -> LiveLog | None:
    """Return what the case of a run had printed when the run last gave a sign of life."""
    return data.loaded(_read_told_log, run_id).value


def _read_told_log(url: str, generation: int, run_id: str) -> LiveLog | None:  # noqa: ARG001
    with data.open_store(url).read() as connection:
        return get_live_log(connection, run_id)
