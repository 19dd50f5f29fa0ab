"""Spans in which a case was bad, with intermittent ones joined.

Method: no statistics. A case that is bad again after fewer than BASELINE_POINTS good points still
has the same problem; it is over only after as many good points in a row.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from compile_hud.db.records.alerts import Alert, AlertState
from compile_hud.db.records.results import Case, Verdict, series_key
from compile_hud.db.records.summaries import OutcomePoint
from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG
from compile_hud.runner.analysis.judging.attribution import UNKNOWN
from compile_hud.runner.analysis.judging.judge import alert_id, run_ref


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSubject:
    """The subject of an alert without numbers: an outcome of a case, or a missing metric."""

    case: Case
    metric: str
    machine: str
    toolchain: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeSpan:
    """A time in which a case was bad: its first and last bad point, and the adjacent good ones.

    `first` is the index of the first bad point and `after` that of `end`, the good point that ended
    the span; `end` is None while it lasts. `num_times` counts the occurrences of an intermittent
    problem.
    """

    good: OutcomePoint
    bad: OutcomePoint
    last_bad: OutcomePoint
    end: OutcomePoint | None
    first: int
    after: int
    num_times: int = 1


def find_spans(
    points: Sequence[OutcomePoint], *, is_good: Callable[[OutcomePoint], bool]
) -> Iterator[OutcomeSpan]:
    """Yield each span of bad points with a good one before it."""
    good: OutcomePoint | None = None
    first = 0
    for index, point in enumerate((*points, None)):
        if point is not None and not is_good(point):
            continue
        if good is not None and first < index:
            yield OutcomeSpan(
                good=good,
                bad=points[first],
                last_bad=points[index - 1],
                end=point,
                first=first,
                after=index,
            )
        good, first = point, index + 1


def one_of_each(
    stretches: Iterable[OutcomeSpan], *, text_of: Callable[[OutcomePoint], str], num_points: int
) -> list[OutcomeSpan]:
    """Return the spans, oldest first, with intermittent ones joined.

    A span is intermittent if it begins in the same way, in the same environment, with fewer than
    BASELINE_POINTS good points in between. It is over only after as many.
    """
    by_text: dict[tuple[str, str], list[OutcomeSpan]] = defaultdict(list)
    for item in stretches:
        equal = by_text[text_of(item.bad), item.bad.fingerprint]
        if equal and is_soon_after(item.first, equal[-1]):
            equal[-1] = joined(equal[-1], item)
        else:
            equal.append(item)
    spans = [while_it_lasts(item, num_points) for equal in by_text.values() for item in equal]
    return sorted(spans, key=lambda item: item.first)


def is_soon_after(index: int, earlier: OutcomeSpan) -> bool:
    """Return whether too few good points lie between `earlier` and a bad one for it to be over."""
    return index - earlier.after < DEFAULT_CONFIG.baseline_points


def joined(earlier: OutcomeSpan, later: OutcomeSpan) -> OutcomeSpan:
    """Return two spans joined into an intermittent one."""
    return dataclasses.replace(
        later,
        good=earlier.good,
        bad=earlier.bad,
        first=earlier.first,
        num_times=earlier.num_times + 1,
    )


def while_it_lasts(item: OutcomeSpan, num_points: int) -> OutcomeSpan:
    """Return a span; an intermittent one stays open until enough good points follow it."""
    is_over = item.num_times == 1 or num_points - item.after >= DEFAULT_CONFIG.baseline_points
    return item if is_over else dataclasses.replace(item, end=None)


def span_alert(subject: AlertSubject, kind: str, item: OutcomeSpan, text: str) -> Alert:
    """Return the alert of one span; it is open while the span lasts."""
    return closed_alert(subject, kind, (item.bad, item.last_bad), item.good, text, end=item.end)


def closed_alert(
    subject: AlertSubject,
    kind: str,
    bad: Sequence[OutcomePoint],
    good: OutcomePoint,
    text: str,
    *,
    end: OutcomePoint | None,
) -> Alert:
    """Return the alert of a span from the first to the last of `bad`, after the run `good`."""
    first = bad[0]
    key = series_key(subject.case, metric=subject.metric, fingerprint=first.fingerprint)
    return Alert(
        id=alert_id(key, kind=kind, first_bad_run_id=first.run_id),
        series_key=key,
        kind=kind,
        state=AlertState.OPEN if end is None else AlertState.FIXED,
        verdict=Verdict.REGRESSION,
        case=subject.case,
        metric=subject.metric,
        unit="",
        machine=subject.machine,
        toolchain=subject.toolchain,
        fingerprint=first.fingerprint,
        first_bad=run_ref(first),
        last_good=run_ref(good),
        last_seen=bad[-1].at,
        cause_kind=UNKNOWN,
        cause_text=text,
    )
