"""Confirm a regression on the cluster machine that measured it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from typing import Any

from compile_hud.db.records.results import CaseResult
from compile_hud.runner.cluster.api import (
    POLL_INTERVAL_S,
    Nodes,
    Reply,
    Status,
    Task,
    connection,
)
from compile_hud.runner.errors import ExecutorError
from compile_hud.runner.execution.executor import CaseOrder, CaseSession, CompileLane
from compile_hud.runner.format import clock
from compile_hud.runner.protocol.graphs import CapturedCase

# Limit of the wait for another run. A suspect is worth minutes; its alert exists without them too.
BUSY_LIMIT_S = 600.0


class NodeExecutor:
    """An Executor whose cases run on one machine of a cluster, under the machine's own lock."""

    def __init__(self, nodes: Nodes, *, now: Callable[[], datetime]) -> None:
        self._nodes = nodes
        self._cluster = nodes.cluster
        self._now = now
        self._is_cancelled = False
        self._connection = ExitStack()

    def start(self) -> None:
        """Connect; raise ExecutorError."""
        self._connection.enter_context(connection(self._cluster))

    def open(self) -> Mapping[str, Any]:
        """Return the environment facts of the machine; raise ExecutorError when it is not there."""
        (facts,) = self._ask(None).facts
        return facts

    def execute(self, order: CaseOrder) -> CaseResult:
        """Return the result of the case; raise ExecutorError when the machine is gone."""
        (result,) = self._ask(order).results
        return result

    def begin(self, order: CaseOrder) -> CaseSession:
        """Raise ExecutorError: launches on another machine are not interleaved."""
        raise self._error(f" measures {order.case.key} as a whole")

    def open_lanes(self, number: int, *, cores_each: int) -> Sequence[CompileLane]:
        """Return no lanes: launches on another machine cannot wait for each other."""
        del number, cores_each
        return ()

    def graphs(self, order: CaseOrder) -> CapturedCase:
        """Raise ExecutorError: graphs are captured on the machine that has the model."""
        raise self._error(f" captures no graphs of {order.case.key}")

    def cancel(self) -> None:
        """Cancel the running case, which then ends with ExecutorError."""
        self._is_cancelled = True

    def close(self) -> None:
        """Kill running tasks and disconnect."""
        self._connection.close()

    def _ask(self, order: CaseOrder | None) -> Reply:
        """Return the machine's answer, once no other run measures there; raise ExecutorError."""
        busy_until = self._now() + timedelta(seconds=BUSY_LIMIT_S)
        while (reply := self._ask_once(order)).status is Status.BUSY and self._now() < busy_until:
            continue
        if reply.status is Status.DONE:
            return reply
        failure = "did not answer" if reply.status is Status.GONE else "cannot measure"
        raise self._error(f" {failure}: {reply.reason}", reason=reply.reason)

    def _ask_once(self, order: CaseOrder | None) -> Reply:
        slot = next(iter(self._nodes.slots()), None)
        if slot is None:
            raise self._error(" is not in the cluster now")
        limit_s = self._nodes.setup.limit_s(0.0 if order is None else order.settings.timeout_s)
        until = self._now() + timedelta(seconds=limit_s)
        task = None if order is None else Task(orders=(order,))
        self._cluster.submit(task, slot=slot, setup=self._nodes.setup)
        while not self._is_cancelled and self._now() < until:
            for _, output in self._cluster.wait(limit_s=POLL_INTERVAL_S):
                if isinstance(output, Reply):
                    return output
        self._cluster.cancel(slot)
        reason = "stopped" if self._is_cancelled else f"no answer within {clock(limit_s)}"
        raise self._error(f": {reason}", reason=reason)

    def _error(self, text: str, **parameters: str) -> ExecutorError:
        machine = self._nodes.machine
        return ExecutorError(f"machine {machine}{text}", machine=machine, **parameters)
