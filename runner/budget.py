"""A run with a time budget: whose turn it is, and what becomes of those it has no time for."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta

from db.records import PUT_OFF, Case, CaseResult, Outcome
from runner.paired import PairSide
from runner.text import clock


class TimeBudget:
    """How long a run may start cases, and in which order.

    It is `limit_s` seconds from now, None for as long as it takes. `last_measured` tells when a run
    last measured a case, by the keys of cases.
    """

    def __init__(
        self,
        limit_s: float | None,
        *,
        last_measured: Mapping[str, datetime] | None = None,
        now: Callable[[], datetime],
    ) -> None:
        self._limit_s = limit_s
        self._last_measured = last_measured or {}
        self._now = now
        self._started_at = now()
        self._has_begun = False

    @property
    def text(self) -> str:
        """Return what is said when it is spent."""
        assert self._limit_s is not None
        return f"{PUT_OFF} of {clock(self._limit_s)} is spent"

    def in_turn(self, cases: Sequence[Sequence[PairSide]]) -> list[Sequence[PairSide]]:
        """Return `cases`, each with its sides, in the order in which it is their turn.

        The reference cases come first, then what was never measured, then what was so longest ago.
        """

        def turn(sides: Sequence[PairSide]) -> tuple[bool, float]:
            case = sides[0].order.case
            at = self._last_measured.get(case.key)
            return (not case.is_reference, 0.0 if at is None else at.timestamp())

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

    def put_off(self, case: Case, *, run_id: str) -> CaseResult:
        """Return the result of a case that there was no time for."""
        at = self._now()
        return CaseResult(
            id=uuid.uuid4().hex,
            run_id=run_id,
            case=case,
            outcome=Outcome.SKIPPED,
            reason=f"{self.text}: the next run of the suite begins with what waited longest",
            started_at=at,
            finished_at=at,
        )
