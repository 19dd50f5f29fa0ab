"""Read the history of a case; cut it where the environment changes, and bound its noise."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from compile_hud.app.data.cache import cached_read
from compile_hud.app.data.page_records import (
    Band,
    EnvironmentChange,
    SeriesPage,
)
from compile_hud.app.data.runs import MAX_RUNS, load_newest_runs
from compile_hud.app.data.store import StoreVersion
from compile_hud.db.errors import NotFoundError
from compile_hud.db.queries.alerts import (
    load_alerts_of_case,
)
from compile_hud.db.queries.outcomes import load_outcomes
from compile_hud.db.queries.results import load_samples, load_samples_of
from compile_hud.db.queries.runs import load_run
from compile_hud.db.queries.series import find_series, load_trend
from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.point_columns import point_columns
from compile_hud.db.records.results import Case, Verdict
from compile_hud.db.records.summaries import (
    OutcomeHistory,
    RunSummary,
    Sample,
    SeriesHeader,
    TrendPoint,
)
from compile_hud.db.store import Store
from compile_hud.runner.analysis.comparison.runs import baseline_differences
from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG
from compile_hud.runner.analysis.detector import describe_steps
from compile_hud.runner.analysis.judging.cost_step import Track
from compile_hud.runner.analysis.judging.machine_speed import normalise_by_machine_speed
from compile_hud.runner.analysis.stats.estimates import robust_sd
from compile_hud.runner.analysis.stats.launch_levels import NORMALISED_TIMES, SPEED_PROBE

# The browser draws each as a dot; more are slow to draw and hide one another.
MAX_SAMPLES = 4000


@cached_read
def load_series_page(
    at: StoreVersion, case_key: str, *, metric: str, machine: str, toolchain: str
) -> SeriesPage:
    """Return the history of a case; raise NotFoundError if the store has no result of it.

    The default machine is the one that measured the case last, the default toolchain that of the
    newest point.
    """
    store = at.store
    runs = load_newest_runs.read_at(at)
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
        load_trend(store, case_key=case_key, metric=SPEED_PROBE, machine=chosen, toolchain=shown)
        if metric in NORMALISED_TIMES
        else ()
    )
    normalised = normalised_points(points, paces=paces, headers=headers)
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
        normalised=normalised,
        bands=noise_bands(normalised or points),
        outcomes=next((item.points for item in on_machine if item.toolchain == shown), ()),
        environment_changes=_environment_changes(store, points),
        alerts=reportable_alerts(
            load_alerts_of_case(store, case_key, machine=chosen, toolchain=shown)
        ),
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
    dimensions = (case.phase, case.shape, case.dtype, case.device)
    in_toolchain = {summary.run.id for summary in runs if summary.run.toolchain == toolchain}
    by_variant: dict[str, list[SeriesHeader]] = defaultdict(list)
    for header in find_series(store, model=case.model, metric=metric, machine=machine):
        other = header.case
        if (other.phase, other.shape, other.dtype, other.device) == dimensions:
            by_variant[other.variant].append(header)
    newest_headers = []
    for headers in by_variant.values():
        newest = max(headers, key=lambda header: header.last_at)
        if any(header.last_run_id not in in_toolchain for header in headers):
            # A series has the points of all toolchains, and its header names the last one.
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
        newest_headers.append(newest)
    return tuple(newest_headers)


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


@cached_read
def load_result_samples(at: StoreVersion, result_id: str, *, metric: str) -> tuple[Sample, ...]:
    """Return the samples of one measurement, warm-ups first."""
    return load_samples(at.store, result_id, metric)


def load_raw(page: SeriesPage, *, metric: str) -> Mapping[str, tuple[Sample, ...]]:
    """Return the single samples of the points of `page` that have them drawn, by result."""
    return _raw_samples(tuple(point.result_id for point in with_samples(page)), metric).value


@cached_read
def _raw_samples(
    at: StoreVersion, result_ids: tuple[str, ...], metric: str
) -> dict[str, tuple[Sample, ...]]:
    return load_samples_of(at.store, result_ids, metric)


def with_samples(page: SeriesPage) -> tuple[TrendPoint, ...]:
    """Return the newest points of `page` whose samples together fit into a chart."""
    num_samples = 0
    selection: list[TrendPoint] = []
    for point in reversed(page.points):
        num_samples += point.num_samples
        if selection and num_samples > MAX_SAMPLES:
            break
        selection.append(point)
    return tuple(reversed(selection))


def reportable_alerts(alerts: Iterable[Alert]) -> tuple[Alert, ...]:
    """Return the alerts to show: neither noise nor unconfirmed."""
    return tuple(
        alert
        for alert in alerts
        if alert.state is not AlertState.NOISE
        and (alert.verdict in (Verdict.REGRESSION, Verdict.IMPROVEMENT) or alert.kind == "variance")
    )


def segments(points: Sequence[TrendPoint]) -> list[list[TrendPoint]]:
    """Return `points` cut where the environment changes."""
    pieces: list[list[TrendPoint]] = []
    for point in points:
        if not pieces or pieces[-1][-1].fingerprint != point.fingerprint:
            pieces.append([])
        pieces[-1].append(point)
    return pieces


def differences(
    before: Mapping[str, Any], *, after: Mapping[str, Any]
) -> tuple[tuple[str, str, str], ...]:
    """Return the environment facts that differ and start a new baseline, "" for a missing one."""
    return tuple(
        (item.name, _fact_text(item.baseline), _fact_text(item.candidate))
        for item in baseline_differences(before, after=after)
    )


def _fact_text(value: Any) -> str:
    return "" if value is None else str(value)


def newest_toolchain(points: Sequence[TrendPoint], histories: Sequence[OutcomeHistory]) -> str:
    """Return the toolchain of the newest point, else of the newest outcome, else ""."""
    if points:
        return points[-1].toolchain
    newest = max(histories, key=lambda history: history.points[-1].at, default=None)
    return newest.toolchain if newest else ""


def ending_with(header: SeriesHeader, points: Sequence[TrendPoint]) -> SeriesHeader:
    """Return `header` as if `points` were all points of its series."""
    first, last = points[0], points[-1]
    return dataclasses.replace(
        header,
        key=last.series_key,
        fingerprint=last.fingerprint,
        num_points=len(points),
        first_at=first.at,
        last_at=last.at,
        last_run_id=last.run_id,
        last_value=last.median,
    )


def noise_bands(points: Sequence[TrendPoint]) -> tuple[Band, ...]:
    """Return the levels of a series with their noise bands.

    A level ends where the environment changes or the detector finds a step. Its band is the median
    of its points +- NOISE_MULTIPLE robust standard deviations. Levels with fewer than
    MIN_BASELINE_POINTS points have none, nor have series that touch 0.
    """
    bands = []
    for segment in segments(points):
        values = np.asarray([point.median for point in segment])
        if not (values > 0).all():
            continue
        starts = [0, *(step.index for step in describe_steps(values))]
        for start, end in zip(starts, [*starts[1:], len(segment)], strict=True):
            if end - start >= DEFAULT_CONFIG.min_baseline_points:
                bands.append(_band(segment[start:end]))
    return tuple(bands)


def normalised_points(
    points: Sequence[TrendPoint],
    *,
    paces: Sequence[TrendPoint],
    headers: Sequence[SeriesHeader],
) -> tuple[TrendPoint, ...]:
    """Return `points`, times of one case, divided by the machine's speed: the values that are
    judged.

    `paces` are the points of the speed probe in the same runs, `headers` the series of both. Each
    environment is normalised on its own. Empty without a speed probe, for reference cases (they
    measure the machine) and for metrics that are no times.
    """
    known = {header.key: header for header in headers}
    by_result: dict[str, TrendPoint] = {}
    for key, together in _by_series(points).items():
        header = known.get(key)
        probes = [item for item in paces if item.fingerprint == together[0].fingerprint]
        if header is None or not probes or not _is_normalised(header):
            continue
        probe_header = dataclasses.replace(header, metric=SPEED_PROBE, key=probes[0].series_key)
        tracks = {
            item.metric: _track(item, of)
            for item, of in ((header, together), (probe_header, probes))
        }
        scaled = normalise_by_machine_speed(tracks)[header.metric].points
        for point, level in zip(together, scaled, strict=True):
            by_result[point.result_id] = dataclasses.replace(
                point, median=level.median, low=level.low, high=level.high
            )
    return tuple(by_result.get(point.result_id, point) for point in points) if by_result else ()


def _is_normalised(header: SeriesHeader) -> bool:
    return header.metric in NORMALISED_TIMES and not header.case.is_reference


def _by_series(points: Sequence[TrendPoint]) -> dict[str, list[TrendPoint]]:
    by_series: dict[str, list[TrendPoint]] = defaultdict(list)
    for point in points:
        by_series[point.series_key].append(point)
    return by_series


def _track(header: SeriesHeader, points: Sequence[TrendPoint]) -> Track:
    return Track(
        header=header,
        machine=points[0].machine,
        toolchain=points[0].toolchain,
        points=point_columns(header.key, points),
    )


def _band(level: Sequence[TrendPoint]) -> Band:
    values = [point.median for point in level]
    middle = float(np.median(values))
    margin = DEFAULT_CONFIG.noise_band_sds * robust_sd(values)
    return Band(
        start=level[0].at,
        end=level[-1].at,
        level=middle,
        low=middle - margin,
        high=middle + margin,
    )
