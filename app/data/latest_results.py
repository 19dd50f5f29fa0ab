"""What the overview reads beside the latest results, cached as in `app.data.store`."""

from __future__ import annotations

from collections.abc import Mapping

from compile_hud.app.components.result_matrix import shown_metrics
from compile_hud.app.data import store as data
from compile_hud.app.data.page_records import Loaded
from compile_hud.db.errors import StoreError
from compile_hud.db.jobs.health import BEAT_S, SchedulerState, load_health
from compile_hud.db.queries.latest import Recent, load_recent

# A month of nights; more would be no line at the width of a cell.
NUM_RECENT = 30


def load_trends(*, machine: str, toolchain: str, metric: str) -> Loaded[Recent]:
    """Return the last NUM_RECENT medians of each case, by key and metric, oldest first."""
    return data.loaded(_read_trends, machine, toolchain, metric)


def load_silent_schedulers() -> Mapping[str, SchedulerState]:
    """Return the schedulers that were not heard of for so long that they have probably ended.

    By machine; none while the store cannot be read, which the page says anyway.
    """
    now = data.now()
    # A heartbeat raises no generation.
    beat = int(now.timestamp() // BEAT_S)
    try:
        found = data.answers().ask(_read_schedulers, data.store_url(), beat)
    except StoreError:
        return {}
    return {item.machine: item for item in found if item.is_late(now=now)}


def _read_trends(
    url: str,
    generation: int,  # noqa: ARG001
    machine: str,
    toolchain: str,
    metric: str,
) -> Recent:
    return load_recent(
        data.open_store(url),
        metrics=shown_metrics(metric),
        machine=machine,
        toolchain=toolchain,
        num_runs=NUM_RECENT,
    )


def _read_schedulers(url: str, beat: int) -> tuple[SchedulerState, ...]:  # noqa: ARG001
    return load_health(data.open_store(url), num_ended=0).schedulers
