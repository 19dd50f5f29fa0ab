"""Select the cases of a run to measure again before any notification.

There are two kinds of suspects. The judge raised an alert, and this run is its newest point. Or the
series is an **early suspect**: its newest one or two points already lie beyond the trigger. They
also lie outside the noise of the level before, by Student's interval over its runs as in
machine_state.py. The judge waits for three such points, since blips are gone when one looks.
Measuring again is looking at once. Times on a CPU are compared normalised (machine_speed.py), as
the judge does.
Assumptions: those of machine_state.level_change; the newest points are those of the run.
"""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from compile_hud.db.records.alerts import OUTCOME, Alert, AlertState
from compile_hud.db.records.metrics import METRICS, Direction
from compile_hud.db.records.point_columns import points_at
from compile_hud.db.records.results import Run, Verdict
from compile_hud.db.records.summaries import Point, Series
from compile_hud.db.records.triage import ONGOING
from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG
from compile_hud.runner.analysis.detection.series_changes import STEP
from compile_hud.runner.analysis.judging.cost_step import Shift
from compile_hud.runner.analysis.judging.judge import alert_id, run_ref
from compile_hud.runner.analysis.judging.machine_speed import normalised_series
from compile_hud.runner.analysis.judging.machine_state import level_change
from compile_hud.runner.analysis.judging.series_rules import SeriesRules
from compile_hud.runner.analysis.stats.estimates import sorted_median

# Re-measurements of an alert: a verdict that three of them in three nights could not reach will not
# come from a fourth.
MAX_TRIES = 3
# A case that vanished cannot be measured at all.
_KINDS = (STEP, OUTCOME)
# A change of this size ranks like a failing case.
_FAILURE = math.inf


def suspects_among(alerts: Iterable[Alert], *, run: Run) -> list[Alert]:
    """Return the open regressions with their newest point in `run` that need another measurement.

    Confirmed ones, and ones with enough attempts, are left out.
    """
    return [
        alert
        for alert in alerts
        if alert.state is AlertState.OPEN
        and alert.verdict is Verdict.REGRESSION
        and alert.kind in _KINDS
        and not alert.case.is_reference
        and (alert.machine, alert.toolchain) == (run.machine, run.toolchain)
        and run.started_at in (alert.last_seen, alert.first_bad.at)
        and not alert.is_confirmed
        and num_attempts(alert) < MAX_TRIES
    ]


def early_suspects(
    histories: Iterable[Series], *, run: Run, alerts: Sequence[Alert], rules: SeriesRules
) -> list[Alert]:
    """Return the series whose newest points, the last of `run`, deviate too shortly for the judge.

    `histories` hold the speed probes of their cases with the times; `alerts` are all that is
    stored. On a CPU the wall clock alone is no suspect.
    """
    scope = (run.machine, run.toolchain)
    stored: Mapping[str, list[Alert]] = defaultdict(list)
    for alert in alerts:
        if (alert.machine, alert.toolchain) == scope:
            stored[alert.series_key].append(alert)
    suspects = [
        suspect
        for series in normalised_series(histories, scope=scope)
        if (suspect := _early_suspect(series, run=run, stored=stored, rules=rules)) is not None
    ]
    with_cpu_time = {alert.case.key for alert in suspects if alert.metric == "latency_cpu_s"}
    return [
        alert
        for alert in suspects
        if alert.metric != "latency_s"
        or alert.case.device != "cpu"
        or alert.case.key in with_cpu_time
    ]


def sort_by_severity(suspects: Iterable[Alert]) -> dict[str, list[Alert]]:
    """Return the suspects by case, the case with the largest change first."""
    by_case: dict[str, list[Alert]] = defaultdict(list)
    for alert in sorted(suspects, key=lambda alert: (-_size(alert), alert.id)):
        by_case[alert.case.key].append(alert)
    return by_case


def num_attempts(alert: Alert) -> int:
    """Return the number of measurements of the alert so far."""
    return int((alert.confirmation or {}).get("num_tries", 0))


