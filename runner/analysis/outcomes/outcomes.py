"""Turn the endings of cases into alerts: ok became failed, or a case is no longer measured.

Method: no statistics; an outcome has no noise. A case is missing if a finished run planned it and
has no result of it. It is also missing if it is overdue by its own cadence (cadence.py) and its
suite ran three more times on the machine without planning it. Such a run plans most of the former
companions of the case, or a new case with its settings under another name: a suite of one case has
no companions when that case is renamed. A case that its suite regularly omits is seldom due, and is
overdue as soon as its suite ran past that time. A whole suite is overdue by its schedule.
A case that fails again in the same way within 14 points is intermittent, and is one alert.
A case that its run deferred for lack of time was planned: it neither ended nor is missing.
A lasting failure that changes its error remains one alert, since the case is broken all the while;
`fails_otherwise` returns the new error for users who acknowledged the first one.
Outcomes compare across environments: a new driver that breaks a model is a change.
"""

from __future__ import annotations

import dataclasses
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from difflib import SequenceMatcher

from compile_hud.db.records.alerts import LATE, OUTCOME, VANISHED, Alert, AlertState
from compile_hud.db.records.results import (
    CUSTOM_SUITE,
    Case,
    CaseKey,
    Outcome,
    RunRef,
    RunState,
    Verdict,
    series_key,
)
from compile_hud.db.records.summaries import LastEnding, OutcomeHistory, OutcomePoint, PlannedRun
from compile_hud.db.records.triage import ONGOING
from compile_hud.db.shared.text import listed, one_line
from compile_hud.runner.analysis.judging.attribution import UNKNOWN
from compile_hud.runner.analysis.judging.judge import alert_id
from compile_hud.runner.analysis.outcomes.cadence import Timetable, cadence_of, late_from
from compile_hud.runner.analysis.outcomes.spans import (
    AlertSubject,
    closed_alert,
    find_spans,
    one_of_each,
    span_alert,
)

# Kinds of alerts about how a case ended, not about its numbers.
ENDING_KINDS = (OUTCOME, VANISHED, LATE)
# Runs of its suite without a case that is missing: fewer could be a trial of a smaller selection
# under the suite's name.
RUNS_WITHOUT = 3
# A run that plans less than this share of a case's former companions is another selection.
MIN_COMPANIONS = 0.5
# An alert names as many cases that may be the old one under a new name.
MAX_NEW_NAMES = 2
_PARTS = tuple(item.name for item in dataclasses.fields(CaseKey))

_BAD = (Outcome.FAILED, Outcome.TIMEOUT, Outcome.OUT_OF_MEMORY, Outcome.INACCURATE)
# A compiler's message may be pages long; the first lines identify it.
MAX_REASON_LENGTH = 500
# Folders, addresses, hashes, sizes and counters differ from night to night.
_FOLDERS = re.compile(r"(?:~|\.{1,2})?(?:/[^\s/:;,'\"()<>]+)*/")
_VARYING = re.compile(
    r"0x[0-9a-f]+|\b(?=\w*\d)(?:[0-9a-f]{6,}|\w{16,})\b|\d+(?:\.\d+)?", re.IGNORECASE
)
# Later text is a traceback or a dump; the error itself precedes it.
_COMPARED_LENGTH = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class _SuiteRuns:
    """The runs of one suite in one toolchain on one machine, oldest first."""

    runs: Sequence[PlannedRun]
    times: Sequence[datetime]
    # The planned cases of each run, with those of other machines in the same execution, by run id.
    planned: Mapping[str, frozenset[str]]
    # The names in each plan by part of a case's key, by the plan's id; filled when needed.
    names: dict[int, dict[str, set[str]]] = field(default_factory=dict)

    def names_of(self, run: PlannedRun) -> Mapping[str, set[str]]:
        """Return the names in the plan of `run`, by part of a case's key."""
        names = self.names.get(id(run.plan))
        if names is None:
            names = {part: {str(getattr(case, part)) for case in run.plan} for part in _PARTS}
            self.names[id(run.plan)] = names
        return names

    def after(self, start: datetime, *, before: datetime | None) -> list[PlannedRun]:
        """Return the finished runs between two times."""
        first = bisect_right(self.times, start)
        last = len(self.runs) if before is None else bisect_left(self.times, before)
        return [run for run in self.runs[first:last] if run.state is RunState.FINISHED]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gap:
    """A time without a case: the points of its history up to it, and the suite's runs in it.

    `good` is the last point that was ok; later points, if any, were deferred. `end` is the point
    that ended the gap, None while it lasts.
    """

    history: OutcomeHistory
    good: OutcomePoint
    until: Sequence[OutcomePoint]
    end: OutcomePoint | None
    suite: _SuiteRuns
    runs: Sequence[PlannedRun]

    @property
    def last(self) -> OutcomePoint:
        return self.until[-1]

    @property
    def late_from(self) -> datetime | None:
        return late_from([point.at for point in self.until])


