"""What measuring a suspect again says: confirmed, refuted or inconclusive.

In turn with the toolchain of the last good run: the comparison of paired.py, which needs no
history. By the history: Student's interval of machine.level_change between the nights before the
step and the new measurement, divided by what the reference cases moved by in between, as far as
they got slower. A suspect is **confirmed** when that is a regression by the rules of comparison.py,
**refuted** when a change of the floor is ruled out, or the interval leaves out what was suspected
and the estimate is less than half of it, else the verdict is **inconclusive**. Two toolchains that
are alike by now do not refute a level that is bad in both: then the history decides.
Assumptions: those of paired.py and machine.py; a reference case that got slower slowed a case by no
more than itself.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.metrics import METRICS, Direction
from compile_hud.db.records.point_columns import point_columns
from compile_hud.db.records.results import CaseResult, Measurement, Outcome, Verdict
from compile_hud.db.records.summaries import Series
from compile_hud.db.shared.text import signed_percent
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
    Witnesses,
    blame,
)
from compile_hud.runner.analysis.judging.machine_pace import common_pace_s, series_at_one_pace
from compile_hud.runner.analysis.judging.machine_state import (
    ABSOLUTE_METRICS,
    CLOCKS,
    MachineChange,
    MachineVerdict,
    level_change,
)
from compile_hud.runner.analysis.stats.launch_levels import (
    PACE,
    PACED_TIMES,
    launch_levels,
    level_at,
)

# Nearer to the old level than to the suspected one, which the interval leaves out as well. Asking
# for all of the interval would leave nine of ten suspects with nothing behind them undecided.
REFUTING_SHARE = 0.5
EAGER_CLOCKS = ("eager_latency_cpu_s", "eager_latency_s")


class Conclusion(StrEnum):
    """What measuring again said."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"


