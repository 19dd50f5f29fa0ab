"""Conclude from a repeated measurement of a suspect: confirmed, refuted or inconclusive.

The first method is interleaved with the toolchain of the last good run: the comparison of
paired.py, which needs no history. The second one uses the history: Student's interval of
machine_state.level_change between the nights before the step and the new measurement. It is divided
by the slowdown of the reference cases in between.

A suspect is **confirmed** if that is a regression by the rules of measurements.py. It is
**refuted** if a change of the floor is excluded. It is also refuted if the interval excludes the
suspected change and the estimate is less than half of it. Else the verdict is **inconclusive**. If
both toolchains are equal today, a level that is bad in both is not refuted: the history decides.
Assumptions: those of paired.py and machine_state.py; a slower reference case slowed a case by no
more than itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.metrics import METRICS, Direction
from compile_hud.db.records.point_columns import point_columns
from compile_hud.db.records.results import CaseResult, Measurement, Outcome, Verdict
from compile_hud.db.records.summaries import Series
from compile_hud.db.shared.text import plain, signed_percent
from compile_hud.runner.analysis.comparison.measurements import Comparison, decide
from compile_hud.runner.analysis.comparison.runs import CaseComparison
from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG
from compile_hud.runner.analysis.judging.attribution import (
    COMPILER,
    EAGER,
    MACHINE,
    TIMED_METRICS,
    UNKNOWN,
    Cause,
    ControlMetrics,
    attribute_cause,
)
from compile_hud.runner.analysis.judging.machine_speed import (
    common_speed_probe_s,
    normalised_series,
)
from compile_hud.runner.analysis.judging.machine_state import (
    ABSOLUTE_METRICS,
    CLOCKS,
    MachineChange,
    MachineVerdict,
    level_change,
)
from compile_hud.runner.analysis.stats.cohort import geometric_mean
from compile_hud.runner.analysis.stats.launch_levels import (
    NORMALISED_TIMES,
    SPEED_PROBE,
    launch_levels,
    level_at,
)

# A refuting estimate is below this share of the suspected change, and its interval excludes that
# change. A rule on the whole interval would leave nine of ten false suspects undecided.
REFUTING_SHARE = 0.5
EAGER_CLOCKS = ("eager_latency_cpu_s", "eager_latency_s")


class Conclusion(StrEnum):
    """The conclusion of a confirmation."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"


class Method(StrEnum):
    """The method of a confirmation; `none` if the budget did not suffice."""

    IN_TURN = "in_turn"
    HISTORY = "history"
    REPEAT = "repeat"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmationResult:
    """The conclusion about one alert, its reason, and the cause of the change.

    `comparison` is candidate over baseline, None without numbers.
    """

    conclusion: Conclusion
    reason: str
    method: Method
    cause: Cause = field(default_factory=Cause)
    comparison: Comparison | None = None
    baseline: float | None = None
    candidate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineHistory:
    """The nights before a suspect: medians of its metric, of eager's, and of the reference cases.

    `eager` is by metric, in seconds. `references` are the changes of the reference cases since
    then. `speed_probe_s` is the common probe of times on a CPU, None if unknown.
    """

    medians: Sequence[float]
    eager: Mapping[str, Sequence[float]] = field(default_factory=dict)
    references: Sequence[MachineChange] = ()
    speed_probe_s: float | None = None


def not_measured(reason: str) -> ConfirmationResult:
    """Return the result for a suspect that could not be measured again."""
    return ConfirmationResult(conclusion=Conclusion.INCONCLUSIVE, reason=reason, method=Method.NONE)


def confirm_interleaved(
    alert: Alert, rows: Sequence[CaseComparison], *, sides: tuple[CaseResult, CaseResult]
) -> ConfirmationResult:
    """Return the conclusion of a paired measurement of both toolchains about `alert`."""
    row = next((row for row in rows if row.metric == alert.metric), None)
    if row is None:
        reason = f"{alert.metric} was not measured on both sides"
        return _inconclusive(reason, method=Method.IN_TURN)
    conclusion = _conclusion(row.comparison, alert)
    cause = Cause()
    if conclusion is Conclusion.CONFIRMED:
        controls = ControlMetrics(
            metric=alert.metric,
            change=_cost(row.comparison.ratio, alert) - 1,
            eager=_interleaved_eager_change(sides),
            ran_in_turn=True,
        )
        cause = _attributed(controls, alert)
    return ConfirmationResult(
        conclusion=conclusion,
        reason=_reason(row.comparison, alert, conclusion=conclusion),
        method=Method.IN_TURN,
        cause=cause,
        comparison=row.comparison,
        baseline=row.baseline,
        candidate=row.candidate,
    )