def judge_outcomes(
    histories: Sequence[OutcomeHistory],
    *,
    runs: Sequence[PlannedRun],
    timetable: Timetable | None = None,
) -> list[Alert]:
    """Return the alerts of kinds `outcome`, `vanished` and `late`, the fixed ones too.

    `runs` are all runs, oldest first. Histories may be left out if every run of the suite planned
    the case and it was ok or deferred each time. Without a `timetable` no suite is overdue.
    """
    suites = _suites(runs)
    alerts = []
    for history in histories:
        alerts.extend(_failures(history))
        alerts.extend(_missing_results(history))
        for gap in _gaps(history, suites):
            alerts.extend(_missed(gap))
    if timetable is not None:
        alerts.extend(_late_suites(suites, timetable))
    return alerts


def _failures(history: OutcomeHistory) -> list[Alert]:
    points = [point for point in history.points if _is_success(point) or point.outcome in _BAD]
    spans = find_spans(points, is_good=_is_success)
    reported = one_of_each(spans, text_of=_failure_text, num_points=len(points))
    subject = _subject(history)
    return [span_alert(subject, OUTCOME, item, _failure_text(item.bad)) for item in reported]


def _failure_text(point: OutcomePoint) -> str:
    return f"{Outcome.OK} -> {point.outcome}"


def _missing_results(history: OutcomeHistory) -> list[Alert]:
    points = [
        point
        for point in history.points
        if (point.outcome is not None or point.run_state is RunState.FINISHED)
        and not point.is_deferred
        and point.outcome is not Outcome.UNAVAILABLE
    ]
    without = find_spans(points, is_good=_has_result)
    spans = [item for item in without if _is_success(item.good)]
    reported = one_of_each(spans, text_of=_missing_text, num_points=len(points))
    subject = _subject(history)
    return [span_alert(subject, VANISHED, item, _missing_text(item.bad)) for item in reported]


def _missing_text(point: OutcomePoint) -> str:
    return f"planned, but {point.outcome}" if point.outcome else "planned, but without a result"


def _has_result(point: OutcomePoint) -> bool:
    return point.outcome is not None and point.outcome.is_attempted


def _is_success(point: OutcomePoint) -> bool:
    return point.outcome is not None and point.outcome.is_success


def _subject(history: OutcomeHistory) -> AlertSubject:
    return AlertSubject(
        case=history.case,
        metric=OUTCOME,
        machine=history.machine,
        toolchain=history.toolchain,
    )