def is_early(alert: Alert) -> bool:
    """Return whether only a confirmation supports this alert, and not yet the judge."""
    return bool((alert.confirmation or {}).get("is_early", False))


def _early_suspect(
    series: Series, *, run: Run, stored: Mapping[str, Sequence[Alert]], rules: SeriesRules
) -> Alert | None:
    header = series.header
    metric = METRICS.get(header.metric)
    if metric is None or not metric.is_judged or header.case.is_reference:
        return None
    # A metric without noise, or with an ideal value, needs no second look by the judge.
    if metric.is_exact or metric.ideal is not None:
        return None
    rule = rules.rule_of(header.key)
    known = stored.get(header.key, ())
    starts = {alert.first_bad.run_id for alert in known if alert.state is not AlertState.FIXED}
    recent = points_of(series, run=run)[
        -(DEFAULT_CONFIG.baseline_points + DEFAULT_CONFIG.sustained_points - 1) :
    ]
    points = _level(list(recent), starts=starts | rule.baseline_run_ids)
    if not points or points[-1].run_id != run.id:
        return None
    floor = metric.relevance_floor if rule.floor is None else rule.floor
    for num_new in range(DEFAULT_CONFIG.sustained_points - 1, 0, -1):
        suspect = _deviation(series, points, num_new=num_new, floor=floor)
        if suspect is not None:
            earlier = {alert.id: alert.confirmation for alert in known}
            return dataclasses.replace(suspect, confirmation=earlier.get(suspect.id))
    return None


def points_of(series: Series, *, run: Run) -> Sequence[Point]:
    """Return the points of the machine and toolchain of `run`, oldest first, all above 0."""
    return points_at(series.header.key, series.points, scope=(run.machine, run.toolchain))


def _level(points: Sequence[Point], *, starts: set[str]) -> Sequence[Point]:
    """Return the points since the last of the runs in which a level started."""
    begins = [index for index, point in enumerate(points) if point.run_id in starts]
    return points[begins[-1] :] if begins else points


def _deviation(
    series: Series, points: Sequence[Point], *, num_new: int, floor: float
) -> Alert | None:
    """Return the alert that the last `num_new` points would be, None when they do not deviate."""
    old, new = points[-num_new - DEFAULT_CONFIG.baseline_points : -num_new], points[-num_new:]
    header = series.header
    case, metric = header.case, header.metric
    is_higher_better = METRICS[metric].direction is Direction.HIGHER_IS_BETTER
    sides = [
        [1 / point.median if is_higher_better else point.median for point in side]
        for side in (old, new)
    ]
    deviation = level_change(case.model, sides[0], sides[1], metric=metric, device=case.device)
    if deviation.change is None or deviation.low is None or deviation.high is None:
        return None
    assert deviation.baseline is not None
    trigger = 1 + DEFAULT_CONFIG.trigger_share * floor
    if deviation.low <= 0 or min(sides[1]) <= trigger * deviation.baseline:
        return None
    ratios = (1 + deviation.change, 1 + deviation.low, 1 + deviation.high)
    change, low, high = (1 / end for end in ratios) if is_higher_better else ratios
    baseline = 1 / deviation.baseline if is_higher_better else deviation.baseline
    return Alert(
        id=alert_id(header.key, kind=STEP, first_bad_run_id=new[0].run_id),
        series_key=header.key,
        kind=STEP,
        state=AlertState.OPEN,
        verdict=Verdict.REGRESSION,
        case=case,
        metric=metric,
        unit=header.unit,
        machine=new[0].machine,
        toolchain=new[0].toolchain,
        fingerprint=header.fingerprint,
        first_bad=run_ref(new[0]),
        last_good=run_ref(old[-1]),
        last_seen=new[-1].at,
        baseline=baseline,
        candidate=baseline * change,
        change_pct=100 * (change - 1),
        interval_pct=(100 * (min(low, high) - 1), 100 * (max(low, high) - 1)),
        is_relevant=deviation.change >= floor,
    )


