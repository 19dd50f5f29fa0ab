"""A cluster of nodes whose behaviour a test sets."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

from compile_hud.db.jobs.live_log import LiveLog
from compile_hud.runner.cluster.api import Logs, Reply, Setup, Slot, Status, Task
from compile_hud.runner.execution.executor import CaseOrder
from compile_hud.runner.execution.paired_launches import MeasureCase
from tests.support.builders import make_measurement, make_result
from tests.support.fakes import FACTS, FakeClock

# A node answers, disconnects (None), or stays silent for ever.
SILENT = "silent"
Behaviour = Callable[[CaseOrder, Slot], Reply | None | str]


def measured(order: CaseOrder, slot: Slot) -> Reply:
    """Return the answer of a node that measured."""
    del slot
    result = make_result(
        uuid.uuid4().hex,
        run_id=order.run_id,
        case=order.case,
        measurements=(make_measurement(samples=[0.0099, 0.0100, 0.0101]),),
    )
    return Reply(status=Status.DONE, results=(result,), traces=(b"",))


class FakeCluster:
    """Nodes by name, each of which treats an order as `behave` says; a task takes a second.

    A disconnected node leaves; `arrivals` come after a number of tasks.
    """

    def __init__(
        self,
        *machines: str,
        clock: FakeClock,
        behave: Behaviour = measured,
        arrivals: dict[int, str] | None = None,
    ) -> None:
        self.present = [Slot(node_id=f"node-{name}", machine=name) for name in machines]
        self.behave = behave
        # The description of each node's device, for every interpreter; None for nodes without one.
        self.looks: dict[str, Reply | None] = {}
        # True lists disconnected nodes for ever.
        self.lists_the_gone = False
        self.on_submit: Callable[[], None] = lambda: None
        # The output of each case while it is measured; None for silent cases.
        self.log_of: Callable[[CaseOrder], LiveLog] | None = None
        self.assigned: list[tuple[str, str]] = []
        self.measures: list[MeasureCase] = []
        self.cancelled: list[str] = []
        self.is_open = False
        self._clock = clock
        self._arrivals = dict(arrivals or {})
        self._tasks: dict[Slot, Task | None] = {}
        self._logged: Task | None = None
        self.setup: Setup | None = None
        self._num_ended = 0

    def open(self) -> None:
        """Record the call."""
        self.is_open = True

    def slots(self) -> tuple[Slot, ...]:
        """Return the nodes that are connected."""
        return tuple(self.present)

    def submit(self, task: Task | None, *, slot: Slot, setup: Setup) -> None:
        """Record the call."""
        self.setup = setup
        assert slot not in self._tasks
        self.on_submit()
        self._tasks[slot] = task
        if task is not None:
            self.assigned.append((slot.machine, task.orders[0].case.model))
            self.measures.append(task.measure)

    def look(self, slot: Slot) -> Reply | None:
        """Return the answer of a node about its device."""
        return self.looks.get(slot.machine, Reply(status=Status.DONE, facts=(FACTS,)))

    def answer(self, task: Task, slot: Slot) -> Reply | None | str:
        """Return the answer of a node about a case."""
        (order,) = task.orders
        return self.behave(order, slot)

    def wait(self, *, limit_s: float) -> Sequence[tuple[Slot, Logs | Reply]]:
        """Return the output of the first task whose node is not silent."""
        for slot, task in list(self._tasks.items()):
            if task is None:
                reply = self.look(slot)
                if reply is None:
                    continue
                return self._end(slot, reply)
            if self.log_of is not None and self._logged is not task:
                self._logged = task
                return [(slot, tuple(map(self.log_of, task.orders)))]
            answer = self.answer(task, slot)
            if isinstance(answer, str):
                continue
            if answer is None and not self.lists_the_gone:
                self.present.remove(slot)
            return self._end(slot, answer or Reply(status=Status.GONE, reason="the node died"))
        self._clock.advance(limit_s)
        return []

    def cancel(self, slot: Slot) -> None:
        """Forget the task, and record its node."""
        del self._tasks[slot]
        self.cancelled.append(slot.machine)

    def close(self) -> None:
        """Record the call."""
        self.is_open = False

    def _end(self, slot: Slot, reply: Reply) -> Sequence[tuple[Slot, Reply]]:
        self._clock.advance(1)
        del self._tasks[slot]
        self._num_ended += 1
        if self._num_ended in self._arrivals:
            machine = self._arrivals.pop(self._num_ended)
            self.present.append(Slot(node_id=f"node-{machine}-{self._num_ended}", machine=machine))
        return [(slot, reply)]
