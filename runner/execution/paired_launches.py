"""Measure both sides of a comparison with interleaved launches until it is decided.

The order is A B, B A, A B ...: drift affects both sides alike, and launch i of one side runs next
to launch i of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime

from compile_hud.db.records.results import CaseResult, Outcome
from compile_hud.runner.analysis.comparison.paired import (
    PairStandard,
    compare_pair,
    is_decided,
    looks,
)
from compile_hud.runner.analysis.comparison.runs import CaseComparison
from compile_hud.runner.events import Notify, PairLaunched
from compile_hud.runner.execution.executor import CaseOrder, CaseSession, SessionMaker

# Pairs of launches for a suspected change, or in little time. A large change shows at once; with
# fewer pairs only a catastrophe would.
MIN_PAIRS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSide:
    """One side of a paired measurement: the order, and the executor that launches it."""

    executor: SessionMaker
    order: CaseOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class PairLimits:
    """Limits of a paired measurement: launches a side, and the target width of the interval.

    `target_interval` is the half-width of the interval of the relative time change. `fail_above` is
    the floor (0.05 is 5 %). `num_cases` pairs are judged together and share the error.
    """

    min_launches: int = 8
    max_launches: int = 40
    target_interval: float = 0.02
    fail_above: float = 0.05
    num_cases: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PairResult:
    """Both case results and their comparison."""

    baseline: CaseResult
    candidate: CaseResult
    rows: tuple[CaseComparison, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedPair:
    """A comparison after `num_pairs` pairs of launches in `took_s`."""

    pair: PairResult
    num_pairs: int
    took_s: float


# It returns whether to stop after this number of pairs of launches.
IsEnough = Callable[[PairResult, int], bool]
# It returns whether the time is up after this number of pairs.
IsTimeUp = Callable[[int], bool]


class OpenPair:
    """Both sides of a case, whose launches alternate; `num_pairs` pairs are complete.

    Raises ExecutorError when a host cannot be restarted.
    """

    def __init__(self, sides: Sequence[PairSide]) -> None:
        self.num_pairs = 0
        self._stack = ExitStack()
        with ExitStack() as stack:
            self._sessions = [
                _begin(side.executor.begin(side.order), closed_by=stack) for side in sides
            ]
            self._stack = stack.pop_all()

    def __enter__(self) -> OpenPair:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    def has_time(self) -> bool:
        """Return whether one more launch of each side fits into the time of the case.

        A launch beyond it would cost the case all its samples.
        """
        return all(session.has_time for session in self._sessions)

    def launch(self) -> bool:
        """Launch both sides, and return whether both launches are ok."""
        ordered = self._sessions[::-1] if self.num_pairs % 2 else self._sessions
        # Both sides launch in any case: a side without a launch has no result.
        reports = [session.launch() for session in ordered]
        self.num_pairs += 1
        return all(report.outcome is Outcome.OK for report in reports)

    def results(self) -> tuple[CaseResult, CaseResult]:
        """Return the results of all launches so far."""
        baseline, candidate = (session.finish() for session in self._sessions)
        return baseline, candidate

    def result(self, standard: PairStandard) -> PairResult:
        """Return the results of all launches so far, and their comparison."""
        baseline, candidate = self.results()
        return PairResult(
            baseline=baseline,
            candidate=candidate,
            rows=tuple(compare_pair(baseline, candidate=candidate, standard=standard)),
        )

    def close(self) -> None:
        """Remove the files of both sides; may be called twice."""
        self._stack.close()


def _begin(session: CaseSession, *, closed_by: ExitStack) -> CaseSession:
    closed_by.callback(session.close)
    return session


def measure_pair(
    baseline: PairSide,
    candidate: PairSide,
    *,
    limits: PairLimits,
    on_pair: Callable[[int], None] = lambda _number: None,
    is_enough: IsEnough | None = None,
    is_time_up: IsTimeUp = lambda _number: False,
) -> PairResult:
    """Measure both sides and compare them.

    `on_pair` gets the number of completed pairs. The measurement ends after a failed launch and its
    counterpart, or when `is_enough` returns true at an interim look. The default is true once the
    verdict on the time is decided. After the pair at which `is_time_up` returns true the last look
    follows at once: the clock does not depend on the samples, so this adds no error. Raises
    ExecutorError when a host cannot be restarted, and ValueError for limits without a launch.
    """
    schedule = looks(limits.min_launches, limits.max_launches)
    standard = PairStandard(
        fail_above=limits.fail_above,
        target_interval=limits.target_interval,
        num_looks=len(schedule),
        num_cases=limits.num_cases,
    )
    is_enough = is_enough or (lambda result, _number: is_decided(result.rows, standard=standard))
    with OpenPair((baseline, candidate)) as pair:
        while pair.num_pairs < schedule[-1]:
            are_ok = pair.launch()
            number = pair.num_pairs
            on_pair(number)
            is_last = not are_ok or is_time_up(number) or not pair.has_time
            if is_last or number in schedule:
                result = pair.result(standard)
                if is_last or is_enough(result, number):
                    break
        return result


def measure_timed_pair(
    sides: Sequence[PairSide],
    *,
    limits: PairLimits,
    limit_s: float,
    now: Callable[[], datetime],
    notify: Notify,
) -> TimedPair:
    """Measure both `sides` for at most `limit_s` seconds, and notify after each pair.

    Raises what `measure_pair` raises.
    """
    baseline, candidate = sides
    timer = CaseTimer(limit_s, now=now)

    def on_pair(number: int) -> None:
        timer.count(number)
        notify(PairLaunched(case=candidate.order.case, num_pairs=number))

    pair = measure_pair(
        baseline,
        candidate,
        limits=limits,
        on_pair=on_pair,
        is_time_up=lambda _number: timer.is_up(),
    )
    return TimedPair(pair=pair, num_pairs=timer.num_pairs, took_s=timer.spent_s())


class CaseTimer:
    """The time of one case: no pair is begun that would end after it.

    The next pair is expected to last as long as the one before. The cold compilations of the first
    pair then do not count twice.
    """

    def __init__(self, limit_s: float, *, now: Callable[[], datetime]) -> None:
        self._limit_s = limit_s
        self._now = now
        self._started_at = now()
        self._last_at = self._started_at
        self._pair_s = 0.0
        self.num_pairs = 0

    def count(self, num_pairs: int) -> None:
        """Note that a pair is over."""
        now = self._now()
        self._pair_s = (now - self._last_at).total_seconds()
        self._last_at = now
        self.num_pairs = num_pairs

    def spent_s(self) -> float:
        """Return the seconds since the beginning."""
        return (self._now() - self._started_at).total_seconds()

    def is_up(self) -> bool:
        """Return whether one more pair would end too late."""
        return self.spent_s() + self._pair_s > self._limit_s


# One result for each side, in the order of the sides.
MeasureCase = Callable[[Sequence[PairSide]], Sequence[CaseResult]]
# It takes cases until one is None or its time is up, and yields the results of each case, in any
# order. The function returns whether to stop.
MeasureCases = Callable[
    [Iterable[Sequence[PairSide] | None], Callable[[], bool]], Iterator[Sequence[CaseResult]]
]


def launch_interleaved(sides: Sequence[PairSide]) -> tuple[CaseResult, ...]:
    """Return the result of each side, with interleaved launches.

    Raises ExecutorError if a host cannot be restarted.
    """
    with ExitStack() as stack:
        sessions: list[CaseSession] = []
        for side in sides:
            session = side.executor.begin(side.order)
            stack.callback(session.close)
            sessions.append(session)
        ordered = sessions
        while waiting := [session for session in ordered if session.needs_launch]:
            for session in waiting:
                session.launch()
            ordered = ordered[::-1]
        return tuple(session.finish() for session in sessions)