def confirm_by_history(
    alert: Alert, result: CaseResult, *, history: BaselineHistory
) -> ConfirmationResult:
    """Return the conclusion of one more measurement of the candidate about `alert`."""
    if result.outcome is not Outcome.OK:
        reason = f"the case ended {result.outcome} when it was re-measured: {result.reason}"
        return _inconclusive(reason, method=Method.HISTORY)
    measured = result.measurement(alert.metric)
    if measured is None:
        return _inconclusive(f"{alert.metric} was not re-measured", method=Method.HISTORY)
    metric = METRICS[alert.metric]
    if metric.is_exact or metric.ideal is not None:
        return _confirm_exactly(measured, alert=alert, history=history)
    if measured.median <= 0:
        return _inconclusive(f"{alert.metric} is 0 now: no ratio", method=Method.HISTORY)
    change = level_change(
        alert.case.model,
        history.medians,
        [level_at(result, alert.metric, speed_probe_s=history.speed_probe_s)],
        metric=alert.metric,
        device=alert.case.device,
    )
    if change.change is None or change.low is None or change.high is None:
        return _inconclusive(change.reason, method=Method.HISTORY)
    raw = _decide(alert, ratios=(1 + change.change, 1 + change.low, 1 + change.high))
    conclusion = _conclusion(raw, alert)
    confirmation = ConfirmationResult(
        conclusion=conclusion,
        reason=_reason(raw, alert, conclusion=conclusion),
        method=Method.HISTORY,
        comparison=raw,
        baseline=change.baseline,
        candidate=change.candidate,
    )
    if confirmation.conclusion is not Conclusion.CONFIRMED:
        return confirmation
    controls = ControlMetrics(
        metric=alert.metric,
        change=_cost(raw.ratio, alert) - 1,
        eager=_eager_change(history, result),
        references=history.references,
    )
    confirmation = dataclasses.replace(confirmation, cause=_attributed(controls, alert))
    if alert.metric not in ABSOLUTE_METRICS or confirmation.cause.kind == COMPILER:
        return confirmation
    return _drift_corrected(confirmation, alert=alert, references=history.references)


def confirm_outcome(result: CaseResult) -> ConfirmationResult:
    """Return the conclusion about a failing case from another measurement of it."""
    has_failed = result.outcome.is_attempted and not result.outcome.is_success
    why = f": {result.reason}" if result.reason else ""
    if has_failed:
        conclusion, reason = Conclusion.CONFIRMED, f"{result.outcome} again{why}"
    elif result.outcome is Outcome.OK:
        conclusion, reason = Conclusion.REFUTED, "ok when it was re-measured: it is intermittent"
    else:
        conclusion, reason = (
            Conclusion.INCONCLUSIVE,
            f"{result.outcome} when it was re-measured{why}",
        )
    return ConfirmationResult(conclusion=conclusion, reason=reason, method=Method.REPEAT)


def bad_in_both(in_turn: ConfirmationResult, by_history: ConfirmationResult) -> ConfirmationResult:
    """Return `in_turn`, a refutation, unless the history shows that both sides are bad now."""
    if by_history.conclusion is not Conclusion.CONFIRMED:
        return in_turn
    kind = by_history.cause.kind if by_history.cause.kind in (EAGER, MACHINE) else UNKNOWN
    text = "the toolchain of the last good run is as slow by now: not the toolchain"
    return dataclasses.replace(
        by_history,
        reason=f"{by_history.reason}; {text}",
        cause=Cause(kind=kind, text=text),
    )


def _inconclusive(reason: str, *, method: Method) -> ConfirmationResult:
    return ConfirmationResult(conclusion=Conclusion.INCONCLUSIVE, reason=reason, method=method)


def _decide(alert: Alert, *, ratios: tuple[float, float, float]) -> Comparison:
    ratio, low, high = ratios
    metric = METRICS[alert.metric]
    return decide(
        ratio, low=low, high=high, direction=metric.direction, floor=metric.relevance_floor
    )