def _suites(runs: Sequence[PlannedRun]) -> dict[tuple[str, str, str], _SuiteRuns]:
    by_suite: dict[tuple[str, str, str], list[PlannedRun]] = defaultdict(list)
    for run in runs:
        by_suite[run.machine, run.toolchain, run.suite].append(run)
    # Runs that planned the same share one tuple.
    shared = {id(run.plan): run.plan for run in runs}
    plans = {number: frozenset(case.key for case in plan) for number, plan in shared.items()}
    group: dict[tuple[str, str, datetime], frozenset[str]] = defaultdict(frozenset)
    for run in runs:
        group[_execution(run)] |= plans[id(run.plan)]
    return {
        key: _SuiteRuns(
            runs=suite_runs,
            times=[run.at for run in suite_runs],
            planned={run.id: group[_execution(run)] for run in suite_runs},
        )
        for key, suite_runs in by_suite.items()
    }


def _execution(run: PlannedRun) -> tuple[str, str, datetime]:
    """Return the key of an execution: several machines share its cases."""
    return (run.toolchain, run.suite, run.at)


def _gaps(
    history: OutcomeHistory, suites: Mapping[tuple[str, str, str], _SuiteRuns]
) -> Iterator[_Gap]:
    """Yield the times in which finished runs of its suite did not plan an ok case."""
    good: OutcomePoint | None = None
    for number, point in enumerate(history.points):
        if not point.is_deferred:
            good = point if _is_success(point) else None
        if good is None or point.suite == CUSTOM_SUITE:
            continue
        after = history.points[number + 1 :]
        end = after[0] if after else None
        suite = suites[history.machine, history.toolchain, point.suite]
        runs = [
            run
            for run in suite.after(point.at, before=None if end is None else end.at)
            if history.case.key not in suite.planned[run.id]
        ]
        if runs:
            until = history.points[: number + 1]
            yield _Gap(history=history, good=good, until=until, end=end, suite=suite, runs=runs)


def _missed(gap: _Gap) -> list[Alert]:
    """Return the alert that a gap is, none while it is not longer than the case's cadence."""
    limit = gap.late_from
    if limit is None or gap.runs[-1].at <= limit:
        return []
    new_names = _new_names(gap)
    without = _runs_without(gap, new_names)
    if len(without) >= RUNS_WITHOUT:
        text = f"no longer planned in suite {gap.last.suite}{_new_names_text(new_names)}"
        return [_gap_alert(gap, VANISHED, without, text)]
    if _comes_seldom(gap):
        beyond = [run for run in gap.runs if run.at > limit]
        return [_gap_alert(gap, LATE, beyond, _late_text(gap))]
    return []


def _new_names(gap: _Gap) -> dict[str, str]:
    """Return the names that came instead of the case's own, by the new case's key, likeliest first.

    Such a case differs in one name alone, and no run up to the last one of the old case planned it.
    """
    suite, run = gap.suite, gap.runs[0]
    planned = suite.planned[run.id]
    before = suite.runs[: bisect_right(suite.times, gap.last.at)]
    key = Case.parse_key(gap.history.case.key)
    names: dict[str, str] = {}
    for part in _PARTS:
        for name in suite.names_of(run)[part]:
            other = "/".join(dataclasses.astuple(dataclasses.replace(key, **{part: name})))
            if other in planned and not any(other in suite.planned[item.id] for item in before):
                names[other] = name
    own = gap.history.case.key
    return dict(sorted(names.items(), key=lambda item: (-_likeness(own, item[0]), item[0])))


def _likeness(key: str, other: str) -> float:
    return SequenceMatcher(None, key, other).ratio()


def _new_names_text(new_names: Mapping[str, str]) -> str:
    if not new_names:
        return ""
    names = listed(list(new_names.values()), limit=MAX_NEW_NAMES)
    return f"; new there with the same settings: {names} (a new name begins a new series)"


def _runs_without(gap: _Gap, new_names: Mapping[str, str]) -> list[PlannedRun]:
    """Return the runs of a gap that planned enough former companions of its case, or a new name."""
    planned = gap.suite.planned
    companions = planned[gap.last.run_id] - {gap.history.case.key}
    return [
        run
        for run in gap.runs
        if not new_names.keys().isdisjoint(planned[run.id])
        or (companions and len(companions & planned[run.id]) >= MIN_COMPANIONS * len(companions))
    ]


