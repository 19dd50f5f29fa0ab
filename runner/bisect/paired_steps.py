"""One step of a search: launches of two revisions in turn, within a time and under a lock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from compile_hud.runner.analysis.comparison.paired import looks
from compile_hud.runner.bisect.revisions import Revisions
from compile_hud.runner.errors import RunInterrupted
from compile_hud.runner.events import Notify, PairLaunched
from compile_hud.runner.execution.paired_launches import (
    MIN_PAIRS,
    PairLimits,
    PairResult,
    PairSide,
    TimedPair,
    measure_pair,
)
from compile_hud.runner.system.interrupts import Interrupts
from compile_hud.runner.system.locks import device_lock


@contextmanager
def resumable(command: str, *, revisions: Revisions) -> Iterator[Interrupts]:
    """Yield the interrupts of a search over `revisions`, which are closed after it.

    RunInterrupted names the `command` that continues it.
    """
    with Interrupts() as interrupts:
        try:
            yield interrupts
        except RunInterrupted as error:
            raise RunInterrupted(f"stopped; `{command}` continues") from error
        finally:
            revisions.close()


def search_limits(*, floor: float, max_launches: int, num_cases: int = 1) -> PairLimits:
    """Return the limits of a step, whose first look is early: the time is short."""
    return PairLimits(
        min_launches=min(MIN_PAIRS, max_launches),
        max_launches=max_launches,
        fail_above=floor,
        num_cases=num_cases,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedSteps:
    """The steps of a search, each for about `step_s`; `cancel` ends the running launch."""

    limits: PairLimits
    step_s: float
    lock_dir: Path
    now: Callable[[], datetime]
    notify: Notify
    interrupts: Interrupts
    cancel: Callable[[], None]

    def measure(
        self,
        baseline: PairSide,
        candidate: PairSide,
        *,
        is_clear: Callable[[PairResult], bool],
    ) -> TimedPair:
        """Return both sides, launched in turn until the pair `is_clear` or the time is up.

        Raises ExecutorError when a host cannot be restarted, and RunInterrupted after a signal.
        """
        case = candidate.order.case
        num_pairs = 0

        def on_pair(number: int) -> None:
            nonlocal num_pairs
            num_pairs = number
            self.notify(PairLaunched(case=case, num_pairs=number))

        with (
            device_lock(case.device, lock_dir=self.lock_dir, notify=self.notify),
            self.interrupts.deferred(self.cancel),
        ):
            # The wait for the device is no time of the step.
            limit = StepLimit(self.step_s, limits=self.limits, now=self.now)
            started_at = self.now()
            pair = measure_pair(
                baseline,
                candidate,
                limits=self.limits,
                on_pair=on_pair,
                is_enough=lambda pair, number: is_clear(pair) or limit.is_over(number),
            )
            took_s = (self.now() - started_at).total_seconds()
        # The results of a killed launch mean nothing.
        self.interrupts.check()
        return TimedPair(pair=pair, num_pairs=num_pairs, took_s=took_s)


class StepLimit:
    """The time limit of one step: no further look starts if it would end too late."""

    def __init__(self, step_s: float, *, limits: PairLimits, now: Callable[[], datetime]) -> None:
        self._step_s = step_s
        self._looks = looks(limits.min_launches, limits.max_launches)
        self._now = now
        self._started_at = now()

    def is_over(self, num_pairs: int) -> bool:
        """Return whether the pairs up to the next look would exceed the time limit."""
        following = next((look for look in self._looks if look > num_pairs), num_pairs)
        spent_s = (self._now() - self._started_at).total_seconds()
        return spent_s * following / num_pairs > self._step_s
