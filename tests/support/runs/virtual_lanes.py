"""Lanes whose launches only say how long they take, on a clock of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from compile_hud.db.records.results import SAME_CODE_AS, Case, CaseResult, Outcome
from compile_hud.runner.execution.executor import CaseOrder, LaunchState
from tests.support.builders import make_measurement, make_result


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCost:
    """Seconds of a launch before its turn, and on the device alone.

    A launch with `ends_early` is over once it has compiled, and gets no turn.
    """

    compile_s: float
    device_s: float
    ends_early: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The part of a launch between two times."""

    case_key: str
    kind: str
    cores: frozenset[int]
    start_s: float
    end_s: float


class VirtualClock:
    """A clock that moves when the scheduler pauses, to the next launch that has compiled."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.ready_at_s: dict[int, float] = {}
        self.spans: list[Span] = []

    @property
    def device_s(self) -> float:
        """Return the seconds in which the device was used."""
        return sum(span.end_s - span.start_s for span in self.spans if span.kind == "sample")

    def pause(self) -> None:
        """Move to the time at which the next launch has compiled."""
        self.now_s = max(self.now_s, min(self.ready_at_s.values()))


def _no_outcome(_order: CaseOrder) -> Outcome:
    return Outcome.OK


class VirtualLane:
    """A CompileLane whose launches take the seconds that `costs` has for the key of a case."""

    def __init__(
        self,
        clock: VirtualClock,
        costs: Mapping[str, Sequence[LaunchCost]],
        *,
        outcome_of: Callable[[CaseOrder], Outcome] = _no_outcome,
    ) -> None:
        self.clock = clock
        self.costs = costs
        self.outcome_of = outcome_of
        self.is_closed = False
        self.num_open = 0
        self.neighbours: list[int] = []

    def begin(self, order: CaseOrder) -> VirtualSession:
        """Return a session of the case; the lane has one at a time."""
        assert self.num_open == 0
        self.num_open += 1
        return VirtualSession(order, self)

    def close(self) -> None:
        """Record the call."""
        self.is_closed = True


class VirtualSession:
    """A LaneSession of simulated launches."""

    def __init__(self, order: CaseOrder, lane: VirtualLane) -> None:
        self._order = order
        self._lane = lane
        self._left = list(lane.costs[self._case.key])
        self._began_s = lane.clock.now_s
        self._cores: frozenset[int] = frozenset()
        self._is_closed = False

    @property
    def needs_launch(self) -> bool:
        """Return whether costs are left."""
        return bool(self._left)

    def start(self, cores: frozenset[int]) -> None:
        """Compile until the cost of the next launch is spent."""
        clock = self._lane.clock
        self._began_s, self._cores = clock.now_s, cores
        clock.ready_at_s[id(self)] = clock.now_s + self._left[0].compile_s

    def poll(self) -> LaunchState:
        """Return the state at the time of the clock."""
        clock = self._lane.clock
        if clock.ready_at_s[id(self)] > clock.now_s:
            return LaunchState.COMPILING
        self._note("compile", self._began_s, clock.ready_at_s.pop(id(self)))
        if self._left[0].ends_early:
            self._left.clear()
            return LaunchState.ENDED
        return LaunchState.READY

    def sample(self, *, num_neighbours: int) -> None:
        """Move the clock by the seconds on the device."""
        clock = self._lane.clock
        assert not clock.ready_at_s, "a launch compiles while another one samples"
        self._lane.neighbours.append(num_neighbours)
        start_s = clock.now_s
        clock.now_s += self._left.pop(0).device_s
        self._note("sample", start_s, clock.now_s)

    def finish(self) -> CaseResult:
        """Return a result with the outcome that the lane gives the case."""
        outcome = self._lane.outcome_of(self._order)
        return make_result(
            self._case.key,
            run_id=self._order.run_id,
            case=self._case,
            outcome=outcome,
            reason=f"{SAME_CODE_AS}default" if outcome is Outcome.SAME_CODE else "",
            measurements=(make_measurement(),) if outcome is Outcome.OK else (),
        )

    def close(self) -> None:
        """Free the lane."""
        if not self._is_closed:
            self._lane.num_open -= 1
        self._lane.clock.ready_at_s.pop(id(self), None)
        self._is_closed = True

    @property
    def _case(self) -> Case:
        return self._order.case

    def _note(self, kind: str, start_s: float, end_s: float) -> None:
        self._lane.clock.spans.append(
            Span(
                case_key=self._case.key, kind=kind, cores=self._cores, start_s=start_s, end_s=end_s
            )
        )
