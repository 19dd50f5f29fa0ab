"""Missing metrics: the ok results of a case no longer have a metric that they used to have.

Method: no statistics. The ok results of a case in a suite, on a machine in a toolchain, are in the
order of their runs. A metric is missing if three in a row lack it and nearly all of the eight
before had it. A metric that comes back for fewer than fourteen results is intermittent, as failures
are (spans.py). Each suite is judged by itself: another one may run the same cases for their
accuracy alone. A rare metric, such as a weekly latency between nightly checks, is never missing.
Neither is one that any suite of the scope still measures as often as before. Like outcomes it
compares across environments: a new driver without room for eager is a change.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np

from compile_hud.db.records.alerts import VANISHED, Alert
from compile_hud.db.records.results import CUSTOM_SUITE, Case, Outcome
from compile_hud.db.records.summaries import OkResults, OutcomePoint, PlannedRun
from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG
from compile_hud.runner.analysis.outcomes.cadence import NUM_GAPS, late_from
from compile_hud.runner.analysis.outcomes.spans import (
    AlertSubject,
    OutcomeSpan,
    is_soon_after,
    joined,
    span_alert,
    while_it_lasts,
)

# A result needs these metrics. Sizes and counts may come and go with the capabilities of a host.
HEADLINE_METRICS: Final = ("latency_s", "speedup")
# Results before a gap that show that the metric belongs to the case.
POINTS_BEFORE: Final = 8
# Results of these that may lack the metric: with two, the case may be measured like that.
MAX_WITHOUT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _MetricHistory:
    """The runs of the ok results of one case in one suite, oldest first, and which have the metric.

    `onsets` are the indices from which three results in a row lack the metric after earlier ones
    had it. `times` are the times at which any suite of the scope has it, oldest first.
    """

    case_key: str
    metric: str
    runs: Sequence[PlannedRun]
    has: np.ndarray
    onsets: Collection[int]
    times: Sequence[datetime]

    def is_late(self, first: int, after: int) -> bool:
        """Return whether the metric was overdue at a result in these bounds.

        The metric is not overdue if a suite measured it since the first of them.
        """
        begun = self.runs[first].at
        for index in range(first + DEFAULT_CONFIG.sustained_points - 1, after):
            at = self.runs[index].at
            times = self._times_before(at)
            if times and times[-1] >= begun:
                return False
            late = late_from(times)
            if late is not None and at >= late:
                return True
        return False

    def is_missed(self, first: int, after: int) -> bool:
        """Return whether the metric was missing for half its usual gap or more in these bounds."""
        for index in range(first, after):
            at = self.runs[index].at
            times = self._times_before(at)
            gaps = sorted(after - before for before, after in pairwise(times))
            if gaps and at - times[-1] >= gaps[len(gaps) // 2] / 2:
                return True
        return False

    def _times_before(self, at: datetime) -> Sequence[datetime]:
        stop = bisect_left(self.times, at)
        return self.times[max(0, stop - NUM_GAPS - 1) : stop]


def judge_missing_metrics(results: OkResults, *, runs: Sequence[PlannedRun]) -> list[Alert]:
    """Return an alert of kind `vanished` for each metric that ok results no longer have.

    Fixed ones are included. `runs` are all runs, oldest first; `results` refers to their indices.
    """
    histories = list(_histories_without(results, runs))
    cases = _planned({history.case_key for history in histories}, runs)
    return [
        _alert(history, span, cases[history.case_key])
        for history in histories
        if history.case_key in cases
        for span in _missing_spans(history)
    ]


def _histories_without(results: OkResults, runs: Sequence[PlannedRun]) -> Iterator[_MetricHistory]:
    """Yield the histories in which a metric was missing at any time."""
    suite = _suite_numbers(runs)[results.runs]
    counts = np.flatnonzero(suite >= 0)
    order = counts[np.lexsort((results.runs[counts], results.cases[counts], suite[counts]))]
    suite, case = suite[order], results.cases[order]
    is_first = np.ones(order.size, dtype=bool)
    is_first[1:] = (suite[1:] != suite[:-1]) | (case[1:] != case[:-1])
    bounds = np.append(np.flatnonzero(is_first), order.size)
    times = _Times(results, runs=runs, counts=counts)
    for column, metric in enumerate(results.metrics):
        has = results.has[order, column]
        for start, stop, onsets in _with_onsets(has, bounds):
            yield _MetricHistory(
                case_key=results.case_keys[case[start]],
                metric=metric,
                runs=[runs[number] for number in results.runs[order[start:stop]]],
                has=has[start:stop],
                onsets=onsets,
                times=times.of(results.runs[order[start]], case[start], column),
            )


class _Times:
    """The times at which the suites of a scope had a metric of a case.

    `counts` are the rows of finished results.
    """

    def __init__(
        self, results: OkResults, *, runs: Sequence[PlannedRun], counts: np.ndarray
    ) -> None:
        self._results = results
        self._runs = runs
        self._counts = counts

    @cached_property
    def _places(self) -> np.ndarray:
        numbers: dict[tuple[str, str], int] = {}
        indices = [numbers.setdefault(run.scope, len(numbers)) for run in self._runs]
        return np.array(indices, dtype=np.int64)

    @cached_property
    def _by_key(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows by scope and case, then by run, and the key of each row."""
        runs = self._results.runs[self._counts]
        keys = self._key(runs, self._results.cases[self._counts])
        order = np.lexsort((runs, keys))
        return self._counts[order], keys[order]

    def _key(self, runs: np.ndarray, cases: np.ndarray) -> np.ndarray:
        key: np.ndarray = self._places[runs] * len(self._results.case_keys) + cases
        return key

    def of(self, run: np.ndarray, case: np.ndarray, column: int) -> list[datetime]:
        """Return the times of the metric of `case` in the scope of `run`, oldest first."""
        rows, keys = self._by_key
        key = self._key(run, case)
        start, stop = np.searchsorted(keys, [key, key + 1])
        has = rows[start:stop][self._results.has[rows[start:stop], column]]
        return [self._runs[number].at for number in self._results.runs[has]]


