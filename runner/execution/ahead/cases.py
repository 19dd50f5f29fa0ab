"""The cases of a run through the phases of compile ahead, with retries of each alone."""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from compile_hud.db.records.results import COMPILE_AHEAD, Case, CaseResult, Outcome
from compile_hud.db.shared.text import first_line
from compile_hud.runner.events import Notify
from compile_hud.runner.execution.ahead.cores import core_groups
from compile_hud.runner.execution.ahead.phases import LANES_PER_PROCESS, Phases
from compile_hud.runner.execution.executor import CaseOrder, Executor
from compile_hud.runner.execution.paired_launches import PairSide
from compile_hud.runner.execution.retries import is_infrastructure_failure, measure_with_retries

# A launch that has compiled waits this long at most until the scheduler sees it.
_POLL_S = 0.02
# Memory of the machine for each launch that waits; CUDA's libraries alone take gigabytes.
BYTES_PER_LANE = 4 << 30
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileAhead:
    """The phases of a run, and the executor that has their lanes."""

    executor: Executor
    phases: Phases
    num_processes: int
    cores_each: int

    def facts(self) -> dict[str, Any]:
        """Return the facts that compile times depend on, for the environment of the run."""
        return {
            COMPILE_AHEAD: {"processes": self.num_processes, "cores_each": self.cores_each},
        }

    def measure(
        self, orders: Iterable[CaseOrder | None], *, is_stopped: Callable[[], bool]
    ) -> Iterator[CaseResult]:
        """Yield the result of each case until `is_stopped`; raise what `measure_with_retries` does.

        A case that ran out of memory, or whose worker was killed, is measured again alone: the
        models of launches that waited may have left it too little. A case that was not sampled,
        since it has the code of another one, has its result once that one is ok. It is measured
        again if that one is not.
        """
        cases = _TakenCases()
        again: list[CaseResult] = []
        for result in self.phases.measure(cases.take(orders)):
            if is_stopped():
                return
            followers = cases.end(result)
            if _is_disturbed(result):
                # Other launches wait with their models until the end.
                again.extend((result, *followers))
                continue
            if not cases.defer(result):
                yield result
            if result.outcome is Outcome.OK:
                yield from followers
            else:
                again.extend(followers)
        for result in again:
            repeated = self._again(result, order=cases.order(result), is_stopped=is_stopped)
            if is_stopped():
                return
            yield repeated

    def _again(
        self, result: CaseResult, *, order: CaseOrder, is_stopped: Callable[[], bool]
    ) -> CaseResult:
        def measure_case(sides: Sequence[PairSide]) -> Sequence[CaseResult]:
            return [self.phases.measure_alone(side.order) for side in sides]

        (repeated,) = measure_with_retries(
            [PairSide(executor=self.executor, order=order)],
            measure_case=measure_case,
            is_stopped=is_stopped,
            earlier=(first_line(result.reason),) if _is_disturbed(result) else (),
        )
        return repeated


class _TakenCases:
    """The cases that began, and results that wait for the case whose code they have."""

    def __init__(self) -> None:
        self._orders: dict[str, CaseOrder] = {}
        self._open: dict[tuple[Case, str], str] = {}
        self._followers: defaultdict[str, list[CaseResult]] = defaultdict(list)

    def take(self, orders: Iterable[CaseOrder | None]) -> Iterator[CaseOrder | None]:
        """Yield each of `orders`, from then on as a case without a result."""
        for order in orders:
            if order is not None:
                self._orders[order.case.key] = order
                self._open[_subject(order.case), order.case.variant] = order.case.key
            yield order

    def order(self, result: CaseResult) -> CaseOrder:
        """Return the order of the case of `result`."""
        return self._orders[result.case.key]

    def end(self, result: CaseResult) -> list[CaseResult]:
        """Remove the case of `result`, and return the results that waited for it."""
        self._open.pop((_subject(result.case), result.case.variant), None)
        return self._followers.pop(result.case.key, [])

    def defer(self, result: CaseResult) -> bool:
        """Return whether `result` waits for the case whose code it has."""
        key = self._open.get((_subject(result.case), result.same_code_as))
        if key is not None:
            self._followers[key].append(result)
        return key is not None


def _is_disturbed(result: CaseResult) -> bool:
    return is_infrastructure_failure(result) or result.outcome is Outcome.OUT_OF_MEMORY


def longest_first(
    cases: Iterable[T], *, case_of: Callable[[T], Case], seconds: Mapping[str, float]
) -> list[T]:
    """Return reference cases, then the others by falling compile `seconds`.

    A long compilation at the end of a phase would leave the other cores idle. A case without a time
    follows the shortest other variant of its model: its code may be the same. Unknown models come
    before known ones.
    """
    items = list(cases)
    known: dict[Case, float] = {}
    for case in map(case_of, items):
        if case.key in seconds:
            subject = _subject(case)
            known[subject] = min(seconds[case.key], known.get(subject, math.inf))

    def turn(item: T) -> tuple[bool, float]:
        case = case_of(item)
        expected_s = seconds.get(case.key, known.get(_subject(case), math.inf))
        return (not case.is_reference, -expected_s)

    return sorted(items, key=turn)


def _subject(case: Case) -> Case:
    return replace(case, mode="", variant="", backend="")


def open_compile_ahead(
    executor: Executor,
    *,
    num_processes: int,
    notify: Notify,
    sleep: Callable[[float], None],
) -> CompileAhead | None:
    """Return the phases of `executor` with `num_processes`, None for 0 or without lanes."""
    if num_processes == 0:
        return None
    groups = core_groups(num_processes)
    cores_each = len(groups[0])
    num_lanes = max(num_processes, min(LANES_PER_PROCESS * num_processes, _memory_lanes()))
    lanes = executor.open_lanes(num_lanes, cores_each=cores_each)
    if not lanes:
        return None
    return CompileAhead(
        executor=executor,
        phases=Phases(lanes, core_groups=groups, pause=lambda: sleep(_POLL_S), notify=notify),
        num_processes=num_processes,
        cores_each=cores_each,
    )


def _memory_lanes() -> int:
    """Return the number of launches that the memory of this machine has room for."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // BYTES_PER_LANE
