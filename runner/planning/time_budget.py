"""The time budget of a run: the order of its cases, and which ones are deferred."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from compile_hud.db.records.results import DEFERRED, Case, CaseResult, Outcome
from compile_hud.db.shared.ids import timed_id
from compile_hud.runner.format import clock

T = TypeVar("T")

# An open regression counts like four nights of waiting, so its case is measured nearly every night.
# A case that waited longer still comes first, so that none starves.
SUSPECT_WEIGHT = 4.0
# A user listed the shape in hud.toml, to have it measured every night.
TRACKED_WEIGHT = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """The weights of cases under a time budget.

    `last_measured` has the time of the last measurement by case key. `suspects` are the keys of
    cases with an open regression. `is_tracked` returns whether hud.toml lists the shape of a case
    for every night.
    """

    last_measured: Mapping[str, datetime] = field(default_factory=dict)
    suspects: Collection[str] = ()
    is_tracked: Callable[[Case], bool] = lambda _case: False

    def weight(self, case: Case) -> float:
        """Return the factor by which the waiting time of `case` counts."""
        suspect = SUSPECT_WEIGHT if case.key in self.suspects else 1.0
        return suspect * (TRACKED_WEIGHT if self.is_tracked(case) else 1.0)


class TimeBudget:
    """The time in which a run may start cases, and their order.

    The budget ends `limit_s` seconds after its creation; None means no limit.
    """

    def __init__(
        self,
        limit_s: float | None,
        *,
        worth: Worth | None = None,
        now: Callable[[], datetime],
    ) -> None:
        self._limit_s = limit_s
        self._worth = worth or Worth()
        self._now = now
        self._started_at = now()
        self._has_begun = False

    @property
    def is_limited(self) -> bool:
        """Return whether the order of the cases decides which ones are measured."""
        return self._limit_s is not None

    @property
    def text(self) -> str:
        """Return the reason of a case that a spent budget defers."""
        assert self._limit_s is not None
        return f"{DEFERRED} of {clock(self._limit_s)} is spent"

    def in_turn(self, cases: Sequence[T], *, case_of: Callable[[T], Case]) -> list[T]:
        """Return `cases` in the order of measurement; `case_of` returns the case of an item.

        Reference cases come first. Then the largest worth comes first: the time since the last
        measurement times the weight. A case without a measurement counts as the longest wait and
        precedes equals.
        """
        last = self._worth.last_measured
        waits = {key: (self._started_at - at).total_seconds() for key, at in last.items()}
        keys = [case_of(item).key for item in cases]
        longest_s = max((waits[key] for key in keys if key in waits), default=1.0)

        def turn(item: T) -> tuple[bool, float, bool]:
            case = case_of(item)
            waited_s = waits.get(case.key, longest_s)
            worth = waited_s * self._worth.weight(case)
            return (not case.is_reference, -worth, case.key in waits)

        return sorted(cases, key=turn)

    def allows(self, case: Case, *, needed_s: float = 0.0) -> bool:
        """Return whether `case` may be started now, when it ends after `needed_s` seconds.

        Reference cases always may, and so may the first other one. Otherwise a budget that
        reference cases use up would never measure anything.
        """
        if self._limit_s is None or case.is_reference or not self._has_begun:
            self._has_begun |= not case.is_reference
            return True
        passed_s = (self._now() - self._started_at).total_seconds()
        return passed_s < self._limit_s and passed_s + needed_s <= self._limit_s

    def defer(self, case: Case, *, run_id: str) -> CaseResult:
        """Return the result of a deferred case."""
        at = self._now()
        return CaseResult(
            id=timed_id(at),
            run_id=run_id,
            case=case,
            outcome=Outcome.SKIPPED,
            reason=f"{self.text}: the next run of the suite begins with what waited longest",
            started_at=at,
            finished_at=at,
        )