def _suite_numbers(runs: Sequence[PlannedRun]) -> np.ndarray:
    """Return a number for the machine, toolchain and suite of each run; -1 for a manual run."""
    numbers: dict[tuple[str, str, str], int] = {}
    run_numbers = [
        -1
        if run.suite == CUSTOM_SUITE
        else numbers.setdefault((run.machine, run.toolchain, run.suite), len(numbers))
        for run in runs
    ]
    return np.array(run_numbers, dtype=np.int64)


def _with_onsets(has: np.ndarray, bounds: np.ndarray) -> Iterator[tuple[int, int, set[int]]]:
    """Yield start, stop and onsets, relative to the start, of each history with an onset.

    `bounds` are the starts of histories, and the end of the last.
    """
    sizes = np.diff(bounds)
    start, stop = np.repeat(bounds[:-1], sizes), np.repeat(bounds[1:], sizes)
    positions = np.arange(has.size)
    num_without = np.concatenate(([0], np.cumsum(~has)))
    since = np.maximum(start, positions - POINTS_BEFORE)
    without = num_without[positions] - num_without[since]
    until = np.minimum(stop, positions + DEFAULT_CONFIG.sustained_points)
    is_onset = (
        (num_without[until] - num_without[positions] == DEFAULT_CONFIG.sustained_points)
        & (without <= MAX_WITHOUT)
        & (positions - since - without >= DEFAULT_CONFIG.min_baseline_points)
    )
    onsets = np.flatnonzero(is_onset)
    by_history: dict[tuple[int, int], set[int]] = defaultdict(set)
    for onset in onsets.tolist():
        by_history[int(start[onset]), int(stop[onset])].add(onset - int(start[onset]))
    for (first, last), group in by_history.items():
        yield first, last, group


def _missing_spans(history: _MetricHistory) -> list[OutcomeSpan]:
    """Return the spans in which the metric was missing, an intermittent one as one span."""
    spans: list[OutcomeSpan] = []
    padded = np.concatenate(([True], history.has, [True])).astype(np.int8)
    for first, after in np.flatnonzero(np.diff(padded)).reshape(-1, 2).tolist():
        is_soon = bool(spans) and is_soon_after(first, spans[-1])
        if is_soon and history.is_missed(first, after):
            spans[-1] = joined(spans[-1], _span(history.runs, first, after))
        elif first in history.onsets and history.is_late(first, after):
            spans.append(_span(history.runs, first, after))
    return [while_it_lasts(item, len(history.runs)) for item in spans]


def _span(runs: Sequence[PlannedRun], first: int, after: int) -> OutcomeSpan:
    return OutcomeSpan(
        good=_point(runs[first - 1]),
        bad=_point(runs[first]),
        last_bad=_point(runs[after - 1]),
        end=_point(runs[after]) if after < len(runs) else None,
        first=first,
        after=after,
    )


def _point(run: PlannedRun) -> OutcomePoint:
    return run.point(outcome=Outcome.OK)


def _planned(case_keys: Collection[str], runs: Sequence[PlannedRun]) -> dict[str, Case]:
    """Return the cases with these keys, of those that any run planned."""
    cases: dict[str, Case] = {}
    # Runs that planned the same share one tuple.
    for plan in {id(run.plan): run.plan for run in reversed(runs)}.values():
        if len(cases) == len(case_keys):
            break
        cases |= {case.key: case for case in plan if case.key in case_keys}
    return cases


def _alert(history: _MetricHistory, span: OutcomeSpan, case: Case) -> Alert:
    run = history.runs[0]
    subject = AlertSubject(
        case=case, metric=history.metric, machine=run.machine, toolchain=run.toolchain
    )
    text = f"no longer there in suite {run.suite}, though the case is ok"
    return span_alert(subject, VANISHED, span, text)
