"""The only place that queries and writes: one read a page, cached by the store's generation.

Nothing here keeps the store open; a store is opened for each read and closed after it. When another
process holds it longer than LOCK_TIMEOUT_S, the last thing read is shown and said to be stale.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
import os
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, TypeVar

import numpy as np
import streamlit as st

from app.history import differences, ending_with, newest_toolchain, segments
from app.matrix import MODE_ORDER, vanished_cases
from app.pages import (
    AlertsPage,
    Band,
    EnvironmentChange,
    Loaded,
    MachineMove,
    ModeSummary,
    Overview,
    RunPage,
    SeriesPage,
)
from db.errors import NotFoundError, StoreError, StoreLocked
from db.queries import (
    find_series,
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
from db.records import REFERENCE_FAMILY, Alert, AlertState, Case
from db.store import Store
from db.summaries import LatestCell, OutcomeHistory, RunSummary, Sample, SeriesHeader, TrendPoint
from runner.analysis.aggregate import cohort_means, pass_rate
from runner.analysis.detector import describe_steps
from runner.analysis.history import MIN_BASELINE_POINTS, NOISE_MULTIPLE
from runner.analysis.machine import CLOCKS, MachineChange, machine_history
from runner.analysis.repro import repro_command
from runner.analysis.stats import robust_sd
from runner.analysis.triage import (
    AlertStateError,
    Decide,
    set_care,
    set_state,
)

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
    return _open(store_url()).name


def generation() -> int:
    """Return the number that changes with every write to the store."""
    return _open(store_url()).generation()


def load_runs_page() -> Loaded[tuple[RunSummary, ...]]:
    """Return the newest runs, newest first."""
    url = store_url()
    return _or_stale(("runs", url), lambda number: cached(_read_runs)(url, number))


def load_overview() -> Loaded[Overview]:
    """Return the latest results, the alerts and the newest runs."""
    url = store_url()
    return _or_stale(("overview", url), lambda number: cached(_read_overview)(url, number))


def load_machine_moves() -> Loaded[Mapping[str, tuple[MachineMove, ...]]]:
    """Return how the reference cases of each run stand against the runs before, by run id."""
    url = store_url()
    return _or_stale(("machine", url), lambda number: cached(_read_machine_moves)(url, number))


def load_series_page(
    case_key: str, *, metric: str, machine: str, toolchain: str
) -> Loaded[SeriesPage]:
    """Return the history of a case; raise NotFoundError when the store never saw it.

    An empty machine means the one that measured the case last, an empty toolchain that of the
    newest point.
    """
    url = store_url()
    wanted = (case_key, metric, machine, toolchain)
    return _or_stale(
        ("series", url, *wanted),
        lambda number: cached(_read_series_page)(url, number, *wanted),
    )


def load_result_samples(result_id: str, *, metric: str) -> Loaded[tuple[Sample, ...]]:
    """Return the samples of one measurement, warm-ups first."""
    url = store_url()
    return _or_stale(
        ("samples", url, result_id, metric),
        lambda number: cached(_read_samples)(url, number, result_id, metric),
    )


def load_run_page(run_id: str) -> Loaded[RunPage]:
    """Return a run with its results; an empty id means the latest run.

    Raises NotFoundError when there is no such run.
    """
    url = store_url()
    return _or_stale(
        ("run", url, run_id), lambda number: cached(_read_run_page)(url, number, run_id or "latest")
    )


def load_alerts_page() -> Loaded[AlertsPage]:
    """Return all alerts and every change of them."""
    url = store_url()
    return _or_stale(("alerts", url), lambda number: cached(_read_alerts)(url, number))


def decide_state(alert_id: str, state: AlertState, *, by: str, why: str) -> str:
    """Move an alert to `state` on record; return what went wrong, "" when it is saved."""
    return _decide(set_state([alert_id], state, why=why), by=by)


def decide_care(alert: Alert, *, owner: str, until: datetime | None, by: str, why: str) -> str:
    """Set owner and mute of `alert` on record; return what went wrong, "" when it is saved."""
    return _decide(set_care(alert, owner=owner, until=until, why=why), by=by)


def _decide(decision: Decide, *, by: str) -> str:
    try:
        _open(store_url()).revise_alerts(decision, by=by)
    except (AlertStateError, StoreError) as error:
        return f"Not saved: {error}."
    return ""


@functools.cache
def cached(read: Callable[..., _Value]) -> Callable[..., _Value]:
    """Return `read` with its results cached by its arguments, those named `_...` aside."""
    # Not as a decorator: before the server runs, Streamlit warns that it has no runtime.
    return st.cache_data(max_entries=_CACHED_PAGES, show_spinner=False)(read)


def mode_summaries(
    cells: Sequence[LatestCell], *, alerts: Sequence[Alert]
) -> tuple[ModeSummary, ...]:
    """Return what each compile mode does for the models of `cells`, over the common cohort.

    The cohort is common to PyTorch's modes alone: variants that only some models have would
    shrink it. A case that vanished is not ok, whatever its newest result was. `cells` and `alerts`
    are of one machine and one toolchain.
    """
    gone = vanished_cases(alerts)
    by_mode = {
        mode: [cell for cell in cells if cell.summary.case.variant == mode]
        for mode in MODE_ORDER[1:]
    }
    present = {
        mode: [cell for cell in found if cell.summary.case.key not in gone]
        for mode, found in by_mode.items()
    }
    columns = {mode: _speedups(found) for mode, found in present.items()}
    cohort = cohort_means({mode: column for mode, column in columns.items() if column})
    num_subjects = len({_subject(cell.summary.case) for cell in cells})
    summaries = []
    for mode, found in by_mode.items():
        if not found:
            continue
        passed = pass_rate(cell.summary.outcome for cell in present[mode])
        num_gone = len(found) - len(present[mode])
        summaries.append(
            ModeSummary(
                variant=mode,
                mean=cohort.means.get(mode),
                num_common=cohort.num_common,
                num_subjects=num_subjects,
                num_ok=passed.num_ok,
                num_tried=passed.num_tried + num_gone,
                effective_modes=_fallbacks(present[mode]),
            )
        )
    return tuple(summaries)


def repro(case: Case, *, toolchain: str) -> str:
    """Return the command that measures `case` in `toolchain` again."""
    return repro_command(case, toolchain=toolchain)


def noise_bands(points: Sequence[TrendPoint]) -> tuple[Band, ...]:
    """Return the levels of a series with their noise bands.

    A level ends where the environment changes or the detector finds a step. Its band is the median
    of its points +- NOISE_MULTIPLE robust standard deviations of them. Levels with fewer than
    MIN_BASELINE_POINTS points, and series that touch 0, have none.
    """
    bands = []
    for segment in segments(points):
        values = np.asarray([point.median for point in segment])
        if not (values > 0).all():
            continue
        starts = [0, *(step.index for step in describe_steps(values))]
        for start, end in zip(starts, [*starts[1:], len(segment)], strict=True):
            if end - start >= MIN_BASELINE_POINTS:
                bands.append(_band(segment[start:end]))
    return tuple(bands)


def _subject(case: Case) -> str:
    return "/".join((case.model, case.phase, case.shape, case.dtype, case.device))


def _speedups(cells: Sequence[LatestCell]) -> dict[str, float]:
    return {
        _subject(cell.summary.case): cell.summary.measurements["speedup"].median
        for cell in cells
        if "speedup" in cell.summary.measurements
    }


def _fallbacks(cells: Sequence[LatestCell]) -> tuple[tuple[str, int], ...]:
    counts = Counter(
        cell.summary.effective_mode
        for cell in cells
        if cell.summary.effective_mode not in ("", cell.summary.case.mode)
    )
    return tuple(counts.most_common())


def _open(url: str) -> Store:
    return Store(url, lock_timeout_s=LOCK_TIMEOUT_S)


@functools.cache
def _last_loaded() -> OrderedDict[tuple[str, ...], Loaded[Any]]:
    return OrderedDict()


def _or_stale(key: tuple[str, ...], read: Callable[[int], _Value]) -> Loaded[_Value]:
    last = _last_loaded()
    number = generation()
    try:
        loaded = Loaded(value=read(number), generation=number)
    except StoreLocked as error:
        logger.info("shown as it was last read: %s", error)
        known = last.get(key)
        if known is None:
            raise
        return dataclasses.replace(known, stale_reason=str(error))
    # A key has words of the URL in it, so whoever asks decides how many there are.
    last.pop(key, None)
    last[key] = loaded
    while len(last) > _CACHED_PAGES:
        last.popitem(last=False)
    return loaded


def _read_runs(url: str, generation: int) -> tuple[RunSummary, ...]:  # noqa: ARG001
    return tuple(load_runs(_open(url), limit=MAX_RUNS))


def _read_overview(url: str, generation: int) -> Overview:
    store = _open(url)
    latest = load_latest(store)
    moves = cached(_read_machine_moves)(url, generation)
    # The newest run that has a reference case says how its machine stands.
    references = [cell for cell in latest if cell.summary.case.is_reference]
    newest = {
        (cell.machine, cell.toolchain): cell.run_id
        for cell in sorted(references, key=lambda cell: cell.run_started_at)
    }
    return Overview(
        runs=cached(_read_runs)(url, generation),
        cells=tuple(cell for cell in latest if not cell.summary.case.is_reference),
        alerts=load_alerts(store),
        machine={place: moves.get(run_id, ()) for place, run_id in newest.items()},
    )


def _read_machine_moves(
    url: str,
    generation: int,  # noqa: ARG001
) -> dict[str, tuple[MachineMove, ...]]:
    histories = load_histories(_open(url), metrics=CLOCKS, family=REFERENCE_FAMILY)
    return {
        run_id: tuple(map(_machine_move, changes))
        for run_id, changes in machine_history(histories).items()
    }


def _machine_move(change: MachineChange) -> MachineMove:
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


def _read_alerts(url: str, generation: int) -> AlertsPage:  # noqa: ARG001
    store = _open(url)
    return AlertsPage(alerts=load_alerts(store), changes=load_changes(store))


def _read_outcomes(url: str, generation: int) -> tuple[OutcomeHistory, ...]:  # noqa: ARG001
    return load_outcomes(_open(url), limit_runs=MAX_RUNS)


def _read_samples(
    url: str,
    generation: int,  # noqa: ARG001
    result_id: str,
    metric: str,
) -> tuple[Sample, ...]:
    return load_samples(_open(url), result_id, metric)


def _read_series_page(
    url: str, generation: int, case_key: str, metric: str, machine: str, toolchain: str
) -> SeriesPage:
    store = _open(url)
    headers = find_series(store, case_key=case_key)
    histories = [
        item for item in cached(_read_outcomes)(url, generation) if item.case.key == case_key
    ]
    cases = [header.case for header in headers] + [history.case for history in histories]
    newest = max(headers, key=lambda header: header.last_at, default=None)
    seen_on = [item.machine for item in headers] + [item.machine for item in histories]
    chosen = machine or (newest.machine if newest else next(iter(seen_on), ""))
    if chosen not in seen_on:
        where = f" on machine {machine!r}" if machine else ""
        raise NotFoundError(f"the store has no results of case {case_key!r}{where}")
    on_machine = [item for item in histories if item.machine == chosen]
    in_any = load_trend(store, case_key=case_key, metric=metric, machine=chosen)
    toolchains = {item.toolchain for item in (*on_machine, *in_any)}
    shown = toolchain or newest_toolchain(in_any, on_machine)
    if toolchain and toolchain not in toolchains:
        raise NotFoundError(
            f"the store has no results of case {case_key!r} on machine {chosen!r}"
            f" in toolchain {toolchain!r}"
        )
    points = tuple(point for point in in_any if point.toolchain == shown)
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
            runs=cached(_read_runs)(url, generation),
        ),
        points=points,
        bands=noise_bands(points),
        outcomes=next((item.points for item in on_machine if item.toolchain == shown), ()),
        environment_changes=_environment_changes(store, points),
        alerts=tuple(
            alert
            for alert in load_alerts(store)
            if (alert.case.key, alert.machine, alert.toolchain) == (case_key, chosen, shown)
        ),
    )


def _read_run_page(url: str, generation: int, run_id: str) -> RunPage:
    store = _open(url)
    run = load_run(store, run_id)
    return RunPage(
        run=run,
        results=load_result_summaries(store, run.id),
        alerts=tuple(alert for alert in load_alerts(store) if alert.machine == run.machine),
        machine=cached(_read_machine_moves)(url, generation).get(run.id, ()),
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


def _band(level: Sequence[TrendPoint]) -> Band:
    values = [point.median for point in level]
    middle = float(np.median(values))
    margin = NOISE_MULTIPLE * robust_sd(values)
    return Band(
        start=level[0].at,
        end=level[-1].at,
        level=middle,
        low=middle - margin,
        high=middle + margin,
    )
