"""Two phases in turn: cases compile at the same time, then each samples alone on the device.

A compiled case spends nine tenths of its time on a few cores, while the device waits. So launches
build and compile together, each on cores of its own, until all of them wait for their turn. Then
one after the other warms up, samples and is profiled, while the others are blocked and use neither
a core nor the device. No compilation ever runs next to a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from compile_hud.db.records.results import Case, CaseResult
from compile_hud.runner.events import CaseSampling, CasesCompiling, Notify
from compile_hud.runner.execution.executor import CaseOrder, CompileLane, LaneSession, LaunchState

# Launches that wait hold their model in memory. More of them make phases longer, and the idle cores
# at the end of each phase rarer (benchmarks/compile_ahead.py).
LANES_PER_PROCESS = 6


@dataclass(slots=True)
class _OpenCase:
    """A case between its first launch and its result."""

    case: Case
    lane: CompileLane
    session: LaneSession
    state: LaunchState = LaunchState.ENDED


class Phases:
    """Measures cases in `lanes`, as many compiling at a time as there are groups of cores."""

    def __init__(
        self,
        lanes: Sequence[CompileLane],
        *,
        core_groups: Sequence[frozenset[int]],
        pause: Callable[[], None],
        notify: Notify = lambda _event: None,
    ) -> None:
        self._free = list(lanes)
        self._core_groups = tuple(core_groups)
        self._pause = pause
        self._notify = notify

    def measure(self, orders: Iterable[CaseOrder | None]) -> Iterator[CaseResult]:
        """Yield the result of each case as soon as it has one; raise ExecutorError.

        An order is taken once a lane is free for it; None means that no case may begin now. While a
        result is yielded no launch runs, but some may wait.
        """
        coming = iter(orders)
        cases: list[_OpenCase] = []
        try:
            while True:
                self._compile(cases, coming)
                if not cases:
                    return
                waiting = [case for case in cases if case.state is LaunchState.READY]
                for number, case in enumerate(waiting, start=1):
                    self._notify(CaseSampling(case=case.case))
                    case.session.sample(num_neighbours=len(waiting) - number)
                    case.state = LaunchState.ENDED
                    if not case.session.needs_launch:
                        yield self._finish(cases, case)
                for case in [case for case in cases if not case.session.needs_launch]:
                    yield self._finish(cases, case)
        finally:
            for case in cases:
                self._release(case)

    def measure_alone(self, order: CaseOrder) -> CaseResult:
        """Return the result of a case while no other launch exists; raise ExecutorError."""
        (result,) = self.measure([order])
        return result

    def _compile(self, cases: list[_OpenCase], coming: Iterator[CaseOrder | None]) -> None:
        """Start launches until each waits for its turn or is over, and no more can start.

        New cases come first: their cache is empty, so they take longest.
        """
        due = list(cases)
        free = list(self._core_groups)
        compiling: list[tuple[_OpenCase, frozenset[int]]] = []
        shown: tuple[Case, ...] = ()
        while True:
            while free and (case := self._begin(cases, coming) or (due.pop(0) if due else None)):
                cores = free.pop(0)
                case.session.start(cores)
                case.state = LaunchState.COMPILING
                compiling.append((case, cores))
            if not compiling:
                return
            if (cases_at_work := tuple(case.case for case, _cores in compiling)) != shown:
                shown = cases_at_work
                self._notify(CasesCompiling(cases=shown))
            for case, _cores in compiling:
                case.state = case.session.poll()
            over = [item for item in compiling if item[0].state is not LaunchState.COMPILING]
            for item in over:
                compiling.remove(item)
                free.append(item[1])
            if not over:
                self._pause()

    def _begin(
        self, cases: list[_OpenCase], coming: Iterator[CaseOrder | None]
    ) -> _OpenCase | None:
        if not self._free:
            return None
        order = next(coming, None)
        if order is None:
            return None
        lane = self._free.pop(0)
        try:
            case = _OpenCase(case=order.case, lane=lane, session=lane.begin(order))
        except BaseException:
            self._free.append(lane)
            raise
        cases.append(case)
        return case

    def _finish(self, cases: list[_OpenCase], case: _OpenCase) -> CaseResult:
        result = case.session.finish()
        cases.remove(case)
        self._release(case)
        return result

    def _release(self, case: _OpenCase) -> None:
        case.session.close()
        self._free.append(case.lane)