def _conclusion(compared: Comparison, alert: Alert) -> Conclusion:
    if compared.verdict is Verdict.REGRESSION:
        return Conclusion.CONFIRMED
    if compared.verdict is not Verdict.INCONCLUSIVE:
        return Conclusion.REFUTED
    if compared.ratio is None or compared.low is None or compared.high is None:
        return Conclusion.INCONCLUSIVE
    suspected = _suspected(alert)
    worst_cost = max(_cost(end, alert) for end in (compared.low, compared.high))
    halfway = 1 + REFUTING_SHARE * (suspected - 1)
    is_ruled_out = worst_cost < suspected and _cost(compared.ratio, alert) < halfway
    return Conclusion.REFUTED if is_ruled_out else Conclusion.INCONCLUSIVE


def _reason(compared: Comparison, alert: Alert, *, conclusion: Conclusion) -> str:
    """Return the reason of `conclusion`; the comparison does not know the suspected change."""
    is_explained = (
        conclusion is not Conclusion.REFUTED or compared.verdict is not Verdict.INCONCLUSIVE
    )
    ratios = (compared.ratio, compared.low, compared.high)
    if is_explained or None in ratios or not alert.baseline or not alert.candidate:
        return compared.reason
    ratio, low, high, suspected = (
        signed_percent((end or 1.0) - 1) for end in (*ratios, alert.candidate / alert.baseline)
    )
    return f"{ratio} ({low} to {high}) leaves out the suspected {suspected}"


def _suspected(alert: Alert) -> float:
    """Return the suspected cost over that before, 1 where it is not known."""
    if not alert.baseline or not alert.candidate:
        return 1.0
    return _cost(alert.candidate / alert.baseline, alert)


def _cost(ratio: float | None, alert: Alert) -> float:
    """Return candidate over baseline as costs (less is better), 1 if unknown."""
    if not ratio:
        return 1.0
    return 1 / ratio if METRICS[alert.metric].direction is Direction.HIGHER_IS_BETTER else ratio


def _attributed(controls: ControlMetrics, alert: Alert) -> Cause:
    if controls.metric not in TIMED_METRICS:
        return Cause()
    return attribute_cause(controls, is_eager=alert.case.is_eager)


def _drift_corrected(
    confirmation: ConfirmationResult, *, alert: Alert, references: Sequence[MachineChange]
) -> ConfirmationResult:
    """Return `confirmation` of an absolute time, corrected for the machine's own slowdown."""
    known = [item for item in references if item.change is not None]
    if not known:
        reason = "no reference case tells whether the machine got slower"
        return _inconclusive(reason, method=confirmation.method)
    slowest = max(known, key=lambda item: item.change or 0.0)
    raw, slowdown = confirmation.comparison, 1 + max(0.0, slowest.change or 0.0)
    assert raw is not None
    low, ratio, high = ((end or 1.0) / slowdown for end in (raw.low, raw.ratio, raw.high))
    corrected = _decide(alert, ratios=(ratio, low, high))
    text = f"{corrected.reason}, corrected by {slowest.text}"
    result = dataclasses.replace(confirmation, reason=text, comparison=corrected)
    if corrected.verdict is Verdict.REGRESSION:
        return result
    if slowest.verdict is MachineVerdict.MOVED:
        cause = Cause(kind=MACHINE, text=f"machine drift: {slowest.text}")
        return dataclasses.replace(result, conclusion=Conclusion.REFUTED, cause=cause)
    return dataclasses.replace(result, conclusion=Conclusion.INCONCLUSIVE, cause=Cause())


def _confirm_exactly(
    measured: Measurement, *, alert: Alert, history: BaselineHistory
) -> ConfirmationResult:
    """Compare a value without noise with the worst of the nights before."""
    if not history.medians:
        return _inconclusive("no earlier run to compare with", method=Method.HISTORY)
    now = max(measured.samples, key=lambda value: _badness(value, alert))
    worst_value = max(history.medians, key=lambda value: _badness(value, alert))
    metric = METRICS[alert.metric]
    min_difference = metric.resolution + metric.relevance_floor * abs(_badness(worst_value, alert))
    is_worse = _badness(now, alert) - _badness(worst_value, alert) > min_difference
    return ConfirmationResult(
        conclusion=Conclusion.CONFIRMED if is_worse else Conclusion.REFUTED,
        reason=f"{plain(now)} when it was re-measured, at worst {plain(worst_value)} before",
        method=Method.HISTORY,
        baseline=worst_value,
        candidate=now,
    )


def _badness(value: float, alert: Alert) -> float:
    """Return the badness of a value: more is worse, for any metric."""
    metric = METRICS[alert.metric]
    if metric.ideal is not None:
        return abs(metric.ideal - value)
    return -value if metric.direction is Direction.HIGHER_IS_BETTER else value


