"""Measure many cases under two toolchains, with launches where the answer is still open.

Each case first gets a few pairs of launches. Then rounds follow, up to the next look of every case
that is still open, the ones that need the fewest launches first. A case ends once it is decided at
the error of all cases together, at its last look, and when a launch fails.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from compile_hud.db.records.results import Case, CaseResult
from compile_hud.db.shared.text import counted
from compile_hud.runner.analysis.comparison.paired import PairStandard, looks
from compile_hud.runner.analysis.comparison.resolution import launches_to_settle
from compile_hud.runner.analysis.release.runs import MIN_LAUNCHES, ReleaseRules
from compile_hud.runner.analysis.release.sign_off import (
    JudgedPair,
    count_changed,
    judge,
    standard_of,
)
from compile_hud.runner.analysis.stats.rounds import Pair
from compile_hud.runner.events import LogMessage, Notify, PairLaunched
from compile_hud.runner.execution.paired_launches import OpenPair, PairSide
from compile_hud.runner.execution.retries import measure_with_retries


@dataclass(kw_only=True)
class _Waiting:
    """A case with open sessions, and its results up to the last look.

    Its last pair of launches took `pair_s`, and all of them `worked_s`. No launch follows once it
    `is_over`: one failed, or there is no time for another.
    """

    case: Case
    opened: OpenPair
    results: tuple[CaseResult, ...] = ()
    is_over: bool = False
    pair_s: float = 0.0
    worked_s: float = 0.0


@dataclass(kw_only=True)
class SequentialMeasurement:
    """Measures the `num_cases` cases of a release for at most `budget`, None for no limit.

    The first case always gets its first launches. `num_launches` counts those of both sides.
    """

    rules: ReleaseRules
    num_cases: int
    budget: timedelta | None
    now: Callable[[], datetime]
    notify: Notify
    num_launches: int = 0
    _judged: dict[str, JudgedPair] = field(default_factory=dict)
    _first_s: list[float] = field(default_factory=list)
    _deadline: datetime | None = None

    def measure(
        self, cases: Iterable[Sequence[PairSide] | None], is_stopped: Callable[[], bool]
    ) -> Iterator[Sequence[CaseResult]]:
        """Yield the results of both sides of each case, once it is over.

        After a stop, cases that wait end with their results so far; the running one has none.
        Raises the errors of `measure_with_retries`.
        """
        if self.budget is not None:
            self._deadline = self.now() + self.budget
        schedule = looks(MIN_LAUNCHES, self.rules.max_launches)
        with ExitStack() as stack:
            waiting = yield from self._first_looks(
                iter(cases), num_pairs=schedule[0], is_stopped=is_stopped, stack=stack
            )
            for look in schedule[1:]:
                if not is_stopped():
                    waiting = yield from self._round(waiting, look=look, is_stopped=is_stopped)
            yield from (_end(item) for item in waiting)

    def _first_looks(
        self,
        cases: Iterator[Sequence[PairSide] | None],
        *,
        num_pairs: int,
        is_stopped: Callable[[], bool],
        stack: ExitStack,
    ) -> Generator[Sequence[CaseResult], None, list[_Waiting]]:
        """Launch each case up to its first look, yield those that end, return the others."""
        waiting: list[_Waiting] = []
        while not self._is_time_up(statistics.median(self._first_s) if self._first_s else 0.0):
            sides = next(cases, None)
            if sides is None:
                break
            started_at = self.now()
            item = self._begin(sides, num_pairs=num_pairs, is_stopped=is_stopped, stack=stack)
            if item is None or is_stopped():
                break
            self._first_s.append((self.now() - started_at).total_seconds())
            # The strictest standard: whatever the other cases say, this one is decided.
            if item.is_over or self._is_decided(item, standard=self._standard):
                yield _end(item)
            else:
                waiting.append(item)
        return waiting

    def _begin(
        self,
        sides: Sequence[PairSide],
        *,
        num_pairs: int,
        is_stopped: Callable[[], bool],
        stack: ExitStack,
    ) -> _Waiting | None:
        """Return the case after its first launches, None if a stop came before them."""
        attempts: list[_Waiting] = []

        def attempt(sides: Sequence[PairSide]) -> Sequence[CaseResult]:
            for failed in attempts:
                failed.opened.close()
            opened = OpenPair(sides)
            stack.callback(opened.close)
            item = _Waiting(case=sides[0].order.case, opened=opened)
            self._launch(item, num_pairs=num_pairs, is_stopped=is_stopped)
            attempts.append(item)
            return opened.results() if opened.num_pairs else ()

        results = measure_with_retries(sides, measure_case=attempt, is_stopped=is_stopped)
        if not results:
            return None
        # A retried case has a warning.
        attempts[-1].results = tuple(results)
        return attempts[-1]

    def _round(
        self, waiting: Sequence[_Waiting], *, look: int, is_stopped: Callable[[], bool]
    ) -> Generator[Sequence[CaseResult], None, list[_Waiting]]:
        """Launch the waiting cases up to `look` pairs, yield those that end, return the others."""
        left: list[_Waiting] = []
        is_reported = False
        for item in sorted(waiting, key=self._num_needed):
            if self._is_decided(item, standard=self._standard_of_all()):
                yield _end(item)
                continue
            if is_stopped() or self._is_time_up(item.pair_s):
                left.append(item)
                continue
            if not is_reported:
                launches = counted(look, "launch")
                text = f"{counted(len(waiting), 'case')} undecided: {launches} of each side"
                self.notify(LogMessage(text=text))
                is_reported = True
            self._launch(item, num_pairs=look, is_stopped=is_stopped)
            if is_stopped():
                # Its results are those of the last look.
                left.append(item)
                continue
            item.results = item.opened.results()
            if item.is_over or self._is_decided(item, standard=self._standard_of_all()):
                yield _end(item)
            else:
                left.append(item)
        return left

    def _launch(self, item: _Waiting, *, num_pairs: int, is_stopped: Callable[[], bool]) -> None:
        while item.opened.num_pairs < num_pairs and not item.is_over and not is_stopped():
            started_at = self.now()
            are_ok = item.opened.launch()
            # A launch beyond the time of the case would cost all its samples.
            item.is_over = not are_ok or not item.opened.has_time
            item.pair_s = (self.now() - started_at).total_seconds()
            item.worked_s += item.pair_s
            self.num_launches += 2
            self.notify(PairLaunched(case=item.case, num_pairs=item.opened.num_pairs))

    def _is_decided(self, item: _Waiting, *, standard: PairStandard) -> bool:
        judged = judge(Pair(*item.results), standard)
        self._judged[item.case.key] = judged
        return judged.is_time_decided

    @property
    def _standard(self) -> PairStandard:
        return standard_of(self.rules, num_cases=self.num_cases)

    def _standard_of_all(self) -> PairStandard:
        num_changed = count_changed(tuple(self._judged.values()), standard=self._standard)
        return replace(self._standard, num_changed=num_changed)

    def _num_needed(self, item: _Waiting) -> int:
        row = self._judged[item.case.key].time
        needed = None if row is None else launches_to_settle(row, fail_above=self.rules.fail_above)
        return needed or 0

    def _is_time_up(self, needed_s: float) -> bool:
        """Return whether work that takes `needed_s` would end too late."""
        if self._deadline is None:
            return False
        return self.now() + timedelta(seconds=needed_s) > self._deadline


def _end(item: _Waiting) -> Sequence[CaseResult]:
    item.opened.close()
    # Other cases were launched between the launches of this one.
    worked = timedelta(seconds=item.worked_s)
    return tuple(replace(result, finished_at=result.started_at + worked) for result in item.results)
