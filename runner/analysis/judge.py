"""From the histories of a case's metrics to alerts about steps.

Method: find_steps on each series of each machine, higher-is-better metrics inverted first; counts
by a rule of their own, since they have no noise and may be 0: a value outside everything seen in
the last 14 points is news at once. A series is one environment class, so nothing is ever compared
across a change of the fingerprint, nor across a run from which people expect another level.
Assumptions: those of detector.py; points are ordered by the start of their run.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise

import numpy as np

from db.metrics import METRICS, Direction, Metric
from db.records import Alert, AlertState, Verdict
from db.sighting import Sighting
from db.summaries import OutcomePoint, Point, Series
from runner.analysis.cause import Cause, cause_of, wall_clock_is_alone
from runner.analysis.detector import BASELINE_POINTS, SUSTAINED_POINTS, describe_steps
from runner.analysis.machine import CLOCKS
from runner.analysis.rules import SeriesRule, SeriesRules
from runner.analysis.shift import Shift, Track, relative

STEP = "step"
NO_RULES = SeriesRules()
# What the judge has to read: what it judges, and what tells whose fault a step is.
NEEDED_METRICS = (
    *(name for name, metric in METRICS.items() if metric.is_judged),
    "eager_latency_s",
    "eager_latency_cpu_s",
)


def alert_id(series_key: str, *, kind: str, first_bad_run_id: str) -> str:
    """Return the identity of an alert: the same however often the history is judged."""
    text = "\n".join((series_key, kind, first_bad_run_id))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def sighting(point: Point | OutcomePoint) -> Sighting:
    """Return where `point` is on the time axis."""
    return Sighting(run_id=point.run_id, revision=point.revision, at=point.at)


def judge_histories(
    histories: Iterable[Series],
    *,
    references: Sequence[Series] = (),
    rules: SeriesRules = NO_RULES,
) -> Iterator[Alert]:
    """Yield the alerts of all series; those of one case must come one after the other.

    `references` are the series of the reference cases, which witness for the machine; `rules` are
    the floors and new baselines that people set.
    """
    witnesses = _steadiest([track for series in references for track in _tracks(series)])
    for _, group in groupby(histories, key=lambda series: series.header.case.key):
        yield from judge_case(list(group), witnesses=witnesses, rules=rules)


def judge_case(
    histories: Sequence[Series], *, witnesses: Sequence[Track] = (), rules: SeriesRules = NO_RULES
) -> list[Alert]:
    """Return an alert for every step in the series of one case, the fixed ones too.

    `witnesses` are the tracks of the reference cases.
    """
    tracks = [track for series in histories for track in _tracks(series)]
    found = []
    for track in _judged(tracks):
        metric = METRICS[track.header.metric]
        siblings = {
            other.header.metric: other for other in tracks if _place(other) == _place(track)
        }
        seen_by = [witness for witness in witnesses if _place(witness) == _place(track)]
        rule = rules.rule_of(track.header.key)
        for part in _parts(track, rule):
            for shift in _shifts(part, metric, rule):
                if not wall_clock_is_alone(shift, part, siblings):
                    found.append(_alert(part, shift, cause_of(shift, part, siblings, seen_by)))
    return found


def _parts(track: Track, rule: SeriesRule) -> Iterator[Track]:
    """Yield the points of `track` from each new baseline to the next."""
    starts = [
        place for place, point in enumerate(track.points) if point.run_id in rule.baseline_run_ids
    ]
    for start, end in pairwise(sorted({0, *starts, len(track.points)})):
        yield dataclasses.replace(track, points=track.points[start:end])


def _judged(tracks: Sequence[Track]) -> list[Track]:
    """Return the tracks that can raise an alert; of a reference case its steadiest clock alone."""
    models = [track for track in tracks if not track.header.case.is_reference]
    judged = []
    for track in (*models, *_steadiest(tracks)):
        metric = METRICS.get(track.header.metric)
        if metric is not None and metric.is_judged and metric.direction is not Direction.NEITHER:
            judged.append(track)
    return judged


def _steadiest(tracks: Sequence[Track]) -> list[Track]:
    """Return one track for each reference case and place: that of its steadiest clock."""
    found: dict[tuple[str, ...], Track] = {}
    for clock in reversed(CLOCKS):
        for track in tracks:
            if track.header.case.is_reference and track.header.metric == clock:
                found[(track.header.case.key, *_place(track))] = track
    return list(found.values())


def _place(track: Track) -> tuple[str, str, str, str]:
    header = track.header
    return (track.machine, track.toolchain, header.fingerprint, header.case.device)


def _tracks(series: Series) -> list[Track]:
    # Machines of one kind share a series, and so do toolchains; each has its own level.
    places = dict.fromkeys((point.machine, point.toolchain) for point in series.points)
    return [
        Track(
            header=series.header,
            machine=machine,
            toolchain=toolchain,
            points=tuple(
                point
                for point in series.points
                if (point.machine, point.toolchain) == (machine, toolchain)
            ),
        )
        for machine, toolchain in places
    ]


def _shifts(track: Track, metric: Metric, rule: SeriesRule) -> list[Shift]:
    floor = metric.relevance_floor if rule.floor is None else rule.floor
    is_inverted = metric.direction is Direction.HIGHER_IS_BETTER
    if metric.is_exact:
        shifts = _count_shifts(track, metric)
    else:
        shifts = _level_shifts(track, floor=floor, is_inverted=is_inverted)
    kept: list[Shift] = []
    for shift in shifts:
        # Back to where a regression started from is the end of that one, not news of its own.
        if not any(shift.is_end_of(earlier) for earlier in kept):
            kept.append(shift)
    return kept


def _level_shifts(track: Track, *, floor: float, is_inverted: bool) -> list[Shift]:
    # A number of 0 or below has no relative change.
    points = tuple(point for point in track.points if point.median > 0)
    values = np.array([point.median for point in points])
    costs = 1 / values if is_inverted else values
    return [
        Shift(
            points=points,
            costs=tuple(costs.tolist()),
            old=range(max(step.start, step.index - BASELINE_POINTS), step.index),
            new=range(step.index, step.end),
            before=step.before,
            after=step.after,
            interval=(step.low, step.high),
            floor=floor,
            num_points_to_return=SUSTAINED_POINTS,
            is_inverted=is_inverted,
        )
        for step in describe_steps(costs, floor=floor)
    ]


def _count_shifts(track: Track, metric: Metric) -> list[Shift]:
    points = track.points
    sign = 1.0 if metric.direction is Direction.LOWER_IS_BETTER else -1.0
    costs = tuple(sign * point.median for point in points)
    shifts = []
    for index in range(1, len(costs)):
        old = range(max(0, index - BASELINE_POINTS), index)
        seen = [costs[place] for place in old]
        if min(seen) <= costs[index] <= max(seen):
            continue
        change = relative(costs[index], to=costs[index - 1])
        shifts.append(
            Shift(
                points=points,
                costs=costs,
                old=old,
                new=range(index, len(costs)),
                before=costs[index - 1],
                after=costs[index],
                interval=None if change is None else (change, change),
                floor=0.0,
                num_points_to_return=1,
                is_inverted=False,
            )
        )
    return shifts


def _alert(track: Track, shift: Shift, cause: Cause) -> Alert:
    header = track.header
    first_bad = shift.points[shift.new.start]
    end = shift.place_of_return()
    last = shift.points[-1 if end is None else end - 1]
    change = shift.change
    return Alert(
        id=alert_id(header.key, kind=STEP, first_bad_run_id=first_bad.run_id),
        series_key=header.key,
        kind=STEP,
        state=AlertState.OPEN if end is None else AlertState.FIXED,
        verdict=Verdict.REGRESSION if shift.is_regression else Verdict.IMPROVEMENT,
        case=header.case,
        metric=header.metric,
        unit=header.unit,
        machine=track.machine,
        toolchain=track.toolchain,
        fingerprint=header.fingerprint,
        first_bad=sighting(first_bad),
        last_good=sighting(shift.points[shift.new.start - 1]),
        last_seen=last.at,
        baseline=shift.shown(shift.before),
        candidate=shift.shown(shift.after),
        change_pct=None if change is None else 100 * change,
        interval_pct=shift.interval_pct,
        is_significant=shift.is_significant,
        is_relevant=shift.is_relevant,
        cause_kind=cause.kind,
        cause_text=cause.text,
    )