def _size(alert: Alert) -> float:
    if (
        alert.baseline is None
        or alert.candidate is None
        or min(alert.baseline, alert.candidate) <= 0
    ):
        return _FAILURE
    return abs(math.log(alert.candidate / alert.baseline))


class ProvisionalAlerts:
    """The confirmed early suspects that the judge has not reported as a step yet.

    An early suspect stays until the level is back for three points, like a step of the judge.
    """

    def __init__(self, stored: Iterable[Alert], *, rules: SeriesRules) -> None:
        self._rules = rules
        self._alerts: Mapping[str, list[Alert]] = defaultdict(list)
        self._observed: list[Alert] = []
        for alert in stored:
            if alert.is_confirmed and is_early(alert) and alert.state in ONGOING:
                self._alerts[alert.series_key].append(alert)

    @property
    def case_keys(self) -> set[str]:
        """The cases whose histories to observe."""
        return {alert.case.key for alerts in self._alerts.values() for alert in alerts}

    def observe(self, histories: Iterable[Series]) -> Iterator[Series]:
        """Yield `histories` unchanged, and note which levels are back."""
        for _, group in groupby(histories, key=lambda series: series.header.case.key):
            case_series = list(group)
            for series in case_series:
                for alert in self._alerts.get(series.header.key, ()):
                    self._observed.append(_with_later_points(alert, case_series, rules=self._rules))
            yield from case_series

    def not_in(self, detected: Sequence[Alert]) -> list[Alert]:
        """Return the observed alerts that the judge has not `detected`."""
        judged: Mapping[tuple[str, str, str], list[Alert]] = defaultdict(list)
        for alert in detected:
            if alert.kind == STEP and alert.verdict is Verdict.REGRESSION:
                judged[_scope(alert)].append(alert)
        return [
            alert
            for alert in self._observed
            if not any(_overlap(alert, other) for other in judged[_scope(alert)])
        ]


def _scope(alert: Alert) -> tuple[str, str, str]:
    return (alert.series_key, alert.machine, alert.toolchain)


def _overlap(alert: Alert, other: Alert) -> bool:
    return alert.first_bad.at <= other.last_seen and other.first_bad.at <= alert.last_seen


def _with_later_points(alert: Alert, histories: Sequence[Series], *, rules: SeriesRules) -> Alert:
    """Return `alert` with its state by later points: open, or fixed if the level is back.

    `histories` are those of its case.
    """
    scope = (alert.machine, alert.toolchain)
    points = [
        point
        for series in normalised_series(histories, scope=scope)
        if series.header.key == alert.series_key
        for point in series.points
        if point.median > 0
    ]
    start = next((n for n, point in enumerate(points) if point.at >= alert.first_bad.at), None)
    if start is None or alert.baseline is None or alert.candidate is None:
        return alert
    metric = METRICS[alert.metric]
    floor = rules.rule_of(alert.series_key).floor
    is_inverted = metric.direction is Direction.HIGHER_IS_BETTER
    costs = tuple(1 / point.median if is_inverted else point.median for point in points)
    old = range(max(0, start - DEFAULT_CONFIG.baseline_points), start)
    before, after = (
        1 / value if is_inverted else value for value in (alert.baseline, alert.candidate)
    )
    # The common speed probe may differ from that of the alert: older nights were pruned, or came
    # in.
    factor = sorted_median(sorted(costs[old.start : old.stop])) / before if old else 1.0
    shift = Shift(
        points=points,
        costs=costs,
        old=old,
        new=range(start, len(points)),
        before=factor * before,
        after=factor * after,
        interval=None,
        floor=metric.relevance_floor if floor is None else floor,
        num_points_to_return=DEFAULT_CONFIG.sustained_points,
        is_inverted=is_inverted,
    )
    end = shift.return_index()
    last = points[-1 if end is None else max(start, end - 1)]
    return dataclasses.replace(
        alert,
        state=AlertState.OPEN if end is None else AlertState.FIXED,
        last_seen=last.at,
    )
