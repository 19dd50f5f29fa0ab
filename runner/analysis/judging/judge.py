"""Judge the histories of a case's metrics: alert candidates for their changes.

Method: series_changes.py on each series of each machine and toolchain. A series is one environment
class, so nothing is compared across a change of the fingerprint, nor across a run that starts a new
baseline. All series of a run together decide which candidates become alerts (false_discovery.py).
Assumptions: those of series_changes.py.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np

from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.metrics import METRICS, Direction, Metric, metric_of
from compile_hud.db.records.point_columns import point_columns
from compile_hud.db.records.results import RunRef, Verdict
from compile_hud.db.records.summaries import OutcomePoint, Point, Series, SeriesHeader
from compile_hud.db.shared.quantities import is_quantity
from compile_hud.runner.analysis.detection.false_discovery import AlertCandidate
from compile_hud.runner.analysis.detection.series_changes import Change, find_changes
from compile_hud.runner.analysis.detection.variance import NoiseChange
from compile_hud.runner.analysis.judging.attribution import (
    MEASUREMENT,
    Cause,
    cause_of,
    wall_clock_is_alone,
)
from compile_hud.runner.analysis.judging.cost_step import Track
from compile_hud.runner.analysis.judging.machine_speed import normalise_by_machine_speed
from compile_hud.runner.analysis.judging.machine_state import CLOCKS
from compile_hud.runner.analysis.judging.series_rules import SeriesRule, SeriesRules
from compile_hud.runner.analysis.stats.launch_levels import SPEED_PROBE

NO_RULES = SeriesRules()
# The judge reads these metrics: the judged ones, and the controls for the cause. Imported metrics
# that `metric_of` knows come on top.
NEEDED_METRICS = (
    *(name for name, metric in METRICS.items() if metric.is_judged),
    "eager_latency_s",
    "eager_latency_cpu_s",
    SPEED_PROBE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnjudgedNumbers:
    """Numbers of a series that the judge left out: values out of range, or all since a baseline."""

    case_key: str
    series_key: str
    reason: str

    @property
    def text(self) -> str:
        """Return a message for the user."""
        return f"series {self.series_key}: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedBatch:
    """The candidates of some cases, and what was left out of their series."""

    candidates: Sequence[AlertCandidate]
    unjudged: Sequence[UnjudgedNumbers]


def _ignore(_unjudged: UnjudgedNumbers) -> None:
    pass


def alert_id(series_key: str, *, kind: str, first_bad_run_id: str) -> str:
    """Return the identity of an alert, equal in every judgement of the history."""
    text = "\n".join((series_key, kind, first_bad_run_id))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def run_ref(point: Point | OutcomePoint) -> RunRef:
    """Return the run of `point`, with its revision and time."""
    return RunRef(run_id=point.run_id, revision=point.revision, at=point.at)


def judge_histories(
    histories: Iterable[Series],
    *,
    references: Sequence[Series] = (),
    rules: SeriesRules = NO_RULES,
    on_unjudged: Callable[[UnjudgedNumbers], None] = _ignore,
) -> Iterator[AlertCandidate]:
    """Yield the candidates of all series; the series of one case must be adjacent.

    `references` are the series of the reference cases, the controls for the machine. `rules` are
    the user-defined floors and new baselines. `on_unjudged` is called with what is left out.
    """
    controls = _least_noisy_tracks([track for series in references for track in _tracks(series)])
    for _, group in groupby(histories, key=lambda series: series.header.case.key):
        yield from judge_case(list(group), controls=controls, rules=rules, on_unjudged=on_unjudged)


def judge_batch(
    histories: Sequence[Series], *, references: Sequence[Series], rules: SeriesRules
) -> JudgedBatch:
    """Return the results of `judge_histories` as a record, for another process."""
    unjudged: list[UnjudgedNumbers] = []
    candidates = judge_histories(
        histories, references=references, rules=rules, on_unjudged=unjudged.append
    )
    return JudgedBatch(candidates=list(candidates), unjudged=unjudged)


def judge_case(
    histories: Sequence[Series],
    *,
    controls: Sequence[Track] = (),
    rules: SeriesRules = NO_RULES,
    on_unjudged: Callable[[UnjudgedNumbers], None] = _ignore,
) -> list[AlertCandidate]:
    """Return the changes in the series of one case, also the ones that are over.

    `controls` are the tracks of the reference cases. `on_unjudged` is called with what is left out:
    one series never stops the others.
    """
    for series in histories:
        _report_out_of_range(series, on_unjudged)
    tracks = [track for series in histories for track in _tracks(series)]
    by_scope: dict[tuple[str, ...], dict[str, Track]] = defaultdict(dict)
    for track in tracks:
        by_scope[_scope(track)][track.header.metric] = track
    by_scope = {scope: normalise_by_machine_speed(siblings) for scope, siblings in by_scope.items()}
    candidates = []
    for track in _judged([by_scope[_scope(track)][track.header.metric] for track in tracks]):
        metric = _metric(track)
        assert metric is not None
        siblings = by_scope[_scope(track)]
        companions = [control for control in controls if _scope(control) == _scope(track)]
        rule = rules.rule_of(track.header.key)
        floor = metric.relevance_floor if rule.floor is None else rule.floor
        for part in _parts(track, rule):
            try:
                with np.errstate(over="raise", divide="raise", invalid="raise"):
                    candidates += [
                        _candidate(change, part, siblings, companions)
                        for change in find_changes(part, metric, floor=floor)
                        if _is_independent(change, part, siblings)
                    ]
            except (ArithmeticError, ValueError) as error:
                on_unjudged(_unjudged(track.header, f"it cannot be judged ({error})"))
    return candidates


def _report_out_of_range(series: Series, report: Callable[[UnjudgedNumbers], None]) -> None:
    points = point_columns(series.header.key, series.points)
    num_others = len(points) - len(points.in_range())
    if num_others:
        first = next(point for point in points if not is_quantity(point.median))
        values = "value" if num_others == 1 else "values"
        reason = (
            f"{num_others} {values} left out that no measurement can have, first"
            f" {first.median:g} in run {first.run_id} of {first.at:%Y-%m-%d}"
        )
        report(_unjudged(series.header, reason))


def _unjudged(header: SeriesHeader, reason: str) -> UnjudgedNumbers:
    return UnjudgedNumbers(case_key=header.case.key, series_key=header.key, reason=reason)


def _is_independent(change: Change, track: Track, siblings: Mapping[str, Track]) -> bool:
    if change.noise is not None:
        # A neighbour makes the wall clock noisy; the CPU time shows changes of the code.
        return track.header.metric != "latency_s" or "latency_cpu_s" not in siblings
    return not wall_clock_is_alone(change.shift, track, siblings)


def _candidate(
    change: Change, track: Track, siblings: Mapping[str, Track], controls: Sequence[Track]
) -> AlertCandidate:
    points = change.shift.points
    if change.noise is None:
        alert = _alert(track, change, cause_of(change.shift, track, siblings, controls))
    else:
        alert = _noise_alert(track, change, change.noise)
    return AlertCandidate(alert=alert, run_id=points[change.first].run_id, p_value=change.p_value)


def _parts(track: Track, rule: SeriesRule) -> Iterator[Track]:
    """Yield the points of `track` from each new baseline to the next."""
    if not rule.baseline_run_ids:
        yield track
        return
    starts = [
        index for index, point in enumerate(track.points) if point.run_id in rule.baseline_run_ids
    ]
    for start, end in pairwise(sorted({0, *starts, len(track.points)})):
        yield dataclasses.replace(track, points=track.points[start:end])


def _metric(track: Track) -> Metric | None:
    header = track.header
    return metric_of(header.metric, unit=header.unit, stated=header.direction)


def _judged(tracks: Sequence[Track]) -> list[Track]:
    """Return the tracks that can raise an alert; of a reference case its steadiest clock alone."""
    models = [track for track in tracks if not track.header.case.is_reference]
    judged = []
    for track in (*models, *_least_noisy_tracks(tracks)):
        metric = _metric(track)
        if metric is not None and metric.is_judged and metric.direction is not Direction.NEITHER:
            judged.append(track)
    return judged


def _least_noisy_tracks(tracks: Sequence[Track]) -> list[Track]:
    """Return one track for each reference case and scope, of its least noisy clock."""
    by_case: dict[tuple[str, ...], Track] = {}
    for clock in reversed(CLOCKS):
        for track in tracks:
            if track.header.case.is_reference and track.header.metric == clock:
                by_case[(track.header.case.key, *_scope(track))] = track
    return list(by_case.values())


def _scope(track: Track) -> tuple[str, str, str, str]:
    header = track.header
    return (track.machine, track.toolchain, header.fingerprint, header.case.device)


def _tracks(series: Series) -> list[Track]:
    # Machines of one kind share a series, and so do toolchains; each has its own level.
    columns = point_columns(series.header.key, series.points).in_range()
    return [
        Track(header=series.header, machine=machine, toolchain=toolchain, points=points)
        for (machine, toolchain), points in columns.by_scope().items()
    ]


def _alert(track: Track, change: Change, cause: Cause) -> Alert:
    shift = change.shift
    end = shift.return_index()
    moved = shift.change
    return dataclasses.replace(
        _bare_alert(track, change),
        state=AlertState.OPEN if end is None else AlertState.FIXED,
        verdict=Verdict.REGRESSION if shift.is_regression else Verdict.IMPROVEMENT,
        last_seen=shift.points[-1 if end is None else max(change.first, end - 1)].at,
        baseline=shift.shown(shift.before),
        candidate=shift.shown(shift.after),
        change_pct=None if moved is None else 100 * moved,
        interval_pct=shift.interval_pct,
        is_significant=shift.is_significant,
        is_relevant=shift.is_relevant,
        cause_kind=cause.kind,
        cause_text=cause.text,
    )


def _noise_alert(track: Track, change: Change, noise: NoiseChange) -> Alert:
    """Return the alert of a grown noise, which affects verdicts and is none on the code."""
    is_over = noise.end < len(change.shift.points)
    return dataclasses.replace(
        _bare_alert(track, change),
        state=AlertState.FIXED if is_over else AlertState.OPEN,
        verdict=Verdict.INCONCLUSIVE,
        last_seen=change.shift.points[noise.end - 1].at,
        change_pct=100 * (noise.factor - 1),
        interval_pct=(100 * (noise.low - 1), 100 * (noise.high - 1)),
        cause_kind=MEASUREMENT,
        cause_text=f"noise grew from {100 * noise.before:.1f} to {100 * noise.after:.1f} %",
    )


def _bare_alert(track: Track, change: Change) -> Alert:
    header, points = track.header, change.shift.points
    first_bad = points[change.first]
    return Alert(
        id=alert_id(header.key, kind=change.kind, first_bad_run_id=first_bad.run_id),
        series_key=header.key,
        kind=change.kind,
        state=AlertState.OPEN,
        verdict=Verdict.INCONCLUSIVE,
        case=header.case,
        metric=header.metric,
        unit=header.unit,
        machine=track.machine,
        toolchain=track.toolchain,
        fingerprint=header.fingerprint,
        first_bad=run_ref(first_bad),
        last_good=run_ref(points[change.last_good]) if change.last_good >= 0 else None,
        last_seen=first_bad.at,
    )