class Method(StrEnum):
    """How a suspect was measured again; not at all when it did not fit."""

    IN_TURN = "in_turn"
    HISTORY = "history"
    REPEAT = "repeat"
    NONE = "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The conclusion about one alert, why, and whose fault the change is by that.

    `comparison` is candidate over baseline, None where there are no numbers.
    """

    conclusion: Conclusion
    reason: str
    method: Method
    cause: Cause = field(default_factory=Cause)
    comparison: Comparison | None = None
    baseline: float | None = None
    candidate: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """The nights before a suspect: medians of its metric, of eager's, and of the reference cases.

    `eager` is by metric, in seconds; `references` are how those moved from then to now; `pace_s` is
    the pace that times on a CPU are at, None where it is not known.
    """

    medians: Sequence[float]
    eager: Mapping[str, Sequence[float]] = field(default_factory=dict)
    references: Sequence[MachineChange] = ()
    pace_s: float | None = None


def not_measured(reason: str) -> Finding:
    """Return the finding about a suspect that was not measured again."""
    return Finding(conclusion=Conclusion.INCONCLUSIVE, reason=reason, method=Method.NONE)


def find_in_turn(
    alert: Alert, rows: Sequence[CaseComparison], *, sides: tuple[CaseResult, CaseResult]
) -> Finding:
    """Return what a paired measurement of both toolchains says about `alert`."""
    row = next((row for row in rows if row.metric == alert.metric), None)
    if row is None:
        reason = f"{alert.metric} was not measured on both sides"
        return _inconclusive(reason, method=Method.IN_TURN)
    conclusion = _conclusion(row.comparison, alert)
    cause = Cause()
    if conclusion is Conclusion.CONFIRMED:
        witnesses = Witnesses(
            metric=alert.metric,
            change=_cost(row.comparison.ratio, alert) - 1,
            eager=_eager_in_turn(sides),
            ran_in_turn=True,
        )
        cause = _blamed(witnesses, alert)
    return Finding(
        conclusion=conclusion,
        reason=_reason(row.comparison, alert, conclusion=conclusion),
        method=Method.IN_TURN,
        cause=cause,
        comparison=row.comparison,
        baseline=row.baseline,
        candidate=row.candidate,
    )


def find_by_history(alert: Alert, result: CaseResult, *, past: Past) -> Finding:
    """Return what one more measurement of the candidate says about `alert`."""
    if result.outcome is not Outcome.OK:
        reason = f"the case ended {result.outcome} when it was measured again: {result.reason}"
        return _inconclusive(reason, method=Method.HISTORY)
    measured = result.measurement(alert.metric)
    if measured is None:
        return _inconclusive(f"{alert.metric} was not measured again", method=Method.HISTORY)
    metric = METRICS[alert.metric]
    if metric.is_exact or metric.ideal is not None:
        return _find_exactly(measured, alert=alert, past=past)
    if measured.median <= 0:
        return _inconclusive(f"{alert.metric} is 0 now: no ratio", method=Method.HISTORY)
    found = level_change(
        alert.case.model,
        past.medians,
        [level_at(result, alert.metric, pace_s=past.pace_s)],
        metric=alert.metric,
        device=alert.case.device,
    )
    if found.change is None or found.low is None or found.high is None:
        return _inconclusive(found.reason, method=Method.HISTORY)
    raw = _decide(alert, ends=(1 + found.change, 1 + found.low, 1 + found.high))
    conclusion = _conclusion(raw, alert)
    finding = Finding(
        conclusion=conclusion,
        reason=_reason(raw, alert, conclusion=conclusion),
        method=Method.HISTORY,
        comparison=raw,
        baseline=found.baseline,
        candidate=found.candidate,
    )
    if finding.conclusion is not Conclusion.CONFIRMED:
        return finding
    witnesses = Witnesses(
        metric=alert.metric,
        change=_cost(raw.ratio, alert) - 1,
        eager=_eager_since(past, result),
        references=past.references,
    )
    finding = dataclasses.replace(finding, cause=_blamed(witnesses, alert))
    if alert.metric not in ABSOLUTE_METRICS or finding.cause.kind == COMPILER:
        return finding
    return _corrected(finding, alert=alert, references=past.references)


def find_outcome(result: CaseResult) -> Finding:
    """Return whether a case that failed does so again."""
    has_failed = result.outcome not in (Outcome.OK, Outcome.SKIPPED, Outcome.NODE_LOST)
    why = f": {result.reason}" if result.reason else ""
    if has_failed:
        conclusion, reason = Conclusion.CONFIRMED, f"{result.outcome} again{why}"
    elif result.outcome is Outcome.OK:
        conclusion, reason = Conclusion.REFUTED, "ok when it was measured again: it comes and goes"
    else:
        conclusion, reason = (
            Conclusion.INCONCLUSIVE,
            f"{result.outcome} when it was measured again{why}",
        )
    return Finding(conclusion=conclusion, reason=reason, method=Method.REPEAT)


def bad_in_both(in_turn: Finding, by_history: Finding) -> Finding:
    """Return `in_turn`, which refutes, unless the history shows that both sides are bad by now."""
    if by_history.conclusion is not Conclusion.CONFIRMED:
        return in_turn
    kind = by_history.cause.kind if by_history.cause.kind in (EAGER, MACHINE) else UNKNOWN
    told = "the toolchain of the last good run is as slow by now: not the toolchain"
    return dataclasses.replace(
        by_history,
        reason=f"{by_history.reason}; {told}",
        cause=Cause(kind=kind, text=told),
    )


def _inconclusive(reason: str, *, method: Method) -> Finding:
    return Finding(conclusion=Conclusion.INCONCLUSIVE, reason=reason, method=method)


def _decide(alert: Alert, *, ends: tuple[float, float, float]) -> Comparison:
    ratio, low, high = ends
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
    worst = max(_cost(end, alert) for end in (compared.low, compared.high))
    halfway = 1 + REFUTING_SHARE * (suspected - 1)
    is_ruled_out = worst < suspected and _cost(compared.ratio, alert) < halfway
    return Conclusion.REFUTED if is_ruled_out else Conclusion.INCONCLUSIVE


def _reason(compared: Comparison, alert: Alert, *, conclusion: Conclusion) -> str:
    """Return why `conclusion` follows; the comparison knows nothing of what was suspected."""
    is_told = conclusion is not Conclusion.REFUTED or compared.verdict is not Verdict.INCONCLUSIVE
    ends = (compared.ratio, compared.low, compared.high)
    if is_told or None in ends or not alert.baseline or not alert.candidate:
        return compared.reason
    ratio, low, high, suspected = (
        signed_percent((end or 1.0) - 1) for end in (*ends, alert.candidate / alert.baseline)
    )
    return f"{ratio} ({low} to {high}) leaves out the suspected {suspected}"


def _suspected(alert: Alert) -> float:
    """Return the suspected cost over that before, 1 where it is not known."""
    if not alert.baseline or not alert.candidate:
        return 1.0
    return _cost(alert.candidate / alert.baseline, alert)


def _cost(ratio: float | None, alert: Alert) -> float:
    """Return candidate over baseline as costs, of which less is better; 1 where it is not known."""
    if not ratio:
        return 1.0
    return 1 / ratio if METRICS[alert.metric].direction is Direction.HIGHER_IS_BETTER else ratio


def _blamed(witnesses: Witnesses, alert: Alert) -> Cause:
    if witnesses.metric not in TIMED_METRICS:
        return Cause()
    return blame(witnesses, is_eager=alert.case.is_eager)


def _corrected(finding: Finding, *, alert: Alert, references: Sequence[MachineChange]) -> Finding:
    """Return `finding` about an absolute time with the machine's own slowdown taken out."""
    known = [item for item in references if item.change is not None]
    if not known:
        reason = "no reference case tells whether the machine got slower"
        return _inconclusive(reason, method=finding.method)
    slowest = max(known, key=lambda item: item.change or 0.0)
    raw, slowdown = finding.comparison, 1 + max(0.0, slowest.change or 0.0)
    assert raw is not None
    low, ratio, high = ((end or 1.0) / slowdown for end in (raw.low, raw.ratio, raw.high))
    corrected = _decide(alert, ends=(ratio, low, high))
    told = f"{corrected.reason}, corrected by {slowest.text}"
    found = dataclasses.replace(finding, reason=told, comparison=corrected)
    if corrected.verdict is Verdict.REGRESSION:
        return found
    if slowest.verdict is MachineVerdict.MOVED:
        cause = Cause(kind=MACHINE, text=f"the machine moved: {slowest.text}")
        return dataclasses.replace(found, conclusion=Conclusion.REFUTED, cause=cause)
    return dataclasses.replace(found, conclusion=Conclusion.INCONCLUSIVE, cause=Cause())


