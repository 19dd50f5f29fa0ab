"""The nights before a suspect, as a new measurement of it is held against them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from compile_hud.db.records._merge_points import point_columns
from compile_hud.db.records.results import Alert, AlertState, CaseResult
from compile_hud.db.records.summaries import Series
from compile_hud.runner.analysis.confirmation.verdict import EAGER_CLOCKS, Past
from compile_hud.runner.analysis.detection.constants import BASELINE_POINTS
from compile_hud.runner.analysis.judging.machine_pace import common_pace_s, series_at_one_pace
from compile_hud.runner.analysis.judging.machine_state import CLOCKS, MachineChange, level_change
from compile_hud.runner.analysis.stats.launch_levels import PACE, PACED_TIMES, level_at


def past_of(
    alert: Alert,
    histories: Sequence[Series],
    *,
    alerts: Iterable[Alert],
    now: Mapping[str, CaseResult],
) -> Past:
    """Return the baseline nights of `alert` in `histories`, those of its machine and toolchain.

    `alerts` are all that are stored: a level ends where one of them begins or is over. `now` are
    the reference cases that the nights' are compared with, by the key of their case.
    """
    wanted = {alert.case.key, *now}
    levels = series_at_one_pace(
        [series for series in histories if series.header.case.key in wanted],
        place=(alert.machine, alert.toolchain),
        # What else slowed the machine than its pace; what has no pace is held against all of it.
        has_references=alert.metric in PACED_TIMES,
    )
    nights = _nights(alert, levels, alerts=alerts)
    return Past(
        medians=_medians(levels, nights=nights, key=alert.series_key),
        eager={
            clock: medians
            for clock in EAGER_CLOCKS
            if (medians := _witness(alert, levels, nights=nights, metric=clock))
        },
        references=_reference_changes(alert, levels, nights=nights, now=now),
        pace_s=_pace_s(levels, alert.case.key),
    )


def _pace_s(levels: Sequence[Series], case_key: str) -> float | None:
    """Return the pace that the times of a case are at, None where it is not known."""
    for series in levels:
        header = series.header
        if (header.case.key, header.metric) == (case_key, PACE):
            return common_pace_s(point_columns(header.key, series.points))
    return None


def _nights(alert: Alert, levels: Sequence[Series], *, alerts: Iterable[Alert]) -> Sequence[str]:
    """Return the runs of the level before the step, oldest first."""
    since = [
        (other.last_seen if other.state is AlertState.FIXED else other.first_bad.at)
        for other in alerts
        if other.id != alert.id
        and (other.series_key, other.machine, other.toolchain)
        == (alert.series_key, alert.machine, alert.toolchain)
        and other.first_bad.at < alert.first_bad.at
        and other.baseline is not None
    ]
    points = [
        point
        for series in levels
        if series.header.key == alert.series_key
        for point in series.points
        if point.at < alert.first_bad.at and all(point.at >= start for start in since)
    ]
    return [point.run_id for point in points[-BASELINE_POINTS:]]


def _medians(levels: Sequence[Series], *, nights: Sequence[str], key: str) -> list[float]:
    values = {
        point.run_id: point.median
        for series in levels
        if series.header.key == key
        for point in series.points
    }
    return [values[run_id] for run_id in nights if run_id in values]


def _witness(
    alert: Alert, levels: Sequence[Series], *, nights: Sequence[str], metric: str
) -> list[float]:
    """Return what another metric of the same case was in these nights, where it was above 0."""
    for series in levels:
        header = series.header
        if (header.case.key, header.metric) == (alert.case.key, metric):
            found = _medians(levels, nights=nights, key=header.key)
            return [value for value in found if value > 0]
    return []


def _reference_changes(
    alert: Alert,
    levels: Sequence[Series],
    *,
    nights: Sequence[str],
    now: Mapping[str, CaseResult],
) -> list[MachineChange]:
    """Return how the reference cases moved from these nights to now, on their steadiest clock."""
    found: dict[str, MachineChange] = {}
    for metric in CLOCKS:
        for series in levels:
            case = series.header.case
            result = now.get(case.key)
            measured = None if result is None else result.measurement(metric)
            is_wanted = case.is_reference and series.header.metric == metric
            if not is_wanted or result is None or measured is None or case.model in found:
                continue
            if measured.median <= 0:
                continue
            medians = _medians(levels, nights=nights, key=series.header.key)
            before = [value for value in medians if value > 0]
            pace_s = _pace_s(levels, case.key) if alert.metric in PACED_TIMES else None
            after = [level_at(result, metric, pace_s=pace_s)]
            found[case.model] = level_change(
                case.model, before, after, metric=metric, device=case.device
            )
    return list(found.values())
