"""From how cases ended to alerts: ok became failed, and what is no longer measured at all.

Method: no statistics; an outcome has no noise. A case has vanished when a finished run planned it
and has no result of it, or when its suite ran three times more on the machine without planning it.
Outcomes compare across environments: a new driver that breaks a model is news.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import zip_longest

from db.records import Alert, AlertState, Outcome, RunState, Verdict, series_key
from db.summaries import OutcomeHistory, OutcomePoint
from runner.analysis.cause import UNKNOWN
from runner.analysis.judge import alert_id, sighting

OUTCOME = "outcome"
VANISHED = "vanished"
# Fewer could be somebody trying a smaller selection under the suite's name.
RUNS_WITHOUT = 3
# A run that plans less than this share of a case's former companions is another selection.
MIN_COMPANIONS = 0.5

# The suite of a selection made by hand: nobody expects the next one to be alike.
CUSTOM_SUITE = "custom"

_BAD = (Outcome.FAILED, Outcome.TIMEOUT, Outcome.OUT_OF_MEMORY, Outcome.INACCURATE)


@dataclass(slots=True)
class _SuiteRun:
    at: datetime
    point: OutcomePoint
    planned: set[str] = field(default_factory=set)


# The runs of one suite in one toolchain on one machine, oldest first.
_SuiteRuns = Mapping[tuple[str, str, str], Sequence[_SuiteRun]]


def judge_outcomes(histories: Sequence[OutcomeHistory]) -> list[Alert]:
    """Return the alerts of kinds `outcome` and `vanished`, the fixed ones too."""
    runs = _suite_runs(histories)
    found = []
    for history in histories:
        found.extend(_failures(history))
        found.extend(_missing_results(history))
        found.extend(_dropped(history, runs))
    return found


def _failures(history: OutcomeHistory) -> list[Alert]:
    points = [point for point in history.points if point.outcome in (Outcome.OK, *_BAD)]
    return [
        _alert(history, OUTCOME, bad, good, f"{good.outcome} -> {bad[0].outcome}", end=end)
        for good, bad, end in _stretches(points, is_good=lambda item: item.outcome is Outcome.OK)
    ]


def _missing_results(history: OutcomeHistory) -> list[Alert]:
    points = [
        point
        for point in history.points
        if point.outcome is not None or point.run_state is RunState.FINISHED
    ]
    return [
        _alert(history, VANISHED, bad, good, _missing_text(bad[0]), end=end)
        for good, bad, end in _stretches(points, is_good=_has_result)
        if good.outcome is Outcome.OK
    ]


def _missing_text(point: OutcomePoint) -> str:
    return "planned, but skipped" if point.outcome else "planned, but without a result"


def _has_result(point: OutcomePoint) -> bool:
    return point.outcome not in (None, Outcome.SKIPPED)


def _stretches(
    points: Sequence[OutcomePoint], *, is_good: Callable[[OutcomePoint], bool]
) -> Iterator[tuple[OutcomePoint, list[OutcomePoint], OutcomePoint | None]]:
    """Yield each stretch of bad points with the good ones around it, none before and after."""
    good: OutcomePoint | None = None
    bad: list[OutcomePoint] = []
    for point in points:
        if not is_good(point):
            bad.append(point)
            continue
        if good and bad:
            yield good, bad, point
        good, bad = point, []
    if good and bad:
        yield good, bad, None


def _suite_runs(histories: Sequence[OutcomeHistory]) -> _SuiteRuns:
    by_id: dict[tuple[str, str, str, str], _SuiteRun] = {}
    for history in histories:
        for point in history.points:
            key = (history.machine, history.toolchain, point.suite, point.run_id)
            run = by_id.setdefault(key, _SuiteRun(point.at, point))
            run.planned.add(history.case.key)
    runs: dict[tuple[str, str, str], list[_SuiteRun]] = defaultdict(list)
    for (machine, toolchain, suite, _), run in by_id.items():
        runs[machine, toolchain, suite].append(run)
    for found in runs.values():
        found.sort(key=lambda run: run.at)
    return runs


def _dropped(history: OutcomeHistory, runs: _SuiteRuns) -> list[Alert]:
    """Return an alert for each time the suite went on without the case."""
    alerts = []
    for point, after in zip_longest(history.points, history.points[1:]):
        if point.outcome is not Outcome.OK or point.suite == CUSTOM_SUITE:
            continue
        place = (history.machine, history.toolchain, point.suite)
        without = _runs_without(history, point, after, runs[place])
        if len(without) >= RUNS_WITHOUT:
            bad = [run.point for run in without]
            text = f"no longer planned in suite {point.suite}"
            alerts.append(_alert(history, VANISHED, bad, point, text, end=after))
    return alerts


def _runs_without(
    history: OutcomeHistory,
    point: OutcomePoint,
    after: OutcomePoint | None,
    runs: Sequence[_SuiteRun],
) -> list[_SuiteRun]:
    times = [run.at for run in runs]
    start = bisect_right(times, point.at)
    end = len(runs) if after is None else bisect_left(times, after.at)
    gap = [run for run in runs[start:end] if run.point.run_state is RunState.FINISHED]
    if not gap:
        return []
    (last,) = [run.planned for run in runs if run.point.run_id == point.run_id]
    companions = last - {history.case.key}
    return [
        run
        for run in gap
        if companions and len(companions & run.planned) >= MIN_COMPANIONS * len(companions)
    ]


def _alert(
    history: OutcomeHistory,
    kind: str,
    bad: Sequence[OutcomePoint],
    good: OutcomePoint,
    text: str,
    *,
    end: OutcomePoint | None,
) -> Alert:
    first = bad[0]
    key = series_key(history.case, metric=OUTCOME, fingerprint=first.fingerprint)
    return Alert(
        id=alert_id(key, kind=kind, first_bad_run_id=first.run_id),
        series_key=key,
        kind=kind,
        state=AlertState.OPEN if end is None else AlertState.FIXED,
        verdict=Verdict.REGRESSION,
        case=history.case,
        metric=OUTCOME,
        unit="",
        machine=history.machine,
        toolchain=history.toolchain,
        fingerprint=first.fingerprint,
        first_bad=sighting(first),
        last_good=sighting(good),
        last_seen=bad[-1].at,
        cause_kind=UNKNOWN,
        cause_text=text,
    )
