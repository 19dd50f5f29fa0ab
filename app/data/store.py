"""Where pages query: one read a page, cached by the store's generation.

`app.views.kernels.data` is its part for kernels, `app.views.kernel_diff.data` for what differs
between them. Between reads a file stays open until a writer wants it. When another process holds it
longer than LOCK_TIMEOUT_S, the last thing read is shown and said to be stale.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any, TypeVar

import streamlit as st

from compile_hud.app.components.alert_rows import alert_metric, states_of, told
from compile_hud.app.data.cache import Answers
from compile_hud.app.data.mode_summaries import at_pace, noise_bands
from compile_hud.app.data.page_records import (
    AlertList,
    AlertPage,
    EnvironmentChange,
    EventPage,
    Loaded,
    MachineMove,
    Overview,
    RunPage,
    SeriesPage,
)
from compile_hud.app.data.series import differences, ending_with, newest_toolchain, segments
from compile_hud.app.ui.urls import DEFAULT_SERIES_METRIC
from compile_hud.db.alerts.outbox import count_dead_letters
from compile_hud.db.errors import NotFoundError, StoreLocked
from compile_hud.db.queries.alerts import (
    has_alerts,
    load_alerts_of_case,
    load_alerts_of_event,
    load_alerts_since,
    load_alerts_with_events,
    load_changes_of,
)
from compile_hud.db.queries.judge_state import load_events
from compile_hud.db.queries.kernels import load_kernel_runs
from compile_hud.db.queries.latest import load_places
from compile_hud.db.queries.results import (
    find_series,
    load_alert,
    load_alerts,
    load_changes,
    load_histories,
    load_latest,
    load_outcomes,
    load_result_summaries,
    load_run,
    load_runs,
    load_samples,
    load_trend,
)
from compile_hud.db.queries.runs import load_last_ending
from compile_hud.db.records.results import REFERENCE_FAMILY, Case
from compile_hud.db.records.summaries import (
    LatestCell,
    RunSummary,
    Sample,
    SeriesHeader,
    TrendPoint,
)
from compile_hud.db.records.triage import ONGOING
from compile_hud.db.shared.text import printable
from compile_hud.db.store import Store
from compile_hud.runner.analysis.judging.machine_state import CLOCKS, MachineChange, machine_history
from compile_hud.runner.analysis.outcomes._merge_analysis_failures import fails_otherwise
from compile_hud.runner.analysis.repro import repro_command
from compile_hud.runner.analysis.stats.launch_levels import PACE, PACED_TIMES

logger = logging.getLogger(__name__)

URL_VARIABLE = "HUD_DATABASE_URL"
DEFAULT_URL = "duckdb:///.hud/store.duckdb"
# A writer holds the store for tens of milliseconds; whoever holds it for seconds is no writer of
# ours, and a page must not hang behind it.
LOCK_TIMEOUT_S = 4.0
# More nights than anybody scrolls through.
MAX_RUNS = 400
# Pages are a few hundred kilobytes; old generations are of no use.
_CACHED_PAGES = 32

_Value = TypeVar("_Value")


def now() -> datetime:
    """Return the present time in UTC."""
    return datetime.now(timezone.utc)


def store_url() -> str:
    """Return the URL of the store this dashboard shows."""
    return os.environ.get(URL_VARIABLE) or DEFAULT_URL


def store_name() -> str:
    """Return the store's file, or its URL without the password."""
    return open_store(store_url()).name


def generation() -> int:
    """Return the number that changes with every write to the store."""
    return open_store(store_url()).generation()


def load_runs_page() -> Loaded[tuple[RunSummary, ...]]:
    """Return the newest runs, newest first."""
    return loaded(read_runs)


def load_overview() -> Loaded[Overview]:
    """Return where there are results, the alerts and the newest runs."""
    return loaded(_read_overview)


def load_cells(
    *, machine: str, toolchain: str, metrics: Sequence[str]
) -> Loaded[tuple[LatestCell, ...]]:
    """Return the newest results at a place, references aside, with these measurements alone."""
    return loaded(_read_cells, machine, toolchain, *sorted(metrics))


def load_machine_moves() -> Loaded[Mapping[str, tuple[MachineMove, ...]]]:
    """Return how the reference cases of each run stand against the runs before, by run id."""
    return loaded(_read_machine_moves)


def load_series_page(
    case_key: str, *, metric: str, machine: str, toolchain: str
) -> Loaded[SeriesPage]:
    """Return the history of a case; raise NotFoundError when the store never saw it.

    An empty machine means the one that measured the case last, an empty toolchain that of the
    newest point.
    """
    return loaded(_read_series_page, case_key, metric, machine, toolchain)


def load_result_samples(result_id: str, *, metric: str) -> Loaded[tuple[Sample, ...]]:
    """Return the samples of one measurement, warm-ups first."""
    return loaded(_read_samples, result_id, metric)


