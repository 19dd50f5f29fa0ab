"""Confirm a regression on the cluster machine that measured it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from typing import Any

from compile_hud.db.records.results import CaseResult
from compile_hud.runner.cluster.api import Cluster, Ended, Reply, Setup, Slot, Status, connection
from compile_hud.runner.cluster.coordinator import POLL_INTERVAL_S, SETUP_LIMIT_S
from compile_hud.runner.errors import ExecutorError
from compile_hud.runner.execution.executor import CaseOrder, CaseSession, CompileLane
from compile_hud.runner.execution.retries import MAX_ATTEMPTS
from compile_hud.runner.format import clock
from compile_hud.runner.protocol.messages import LaunchReport

# Limit of the wait for another run. A suspect is worth minutes; its alert exists without them too.
BUSY_LIMIT_S = 600.0


class NodeExecutor:
    """An Executor whose cases run on one machine of a cluster, under the machine's own lock."""

    def __init__(
        self, cluster: Cluster, *, machine: str, setup: Setup, now: Callable[[], datetime]
    ) -> None:
        self._cluster = cluster
        self._machine = machine
        self._setup = setup
        self._now = now
        self._is_cancelled = False
        self._connection = ExitStack()

    def start(self) -> None:
        """Connect; raise ExecutorError."""
        self._connection.enter_context(connection(self._cluster))

    def open(self) -> Mapping[str, Any]:
        """Return the environment facts of the machine; raise ExecutorError when it is not there."""
        return self._ask(None).facts

    def begin(self, order: CaseOrder) -> CaseSession:
        """Return a session whose single launch measures the whole case."""
        return _NodeSession(order, measure=self._measure)

    def execute(self, order: CaseOrder) -> CaseResult:
        """Return the result of the case; raise ExecutorError when the machine is gone."""
        return self._measure(order)

    def open_lanes(self, number: int, *, cores_each: int) -> Sequence[CompileLane]:
        """Return no lanes: launches on another machine cannot wait for each other."""
        del number, cores_each
        return ()

    def script(self, order: CaseOrder) -> str:
        """Raise ExecutorError: scripts are written on the machine that has the model."""
        raise ExecutorError(
            f"{self._machine} writes no script of {order.case.key}", machine=self._machine
        )

    def cancel(self) -> None:
        """Cancel the running case, which then ends with ExecutorError."""
        self._is_cancelled = True

    def close(self) -> None:
        """Kill running tasks and disconnect."""
        self._connection.close()

    def _measure(self, order: CaseOrder) -> CaseResult:
        result = self._ask(order).result
        assert result is not None
        return result

    def _ask(self, order: CaseOrder | None) -> Reply:
        """Return the machine's answer, once no other run measures there; raise ExecutorError."""
        busy_until = self._now() + timedelta(seconds=BUSY_LIMIT_S)
        while (reply := self._ask_once(order)).status is Status.BUSY and self._now() < busy_until:
            continue
        if reply.status is not Status.DONE:
            raise ExecutorError(
                f"machine {self._machine} cannot measure: {reply.reason}",
                machine=self._machine,
                reason=reply.reason,
            )
        return reply

    def _ask_once(self, order: CaseOrder | None) -> Reply:
        limit_s = SETUP_LIMIT_S + self._setup.wait_idle_s
        if order is not None:
            limit_s += MAX_ATTEMPTS * order.settings.timeout_s
        task = self._cluster.submit(order, slot=self._slot(), setup=self._setup)
        until = self._now() + timedelta(seconds=limit_s)
        ended: Ended | None = None
        while ended is None and not self._is_cancelled and self._now() < until:
            ended = next(iter(self._cluster.wait(limit_s=POLL_INTERVAL_S)), None)
        if ended is None:
            self._cluster.cancel(task)
            reason = "stopped" if self._is_cancelled else f"no answer within {clock(limit_s)}"
            raise ExecutorError(
                f"machine {self._machine}: {reason}", machine=self._machine, reason=reason
            )
        if ended.reply is None:
            raise ExecutorError(
                f"machine {self._machine} did not answer: {ended.reason}",
                machine=self._machine,
                reason=ended.reason,
            )
        return ended.reply

    def _slot(self) -> Slot:
        for slot in self._cluster.slots():
            if slot.machine == self._machine:
                return slot
        raise ExecutorError(
            f"machine {self._machine} is not in the cluster now", machine=self._machine
        )


class _NodeSession:
    """One case on the machine; a further launch measures the whole case once more."""

    def __init__(self, order: CaseOrder, *, measure: Callable[[CaseOrder], CaseResult]) -> None:
        self._order = order
        self._measure = measure
        self._result: CaseResult | None = None

    @property
    def needs_launch(self) -> bool:
        """Return whether nothing was measured yet."""
        return self._result is None

    @property
    def has_time(self) -> bool:
        """Return True: each launch has a time limit of its own."""
        return True

    def launch(self) -> LaunchReport:
        """Measure the case; raise ExecutorError."""
        self._result = self._measure(self._order)
        return LaunchReport(outcome=self._result.outcome, reason=self._result.reason)

    def finish(self) -> CaseResult:
        """Return the latest result."""
        assert self._result is not None
        return self._result

    def close(self) -> None:
        """Do nothing: the machine has removed the files of the case."""
