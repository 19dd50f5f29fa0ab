"""Measure the cases of a release on the machines of a cluster.

A machine measures one case under both toolchains until it is decided. The driver never waits for a
launch, and no case waits for another machine.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from compile_hud.db.records.results import CaseResult
from compile_hud.runner.analysis.release.runs import ReleaseRules
from compile_hud.runner.execution.paired_launches import MeasureCase, PairSide
from compile_hud.runner.persistence.spool import utc_now
from compile_hud.runner.release.sequential import SequentialMeasurement

# A case that begins gets its first launches, however little time is left.
_LEAST_BUDGET = timedelta(seconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class UntilDecided:
    """Measures one of the `num_cases` cases of a release, by the standard of all of them.

    No launch follows the first ones that would end after `budget`, None for no limit.
    """

    rules: ReleaseRules
    num_cases: int
    budget: timedelta | None

    def __call__(self, sides: Sequence[PairSide]) -> Sequence[CaseResult]:
        """Return the results of both sides; raise the errors of `measure_with_retries`."""
        measurement = SequentialMeasurement(
            rules=self.rules,
            num_cases=self.num_cases,
            budget=self.budget,
            now=utc_now,
            # A node has no terminal.
            notify=lambda _event: None,
        )
        (results,) = measurement.measure(iter([sides]), lambda: False)
        return results


class ReleasePolicy:
    """The rules of a release: no case begins that would probably end after the budget.

    The next case is expected to take as long as the median so far. The first one always begins.
    """

    def __init__(
        self,
        rules: ReleaseRules,
        *,
        num_cases: int,
        budget: timedelta | None,
        now: Callable[[], datetime],
    ) -> None:
        self._rules = rules
        self._num_cases = num_cases
        self._now = now
        self._deadline = None if budget is None else now() + budget
        self._has_begun = False
        self._took_s: list[float] = []

    def has_time(self) -> bool:
        """Return whether one more case may begin."""
        left = self._left()
        needed_s = statistics.median(self._took_s) if self._took_s else 0.0
        return left is None or not self._has_begun or left > timedelta(seconds=needed_s)

    def begin(self) -> MeasureCase:
        """Return the measurement of the next case."""
        self._has_begun = True
        left = self._left()
        return UntilDecided(
            rules=self._rules,
            num_cases=self._num_cases,
            budget=None if left is None else max(left, _LEAST_BUDGET),
        )

    def end(self, took: timedelta) -> None:
        """Note how long a case took."""
        self._took_s.append(took.total_seconds())

    def _left(self) -> timedelta | None:
        return None if self._deadline is None else self._deadline - self._now()