def _comes_seldom(gap: _Gap) -> bool:
    """Return whether the suite also ran without the case between its last two points."""
    before, last = gap.until[-2:]
    return bool(gap.suite.after(before.at, before=last.at))


def _late_text(gap: _Gap) -> str:
    cadence = cadence_of([point.at for point in gap.until])
    assert cadence is not None
    return f"every {_days(cadence)} so far, none since {gap.last.at:%Y-%m-%d}"


def _days(cadence: timedelta) -> str:
    days = cadence / timedelta(days=1)
    return f"{days:.0f} days" if days >= 2 else f"{24 * days:.0f} hours"


def _gap_alert(gap: _Gap, kind: str, bad: Sequence[PlannedRun], text: str) -> Alert:
    points = [run.point() for run in bad]
    return closed_alert(_subject(gap.history), kind, points, gap.good, text, end=gap.end)


def _late_suites(
    suites: Mapping[tuple[str, str, str], _SuiteRuns], timetable: Timetable
) -> Iterator[Alert]:
    """Yield an alert for each case of a suite that its schedule should have run again."""
    for (machine, toolchain, name), suite in suites.items():
        last = suite.runs[-1]
        limit = timetable.late_from(name, toolchain, last.at)
        if machine != timetable.machine or limit is None or timetable.now <= limit:
            continue
        for case in last.plan:
            if not case.is_reference:
                yield _late_by_schedule(case, last, limit)


def _late_by_schedule(case: Case, last: PlannedRun, limit: datetime) -> Alert:
    key = series_key(case, metric=OUTCOME, fingerprint=last.fingerprint)
    good = RunRef(run_id=last.id, revision=last.revision, at=last.at)
    return Alert(
        id=alert_id(key, kind=LATE, first_bad_run_id=last.id),
        series_key=key,
        kind=LATE,
        state=AlertState.OPEN,
        verdict=Verdict.REGRESSION,
        case=case,
        metric=OUTCOME,
        unit="",
        machine=last.machine,
        toolchain=last.toolchain,
        fingerprint=last.fingerprint,
        # There is no bad run; this is when the next one was due.
        first_bad=RunRef(run_id=last.id, revision=last.revision, at=limit),
        last_good=good,
        last_seen=limit,
        cause_kind=UNKNOWN,
        cause_text=f"suite {last.suite} has not run since {last.at:%Y-%m-%d %H:%M}",
    )


def reported_reason(reason: str) -> str:
    """Return the part of a result's reason that alerts show."""
    return reason[:MAX_REASON_LENGTH].strip()


def fails_otherwise(alert: Alert, *, load_last: Callable[[Alert], LastEnding | None]) -> str:
    """Return the last ending of a lasting failure if its error has changed.

    Empty for all other alerts, whose last ending is not loaded, and if only numbers, folders and
    hashes differ.
    """
    if alert.kind != OUTCOME or alert.state not in ONGOING:
        return ""
    last = load_last(alert)
    if last is None or last.outcome.is_success:
        return ""
    reason = reported_reason(last.reason)
    text = f"{last.outcome}: {reason}" if reason else str(last.outcome)
    first = alert.cause_text.removeprefix(f"{Outcome.OK} -> ")
    return "" if _begins_with(_shape(first), _shape(text)) else one_line(text)


def _begins_with(first: str, text: str) -> bool:
    """Return whether `first`, a cause with or without more text, is that of `text`."""
    if min(len(first), len(text)) >= _COMPARED_LENGTH:
        return first[:_COMPARED_LENGTH] == text[:_COMPARED_LENGTH]
    return first == text or first.startswith(f"{text};")


def _shape(text: str) -> str:
    return _VARYING.sub("#", _FOLDERS.sub("/", one_line(text)))