def _interleaved_eager_change(sides: tuple[CaseResult, CaseResult]) -> float | None:
    """Return the change of eager between two interleaved sides, None without eager."""
    for clock in EAGER_CLOCKS:
        levels = [
            launch_levels(side, clock) for side in sides if side.measurement(clock) is not None
        ]
        if len(levels) == len(sides) and all(level.min() > 0 for level in levels):
            before, after = (geometric_mean(level.tolist()) for level in levels)
            return after / before - 1
    return None


def _eager_change(history: BaselineHistory, result: CaseResult) -> float | None:
    """Return the change of eager since the nights before, None without eager."""
    for clock in EAGER_CLOCKS:
        before = history.eager.get(clock)
        if before and result.measurement(clock) is not None:
            return (
                level_at(result, clock, speed_probe_s=history.speed_probe_s)
                / geometric_mean(before)
                - 1
            )
    return None


def baseline_history(
    alert: Alert,
    histories: Sequence[Series],
    *,
    alerts: Iterable[Alert],
    now: Mapping[str, CaseResult],
) -> BaselineHistory:
    """Return the baseline nights of `alert` in `histories`, those of its machine and toolchain.

    `alerts` are all stored ones: a level ends where one of them begins or is over. `now` has the
    current results of the reference cases by case key, to compare with the nights' results.
    """
    case_keys = {alert.case.key, *now}
    levels = normalised_series(
        [series for series in histories if series.header.case.key in case_keys],
        scope=(alert.machine, alert.toolchain),
        # Normalised times need only slowdowns beyond the machine's speed; other metrics need all of
        # them.
        has_references=alert.metric in NORMALISED_TIMES,
    )
    nights = _nights(alert, levels, alerts=alerts)
    return BaselineHistory(
        medians=_medians(levels, nights=nights, key=alert.series_key),
        eager={
            clock: medians
            for clock in EAGER_CLOCKS
            if (medians := _control_medians(alert, levels, nights=nights, metric=clock))
        },
        references=_reference_changes(alert, levels, nights=nights, now=now),
        speed_probe_s=_speed_probe_s(levels, alert.case.key),
    )


def _speed_probe_s(levels: Sequence[Series], case_key: str) -> float | None:
    """Return the common speed probe of a case's times, None if unknown."""
    for series in levels:
        header = series.header
        if (header.case.key, header.metric) == (case_key, SPEED_PROBE):
            return common_speed_probe_s(point_columns(header.key, series.points))
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
    return [point.run_id for point in points[-DEFAULT_CONFIG.baseline_points :]]


def _medians(levels: Sequence[Series], *, nights: Sequence[str], key: str) -> list[float]:
    values = {
        point.run_id: point.median
        for series in levels
        if series.header.key == key
        for point in series.points
    }
    return [values[run_id] for run_id in nights if run_id in values]


def _control_medians(
    alert: Alert, levels: Sequence[Series], *, nights: Sequence[str], metric: str
) -> list[float]:
    """Return the medians of another metric of the case in these nights, only those above 0."""
    for series in levels:
        header = series.header
        if (header.case.key, header.metric) == (alert.case.key, metric):
            medians = _medians(levels, nights=nights, key=header.key)
            return [value for value in medians if value > 0]
    return []


def _reference_changes(
    alert: Alert,
    levels: Sequence[Series],
    *,
    nights: Sequence[str],
    now: Mapping[str, CaseResult],
) -> list[MachineChange]:
    """Return the change of each reference case since these nights, on its least noisy clock."""
    changes: dict[str, MachineChange] = {}
    for metric in CLOCKS:
        for series in levels:
            case = series.header.case
            result = now.get(case.key)
            measured = None if result is None else result.measurement(metric)
            is_reference = case.is_reference and series.header.metric == metric
            if not is_reference or result is None or measured is None or case.model in changes:
                continue
            if measured.median <= 0:
                continue
            medians = _medians(levels, nights=nights, key=series.header.key)
            before = [value for value in medians if value > 0]
            speed_probe_s = (
                _speed_probe_s(levels, case.key) if alert.metric in NORMALISED_TIMES else None
            )
            after = [level_at(result, metric, speed_probe_s=speed_probe_s)]
            changes[case.model] = level_change(
                case.model, before, after, metric=metric, device=case.device
            )
    return list(changes.values())