def load_run_page(run_id: str) -> Loaded[RunPage]:
    """Return a run with its results; an empty id means the latest run.

    Raises NotFoundError when there is no such run.
    """
    return loaded(_read_run_page, run_id or "latest")


def load_alert_list(state: str) -> Loaded[AlertList]:
    """Return the alerts in a state, with the others of their events; "" are the ongoing ones."""
    return loaded(_read_alert_list, state)


def load_event_page(event_id: str) -> Loaded[EventPage]:
    """Return an event with its alerts; raise NotFoundError when no alert belongs to it."""
    return loaded(_read_event_page, event_id)


def load_alert_page(alert_id: str) -> Loaded[AlertPage]:
    """Return an alert by its id, or the unique start of it; raise NotFoundError without one."""
    return loaded(_read_alert_page, alert_id)


@functools.cache
def cached(read: Callable[..., _Value]) -> Callable[..., _Value]:
    """Return `read` with its results cached by its arguments, those named `_...` aside."""
    # Not as a decorator: before the server runs, Streamlit warns that it has no runtime.
    return st.cache_data(max_entries=_CACHED_PAGES, show_spinner=False)(read)


def repro(case: Case, *, toolchain: str) -> str:
    """Return the command that measures `case` in `toolchain` again.

    A sign that cannot be printed is a `?`, which stands for any sign in the name of a model.
    """
    return printable(repro_command(case, toolchain=toolchain))


def open_store(url: str) -> Store:
    """Return the store at `url`, which keeps its compiled queries, and its file between writes."""
    return _store(url, LOCK_TIMEOUT_S)


@functools.cache
def _store(url: str, lock_timeout_s: float) -> Store:
    return Store(url, lock_timeout_s=lock_timeout_s, keeps_open=True)


@functools.cache
def answers() -> Answers:
    """Return what was read last."""
    return Answers()


def loaded(read: Callable[..., _Value], *wanted: str, **unkeyed: Any) -> Loaded[_Value]:
    """Return what `read` returns for this store and generation and `wanted`, cached.

    `unkeyed` are further arguments, named `_...`, that follow from `wanted`. While another process
    holds the store it is what was read before. Raises what `read` raises, StoreLocked only where
    nothing was read before.
    """
    url = store_url()
    number = generation()
    try:
        value = answers().ask(read, url, number, *wanted, **unkeyed)
    except StoreLocked as error:
        logger.info("shown as it was last read: %s", error)
        known = answers().last(read, url, *wanted)
        if known is None:
            raise
        return Loaded(value=known.value, generation=known.generation, stale_reason=str(error))
    return Loaded(value=value, generation=number)


def read_runs(url: str, generation: int) -> tuple[RunSummary, ...]:  # noqa: ARG001
    """Return the newest runs, newest first; to be asked for by `answers`."""
    return tuple(load_runs(open_store(url), limit=MAX_RUNS))


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


def _read_cells(
    url: str,
    generation: int,  # noqa: ARG001
    machine: str,
    toolchain: str,
    *metrics: str,
) -> tuple[LatestCell, ...]:
    latest = load_latest(open_store(url), machine=machine, toolchain=toolchain, metrics=metrics)
    return tuple(cell for cell in latest if not cell.summary.case.is_reference)


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


def _read_alert_list(url: str, generation: int, state: str) -> AlertList:  # noqa: ARG001
    store = open_store(url)
    alerts = load_alerts_with_events(store, states=states_of(state))
    return AlertList(
        alerts=alerts,
        events=load_events(store, ids={alert.event_id for alert in alerts}),
        has_others=bool(alerts) or has_alerts(store),
    )


def _read_event_page(url: str, generation: int, event_id: str) -> EventPage:  # noqa: ARG001
    store = open_store(url)
    alerts = load_alerts_of_event(store, event_id)
    if not alerts:
        raise NotFoundError(f"no event {event_id!r} in this store")
    return EventPage(
        event=load_events(store, ids=[event_id]).get(event_id),
        alerts=alerts,
        changes=load_changes_of(store, [alert.id for alert in alerts]),
    )


def _read_alert_page(url: str, generation: int, alert_id: str) -> AlertPage:
    store = open_store(url)
    alert = load_alert(store, alert_id)
    metric = alert_metric(alert) or DEFAULT_SERIES_METRIC
    where = (alert.case.key, metric, alert.machine, alert.toolchain)
    series = None
    with suppress(NotFoundError):
        page = answers().ask(_read_series_page, url, generation, *where)
        series = dataclasses.replace(page, alerts=(alert,))
    beside = load_alerts_of_event(store, alert.event_id) if alert.event_id else ()
    return AlertPage(
        alert=alert,
        event=load_events(store, ids=[alert.event_id]).get(alert.event_id),
        num_beside=sum(other.id != alert.id for other in beside),
        series=series,
        changes=load_changes(store, alert_id=alert.id),
        fails_now=fails_otherwise(alert, load_last=functools.partial(load_last_ending, store)),
        profiled=frozenset(run.run_id for run in load_kernel_runs(store, alert.case.key)),
    )


