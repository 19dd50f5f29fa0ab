"""The nights before a suspect, as a new measurement of it is held against them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from db.records import Alert, AlertState, CaseResult
from db.summaries import Point, Series
from runner.analysis.finding import EAGER_CLOCKS, Past
from runner.analysis.history import BASELINE_POINTS
from runner.analysis.machine import CLOCKS, MachineChange, level_change


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
    nights = _nights(alert, histories, alerts=alerts)
    return Past(
        medians=_medians(alert, histories, nights=nights, key=alert.series_key),
        eager={
            clock: medians
            for clock in EAGER_CLOCKS
            if (medians := _witness(alert, histories, nights=nights, metric=clock))
        },
        references=_reference_changes(alert, histories, nights=nights, now=now),
    )


def _nights(alert: Alert, histories: Sequence[Series], *, alerts: Iterable[Alert]) -> Sequence[str]:
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
        for series in histories
        if series.header.key == alert.series_key
        for point in _ours(series, alert)
        if point.at < alert.first_bad.at and all(point.at >= start for start in since)
    ]
    return [point.run_id for point in points[-BASELINE_POINTS:]]


def _ours(series: Series, alert: Alert) -> list[Point]:
    place = (alert.machine, alert.toolchain)
    return [point for point in series.points if (point.machine, point.toolchain) == place]


def _medians(
    alert: Alert, histories: Sequence[Series], *, nights: Sequence[str], key: str
) -> list[float]:
    values = {
        point.run_id: point.median
        for series in histories
        if series.header.key == key
        for point in _ours(series, alert)
    }
    return [values[run_id] for run_id in nights if run_id in values]


def _witness(
    alert: Alert, histories: Sequence[Series], *, nights: Sequence[str], metric: str
) -> list[float]:
    """Return what another metric of the same case was in these nights, where it was above 0."""
    for series in histories:
        header = series.header
        if (header.case.key, header.metric) == (alert.case.key, metric):
            found = _medians(alert, histories, nights=nights, key=header.key)
            return [value for value in found if value > 0]
    return []


def _reference_changes(
    alert: Alert,
    histories: Sequence[Series],
    *,
    nights: Sequence[str],
    now: Mapping[str, CaseResult],
) -> list[MachineChange]:
    """Return how the reference cases moved from these nights to now, on their steadiest clock."""
    found: dict[str, MachineChange] = {}
    for metric in CLOCKS:
        for series in histories:
            case = series.header.case
            result = now.get(case.key)
            measured = None if result is None else result.measurement(metric)
            is_wanted = case.is_reference and series.header.metric == metric
            if not is_wanted or measured is None or case.model in found or measured.median <= 0:
                continue
            medians = _medians(alert, histories, nights=nights, key=series.header.key)
            before = [value for value in medians if value > 0]
            found[case.model] = level_change(
                case.model, before, [measured.median], metric=metric, device=case.device
            )
    return list(found.values())
