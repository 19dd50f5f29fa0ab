"""Read the latest results of each machine and toolchain, open regressions, and machine drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compile_hud.app import clock
from compile_hud.app.data.cache import cached_read
from compile_hud.app.data.page_records import MachineMove, Overview
from compile_hud.app.data.runs import load_newest_runs
from compile_hud.app.data.store import StoreVersion, open_store, store_url
from compile_hud.db.alerts.outbox import count_dead_letters
from compile_hud.db.errors import StoreError
from compile_hud.db.jobs.health import HEARTBEAT_INTERVAL_S, SchedulerState, load_health
from compile_hud.db.queries.alerts import load_alerts
from compile_hud.db.queries.latest import Recent, load_latest, load_recent, load_scopes
from compile_hud.db.queries.series import load_histories
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.metrics import LATENCIES
from compile_hud.db.records.results import REFERENCE_FAMILY, Run, Verdict
from compile_hud.db.records.summaries import LatestCell, Outline
from compile_hud.db.records.triage import ONGOING
from compile_hud.runner.analysis.comparison.eager_processes import of_summaries
from compile_hud.runner.analysis.comparison.run_selection import previous_run
from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG
from compile_hud.runner.analysis.judging.machine_state import CLOCKS, MachineChange, machine_history

# A month of nights; more would not fit the width of a cell.
NUM_RECENT = 30
# The detector judges nothing after fewer runs: they give no level, or no noise.
NUM_BASELINE_RUNS = max(DEFAULT_CONFIG.min_baseline_points, DEFAULT_CONFIG.min_noise_points)


@cached_read
def load_open_regressions(at: StoreVersion) -> tuple[Alert, ...]:
    """Return the open alerts about regressions."""
    alerts = load_alerts(at.store, states=[AlertState.OPEN])
    return tuple(alert for alert in alerts if alert.verdict is Verdict.REGRESSION)


@cached_read
def load_overview(at: StoreVersion) -> Overview:
    """Return the scopes with results, the alerts and the newest runs."""
    store = at.store
    runs = load_newest_runs.read_at(at)
    moves = load_machine_moves.read_at(at)
    with store.reading():
        places = load_scopes(store)
        alerts = load_alerts(store, states=ONGOING)
        dead_letters = count_dead_letters(store)
    # The machine's state is that of the newest run with a reference case.
    return Overview(
        runs=runs,
        places=tuple(scope for scope in places if scope.has_cases),
        alerts=alerts,
        machine={
            (scope.machine, scope.toolchain): moves.get(scope.reference_run_id, ())
            for scope in places
        },
        dead_letters=dead_letters,
    )


@cached_read
def load_cells(
    at: StoreVersion, *, machine: str, toolchain: str, metrics: tuple[str, ...]
) -> tuple[LatestCell, ...]:
    """Return the newest results of a machine and toolchain, without reference cases."""
    latest = load_latest(at.store, machine=machine, toolchain=toolchain, metrics=metrics)
    return tuple(cell for cell in latest if not cell.summary.case.is_reference)


@cached_read
def load_trends(at: StoreVersion, *, machine: str, toolchain: str, metric: str) -> Recent:
    """Return the last NUM_RECENT medians of each case, by key and metric, oldest first."""
    return load_recent(
        at.store,
        # Only eager has its latency in a matrix of speedups.
        metrics=[name for name in shown_metrics(metric) if not name.startswith("eager")],
        machine=machine,
        toolchain=toolchain,
        num_runs=NUM_RECENT,
    )


@cached_read
def load_machine_moves(at: StoreVersion) -> Mapping[str, tuple[MachineMove, ...]]:
    """Return the changes of the reference cases of each run against earlier runs, by run id."""
    histories = load_histories(at.store, metrics=CLOCKS, family=REFERENCE_FAMILY)
    return {
        run_id: tuple(map(machine_move, changes))
        for run_id, changes in machine_history(histories).items()
    }


def machine_move(change: MachineChange) -> MachineMove:
    """Return the change of a reference case as the record for pages."""
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
    """Return the schedulers whose heartbeats stopped so long ago that they have probably ended.

    By machine; empty while the store cannot be read, since the page reports that anyway.
    """
    now = clock.now()
    return {item.machine: item for item in load_schedulers() if item.is_silent(now=now)}


def load_schedulers() -> tuple[SchedulerState, ...]:
    """Return the schedulers as they reported last, none while the store cannot be read."""
    # A heartbeat changes no version of the store.
    number = int(clock.now().timestamp() // HEARTBEAT_INTERVAL_S)
    url = store_url()
    try:
        return _schedulers.read_at(StoreVersion(url, open_store(url), number))
    except StoreError:
        return ()


@cached_read
def _schedulers(at: StoreVersion) -> tuple[SchedulerState, ...]:
    return load_health(at.store, num_ended=0).schedulers


def shown_metrics(metric: str) -> list[str]:
    """Return the metrics that a matrix of `metric` shows, of a speedup its latencies as well."""
    return [metric, *LATENCIES] if metric == "speedup" else [metric]


def own_eager_times(cells: Sequence[LatestCell]) -> Mapping[str, float]:
    """Return eager's own time where it differs from that in the processes of a case, by its key.

    Only results of one run are compared: between runs more than the load differs.
    """
    runs: dict[str, list[Outline]] = {}
    for cell in cells:
        runs.setdefault(cell.run_id, []).append(cell.summary)
    return {
        key: own.value for results in runs.values() for key, own in of_summaries(results).items()
    }


def has_previous_run(run_id: str, runs: Sequence[Run]) -> bool:
    run = next((run for run in runs if run.id == run_id), None)
    return run is not None and previous_run(run, runs) is not None