def _read_samples(
    url: str,
    generation: int,  # noqa: ARG001
    result_id: str,
    metric: str,
) -> tuple[Sample, ...]:
    return load_samples(open_store(url), result_id, metric)


def _read_series_page(
    url: str, generation: int, case_key: str, metric: str, machine: str, toolchain: str
) -> SeriesPage:
    store = open_store(url)
    runs = answers().ask(read_runs, url, generation)
    with store.reading():
        return _series_page(
            store, case_key, metric=metric, machine=machine, toolchain=toolchain, runs=runs
        )


def _series_page(
    store: Store,
    case_key: str,
    *,
    metric: str,
    machine: str,
    toolchain: str,
    runs: Sequence[RunSummary],
) -> SeriesPage:
    headers = find_series(store, case_key=case_key)
    histories = load_outcomes(store, limit_runs=MAX_RUNS, case_key=case_key)
    cases = [header.case for header in headers] + [history.case for history in histories]
    newest = max(headers, key=lambda header: header.last_at, default=None)
    seen_on = [header.machine for header in headers] + [item.machine for item in histories]
    chosen = machine or (newest.machine if newest else next(iter(seen_on), ""))
    if chosen not in seen_on:
        where = f" on machine {machine!r}" if machine else ""
        raise NotFoundError(f"the store has no results of case {case_key!r}{where}")
    on_machine = [item for item in histories if item.machine == chosen]
    in_any = load_trend(store, case_key=case_key, metric=metric, machine=chosen)
    toolchains = {item.toolchain for item in on_machine} | {item.toolchain for item in in_any}
    shown = toolchain or newest_toolchain(in_any, on_machine)
    if toolchain and toolchain not in toolchains:
        raise NotFoundError(
            f"the store has no results of case {case_key!r} on machine {chosen!r}"
            f" in toolchain {toolchain!r}"
        )
    points = tuple(point for point in in_any if point.toolchain == shown)
    paces = (
        load_trend(store, case_key=case_key, metric=PACE, machine=chosen, toolchain=shown)
        if metric in PACED_TIMES
        else ()
    )
    paced = at_pace(points, paces=paces, headers=headers)
    return SeriesPage(
        case=cases[0],
        machine=chosen,
        toolchain=shown,
        toolchains=tuple(sorted(toolchains)),
        headers=headers,
        siblings=_siblings(
            store,
            cases[0],
            metric=metric,
            machine=chosen,
            toolchain=shown,
            runs=runs,
        ),
        points=points,
        paced=paced,
        bands=noise_bands(paced or points),
        outcomes=next((item.points for item in on_machine if item.toolchain == shown), ()),
        environment_changes=_environment_changes(store, points),
        alerts=told(load_alerts_of_case(store, case_key, machine=chosen, toolchain=shown)),
    )


def _read_run_page(url: str, generation: int, run_id: str) -> RunPage:
    store = open_store(url)
    run = load_run(store, run_id)
    return RunPage(
        run=run,
        results=load_result_summaries(store, run.id),
        alerts=load_alerts_since(store, run.id),
        machine=answers().ask(_read_machine_moves, url, generation).get(run.id, ()),
    )


def _siblings(
    store: Store,
    case: Case,
    *,
    metric: str,
    machine: str,
    toolchain: str,
    runs: Sequence[RunSummary],
) -> tuple[SeriesHeader, ...]:
    """Return the newest series in `toolchain` of every variant of the same case."""
    wanted = (case.phase, case.shape, case.dtype, case.device)
    in_toolchain = {summary.run.id for summary in runs if summary.run.toolchain == toolchain}
    by_variant: dict[str, list[SeriesHeader]] = defaultdict(list)
    for header in find_series(store, model=case.model, metric=metric, machine=machine):
        other = header.case
        if (other.phase, other.shape, other.dtype, other.device) == wanted:
            by_variant[other.variant].append(header)
    found = []
    for headers in by_variant.values():
        newest = max(headers, key=lambda header: header.last_at)
        if any(header.last_run_id not in in_toolchain for header in headers):
            # A series has the points of all toolchains, and says what the last one was.
            points = load_trend(
                store,
                case_key=newest.case.key,
                metric=metric,
                machine=machine,
                toolchain=toolchain,
            )
            if not points:
                continue
            newest = ending_with(newest, points)
        found.append(newest)
    return tuple(found)


def _environment_changes(
    store: Store, points: Sequence[TrendPoint]
) -> tuple[EnvironmentChange, ...]:
    parts = segments(points)
    changes = []
    for old, new in zip(parts, parts[1:], strict=False):
        before = load_run(store, old[-1].run_id).environment
        after = load_run(store, new[0].run_id).environment
        changes.append(
            EnvironmentChange(
                at=new[0].at, run_id=new[0].run_id, differences=differences(before, after=after)
            )
        )
    return tuple(changes)
