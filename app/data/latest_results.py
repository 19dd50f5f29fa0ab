"""Read the latest results of each machine and toolchain, and the drift of the machines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compile_hud.app import clock
from compile_hud.app.data import store as data
from compile_hud.app.data.mode_summaries import MODE_ORDER
from compile_hud.app.data.page_records import (
    Loaded,
    MachineMove,
    Overview,
)
from compile_hud.app.data.store import answers, loaded, open_store, read_runs
from compile_hud.db.alerts.outbox import count_dead_letters
from compile_hud.db.errors import StoreError
from compile_hud.db.jobs.health import BEAT_S, SchedulerState, load_health
from compile_hud.db.queries.latest import Recent, load_places, load_recent
from compile_hud.db.queries.results import (
    load_alerts,
    load_histories,
    load_latest,
)
from compile_hud.db.records.results import REFERENCE_FAMILY
from compile_hud.db.records.summaries import (
    LatestCell,
)
from compile_hud.db.records.triage import ONGOING
from compile_hud.runner.analysis.judging.machine_state import CLOCKS, MachineChange, machine_history

# A month of nights; more would be no line at the width of a cell.
NUM_RECENT = 30


def load_overview() -> Loaded[Overview]:
    """Return where there are results, the alerts and the newest runs."""
    return loaded(_read_overview)


def _read_overview(url: str, generation: int) -> Overview:
    store = open_store(url)
    runs = answers().ask(read_runs, url, generation)
    moves = answers().ask(_read_machine_moves, url, generation)
    with store.reading():
        places = load_places(store)
        alerts = load_alerts(store, states=ONGOING)
        dead_letters = count_dead_letters(store)
    # The newest run that has a reference case says how its machine stands.
    return Overview(
        runs=runs,
        places=tuple(place for place in places if place.has_cases),
        alerts=alerts,
        machine={
            (place.machine, place.toolchain): moves.get(place.reference_run_id, ())
            for place in places
        },
        dead_letters=dead_letters,
    )


def load_cells(
    *, machine: str, toolchain: str, metrics: Sequence[str]
) -> Loaded[tuple[LatestCell, ...]]:
    """Return the newest results at a place, references aside, with these measurements alone."""
    return loaded(_read_cells, machine, toolchain, *sorted(metrics))


def _read_cells(
    url: str,
    generation: int,  # noqa: ARG001
    machine: str,
    toolchain: str,
    *metrics: str,
) -> tuple[LatestCell, ...]:
    latest = load_latest(open_store(url), machine=machine, toolchain=toolchain, metrics=metrics)
    return tuple(cell for cell in latest if not cell.summary.case.is_reference)


def load_trends(*, machine: str, toolchain: str, metric: str) -> Loaded[Recent]:
    """Return the last NUM_RECENT medians of each case, by key and metric, oldest first."""
    return data.loaded(_read_trends, machine, toolchain, metric)


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


def load_machine_moves() -> Loaded[Mapping[str, tuple[MachineMove, ...]]]:
    """Return how the reference cases of each run stand against the runs before, by run id."""
    return loaded(_read_machine_moves)


def _read_machine_moves(
    url: str,
    generation: int,  # noqa: ARG001
) -> dict[str, tuple[MachineMove, ...]]:
    histories = load_histories(open_store(url), metrics=CLOCKS, family=REFERENCE_FAMILY)
    return {
        run_id: tuple(map(machine_move, changes))
        for run_id, changes in machine_history(histories).items()
    }


def machine_move(change: MachineChange) -> MachineMove:
    """Return the change of a reference case as pages show it."""
    has_interval = change.low is not None and change.high is not None
    return MachineMove(
        model=change.model,
        kind=change.kind,
        metric=change.metric,
        verdict=str(change.verdict),
        reason=change.reason,
        change_pct=None if change.change is None else 100 * change.change,
        interval_pct=(100 * (change.low or 0.0), 100 * (change.high or 0.0))
        if has_interval
        else None,
    )


def load_silent_schedulers() -> Mapping[str, SchedulerState]:
    """Return the schedulers that were not heard of for so long that they have probably ended.

    By machine; none while the store cannot be read, which the page says anyway.
    """
    now = clock.now()
    # A heartbeat raises no generation.
    beat = int(now.timestamp() // BEAT_S)
    try:
        found = data.answers().ask(_read_schedulers, data.store_url(), beat)
    except StoreError:
        return {}
    return {item.machine: item for item in found if item.is_late(now=now)}


def _read_schedulers(url: str, beat: int) -> tuple[SchedulerState, ...]:  # noqa: ARG001
    return load_health(data.open_store(url), num_ended=0).schedulers


def shown_metrics(metric: str) -> list[str]:
    """Return the metrics that a matrix of `metric` shows of any variant."""
    return list(dict.fromkeys(_shown_metric(variant, metric) for variant in MODE_ORDER))


def _shown_metric(variant: str, metric: str) -> str:
    # Eager is 1.00x by definition; its latency is what the speedups stand on.
    return "latency_s" if variant == "eager" and metric == "speedup" else metric
