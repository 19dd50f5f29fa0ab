"""A run with a time budget: whose turn it is, and what becomes of those it has no time for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from compile_hud.db.records.ids import timed_id
from compile_hud.db.records.results import DEFERRED, Case, CaseResult, Outcome
from compile_hud.runner.format import clock

T = TypeVar("T")

# A case with an open regression is worth four nights of waiting: it is measured nearly every night,
# and yet what waited longer than that comes first, so that nothing starves.
SUSPECT_WEIGHT = 4.0
# Somebody asked for it by name, to be measured every night.
TRACKED_WEIGHT = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """What makes cases worth measuring.

    `last_measured` tells when a run last measured a case, by its key; `suspects` are the keys of
    those with an open regression. `is_tracked` tells whether hud.toml wants the shape of a case
    measured every night.
    """

    last_measured: Mapping[str, datetime] = field(default_factory=dict)
    suspects: Collection[str] = ()
    is_tracked: Callable[[Case], bool] = lambda _case: False

    def weight(self, case: Case) -> float:
        """Return how much more than another case this one is worth after the same wait."""
        suspect = SUSPECT_WEIGHT if case.key in self.suspects else 1.0
        return suspect * (TRACKED_WEIGHT if self.is_tracked(case) else 1.0)


class TimeBudget:
    """How long a run may start cases, and in which order.

    It is `limit_s` seconds from now, None for as long as it takes.
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
    def text(self) -> str:
        """Return what is said when it is spent."""
        assert self._limit_s is not None
        return f"{DEFERRED} of {clock(self._limit_s)} is spent"

    def in_turn(self, cases: Sequence[T], *, case_of: Callable[[T], Case]) -> list[T]:
        """Return `cases`, of which `case_of` tells each, in the order in which it is their turn.

        The reference cases come first. Of the others those are next that are worth most: the time
        since they were measured, times their weight. What was never measured waits as long as what
        waits longest, and comes before it.
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

    def allows(self, case: Case) -> bool:
        """Return whether `case` may be started now.

        Reference cases always may, and so may the first other one: a budget that they alone use up
        would never measure anything.
        """
        if self._limit_s is None or case.is_reference or not self._has_begun:
            self._has_begun |= not case.is_reference
            return True
        return self._now() - self._started_at < timedelta(seconds=self._limit_s)

    def defer(self, case: Case, *, run_id: str) -> CaseResult:
        """Return the result of a case that there was no time for."""
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