def _find_exactly(measured: Measurement, *, alert: Alert, past: Past) -> Finding:
    """Hold what has no noise to speak of against the worst of the nights before."""
    if not past.medians:
        return _inconclusive("no earlier run to compare with", method=Method.HISTORY)
    now = max(measured.samples, key=lambda value: _badness(value, alert))
    worst = max(past.medians, key=lambda value: _badness(value, alert))
    metric = METRICS[alert.metric]
    least = metric.resolution + metric.relevance_floor * abs(_badness(worst, alert))
    is_worse = _badness(now, alert) - _badness(worst, alert) > least
    return Finding(
        conclusion=Conclusion.CONFIRMED if is_worse else Conclusion.REFUTED,
        reason=f"{now:g} when it was measured again, at worst {worst:g} before",
        method=Method.HISTORY,
        baseline=worst,
        candidate=now,
    )


def _badness(value: float, alert: Alert) -> float:
    """Return how bad a value is: more is worse, whatever is measured."""
    metric = METRICS[alert.metric]
    if metric.ideal is not None:
        return abs(metric.ideal - value)
    return -value if metric.direction is Direction.HIGHER_IS_BETTER else value


def _eager_in_turn(sides: tuple[CaseResult, CaseResult]) -> float | None:
    """Return how eager differs between two sides that ran in turn, None without it."""
    for clock in EAGER_CLOCKS:
        levels = [
            launch_levels(side, clock) for side in sides if side.measurement(clock) is not None
        ]
        if len(levels) == len(sides) and all(level.min() > 0 for level in levels):
            before, after = (_geometric_mean(level.tolist()) for level in levels)
            return after / before - 1
    return None


def _eager_since(past: Past, result: CaseResult) -> float | None:
    """Return how eager moved from the nights before to now, None without it."""
    for clock in EAGER_CLOCKS:
        before = past.eager.get(clock)
        if before and result.measurement(clock) is not None:
            return level_at(result, clock, pace_s=past.pace_s) / _geometric_mean(before) - 1
    return None


def _geometric_mean(levels: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, levels)) / len(levels))


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
    return [point.run_id for point in points[-DEFAULT_CONFIG.baseline_points :]]


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
