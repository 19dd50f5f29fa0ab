"""Search the first bad revision: measure the ends, then revision after revision between them.

The state is stored after each step, so that the end of this process costs at most one step. The
device is locked while launches run, and free while a revision is built.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from compile_hud.db.records.metrics import METRICS
from compile_hud.db.records.results import Outcome
from compile_hud.db.shared.model_code import code_change_text
from compile_hud.db.shared.text import counted
from compile_hud.runner.analysis.comparison.bisection import (
    BoundsVerdict,
    Mark,
    Reading,
    answer,
    judge_bounds,
    next_index,
    num_answers,
    read_pair,
)
from compile_hud.runner.analysis.comparison.runs import OUTCOME
from compile_hud.runner.bisect.kernel_evidence import kernel_summary
from compile_hud.runner.bisect.paired_steps import PairedSteps, resumable, search_limits
from compile_hud.runner.bisect.record import BisectEnding, Bisection, BisectRevision, BisectStep
from compile_hud.runner.bisect.report import answer_text, change_text, ends_text, revision_text
from compile_hud.runner.bisect.revisions import Revisions, model_revision
from compile_hud.runner.errors import BisectError, RevisionUnusable
from compile_hud.runner.events import LogMessage, Notify
from compile_hud.runner.execution.cold_cache_sessions import LAUNCHES_FROM_COLD, ColdCacheSessions
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.paired_launches import PairResult, PairSide
from compile_hud.runner.system.interrupts import Interrupts

METRICS_OF_SEARCH = (OUTCOME, *(name for name, row in METRICS.items() if row.is_judged))


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectDependencies:
    """The dependencies of a bisection; tests replace them.

    `keep` gets the state after each step. `is_paused` is called before each one and ends the search
    for now.
    """

    keep: Callable[[Bisection], None]
    lock_dir: Path
    now: Callable[[], datetime]
    notify: Notify
    is_paused: Callable[[Bisection], bool] = lambda _bisection: False


def bisect(
    bisection: Bisection, *, revisions: Revisions, dependencies: BisectDependencies
) -> Bisection:
    """Continue `bisection` to its end, or to a pause, and return it.

    Raises BisectError if an end cannot be measured, ExecutorError if no worker host can be started,
    and RunInterrupted after a stop. The state up to then is stored.
    """
    command = f"hud bisect --resume {bisection.id}"
    with resumable(command, revisions=revisions) as interrupts:
        search = _Search(
            bisection, revisions=revisions, dependencies=dependencies, interrupts=interrupts
        )
        return search.run()


class _Search:
    """A bisection in progress."""

    def __init__(
        self,
        bisection: Bisection,
        *,
        revisions: Revisions,
        dependencies: BisectDependencies,
        interrupts: Interrupts,
    ) -> None:
        self._known = bisection
        self._revisions = revisions
        self._dependencies = dependencies
        self._last = len(bisection.revisions) - 1
        limits = bisection.limits
        self._steps = PairedSteps(
            limits=search_limits(
                floor=limits.floor,
                max_launches=limits.max_launches,
                num_cases=num_answers(len(bisection.revisions)),
            ),
            step_s=limits.step_s,
            lock_dir=dependencies.lock_dir,
            now=dependencies.now,
            notify=dependencies.notify,
            interrupts=interrupts,
            cancel=revisions.cancel,
        )

    def run(self) -> Bisection:
        """Execute the remaining steps."""
        dependencies = self._dependencies
        dependencies.keep(self._known)
        if self._known.ends is None:
            if dependencies.is_paused(self._known):
                return self._known
            self._measure_ends()
        assert self._known.ends is not None
        if self._known.ending in (BisectEnding.SAME_ENDS, BisectEnding.UNCLEAR_ENDS):
            return self._known
        self._say(ends_text(self._known))
        while (index := next_index(self._known.suspects)) is not None:
            if dependencies.is_paused(self._known):
                return self._known
            self._take_step(index)
        if self._known.evidence is None:
            if dependencies.is_paused(self._known):
                return self._known
            self._check()
        suspects = self._known.suspects
        self._revisions.keep_only((suspects.last_good, suspects.first_bad))
        return self._known

    def _measure_ends(self) -> None:
        floor = self._known.limits.floor

        def is_clear(reading: Reading) -> bool:
            return (
                _lacks_metric(reading)
                or judge_bounds(reading, floor=floor) is not BoundsVerdict.UNCLEAR
            )

        self._say(f"measuring the ends: {self._name(0)} and {self._name(self._last)}")
        sides = self._ready(0), self._ready(self._last)
        ends = self._measure(*sides, metric=self._known.metric, is_clear=is_clear)
        _check_ends(ends)
        self._keep(replace(self._known, ends=ends))

    def _take_step(self, index: int) -> None:
        suspects = self._known.suspects
        num_done = len(self._known.steps) + 1
        self._say(
            f"step {num_done}, {counted(suspects.num_left, 'revision')} left: {self._name(index)}"
        )
        started_at = self._dependencies.now()
        reading, mark, reason = self._ask(index)
        took_s = (self._dependencies.now() - started_at).total_seconds()
        step = BisectStep(index=index, mark=mark, reason=reason, reading=reading, took_s=took_s)
        self._keep(replace(self._known, steps=(*self._known.steps, step)))
        self._say(f"  {answer_text(self._known, step)}")
        suspects = self._known.suspects
        self._revisions.keep_only({0, suspects.last_good, suspects.first_bad})

    def _ask(self, index: int) -> tuple[Reading | None, Mark, str]:
        """Return the reading of the revision, its mark, and the reason if it is skipped."""
        good = self._ready(0)
        try:
            candidate = self._revisions.side(index)
        except RevisionUnusable as error:
            return None, Mark.SKIPPED, str(error)
        reading = self._compare(good, candidate)
        if reading.baseline_outcome is not Outcome.OK and reading.metric != OUTCOME:
            raise BisectError(
                f"the good end does not run any more: {reading.reason}", reason=reading.reason
            )
        assert self._known.ends is not None
        mark = answer(reading, bounds=self._known.ends)
        if mark is None:
            return reading, Mark.SKIPPED, "it is not clear on which side it is"
        if mark is Mark.SKIPPED:
            return reading, mark, reading.reason or f"it has no {reading.metric}"
        return reading, mark, ""

    def _check(self) -> None:
        suspects = self._known.suspects
        before, after = suspects.last_good, suspects.first_bad
        self._say(f"checking {self._name(after)} against {self._name(before)}")
        check = self._compare(self._ready(before), self._ready(after))
        self._keep(replace(self._known, check=check))
        self._say(f"  {change_text(check)}")

    def _compare(self, baseline: PairSide, candidate: PairSide) -> Reading:
        ends = self._known.ends
        assert ends is not None
        return self._measure(
            baseline,
            candidate,
            metric=ends.metric,
            is_clear=lambda reading: answer(reading, bounds=ends) is not None,
        )

    def _measure(
        self,
        baseline: PairSide,
        candidate: PairSide,
        *,
        metric: str | None,
        is_clear: Callable[[Reading], bool],
    ) -> Reading:
        timed = self._steps.measure(
            _with_fresh_sessions(baseline, metric),
            _with_fresh_sessions(candidate, metric),
            is_clear=lambda pair: is_clear(_read(pair, metric)),
        )
        self._known = replace(self._known, spent_s=self._known.spent_s + timed.took_s)
        reading = _read(timed.pair, metric)
        kernels = kernel_summary(timed.pair, is_slower=(reading.ratio or 1.0) > 1)
        return replace(
            reading,
            num_pairs=timed.num_pairs,
            kernels=kernels,
            model_code=_code_change(baseline.order, candidate.order),
        )

    def _ready(self, index: int) -> PairSide:
        """Return a required revision, ready to be launched; raise BisectError."""
        try:
            return self._revisions.side(index)
        except RevisionUnusable as error:
            raise BisectError(f"{self._name(index)}: {error}", reason=str(error)) from error

    def _keep(self, known: Bisection) -> None:
        titled = tuple(
            _with_title(revision, self._revisions.title(index))
            for index, revision in enumerate(known.revisions)
        )
        self._known = replace(known, revisions=titled)
        self._dependencies.keep(self._known)

    def _name(self, index: int) -> str:
        return revision_text(self._known.revisions[index])

    def _say(self, text: str) -> None:
        self._dependencies.notify(LogMessage(text=text))


def _read(pair: PairResult, metric: str | None) -> Reading:
    return read_pair(pair.baseline, pair.candidate, rows=pair.rows, metric=metric)


def _with_fresh_sessions(side: PairSide, metric: str | None) -> PairSide:
    if metric not in LAUNCHES_FROM_COLD:
        return side
    sessions = ColdCacheSessions(side.executor, num_launches=LAUNCHES_FROM_COLD[metric])
    return replace(side, executor=sessions)


def _with_title(revision: BisectRevision, title: str) -> BisectRevision:
    return replace(revision, title=title) if title else revision


def _check_ends(ends: Reading) -> None:
    """Raise BisectError unless both ends have the compared metric."""
    if ends.metric == OUTCOME:
        return
    outcomes = {"good": ends.baseline_outcome, "bad": ends.candidate_outcome}
    for name, outcome in outcomes.items():
        if outcome is not Outcome.OK:
            raise BisectError(
                f"the {name} end has the outcome {outcome}: {ends.reason.rstrip('.')}."
                " `--metric outcome` searches the revision since which it has",
                name=name,
                outcome=outcome,
            )
    if _lacks_metric(ends):
        raise BisectError(
            f"the ends have no {ends.metric} in this case; see `hud list metrics`",
            metric=ends.metric,
        )


def _lacks_metric(reading: Reading) -> bool:
    return reading.metric != OUTCOME and reading.baseline is None


def _code_change(baseline: CaseOrder, candidate: CaseOrder) -> str:
    """Return the change of the model's code between two checkouts, empty where it is the same."""
    revisions = (model_revision(baseline), model_revision(candidate))
    return "" if revisions[0] == revisions[1] else code_change_text(*revisions)
