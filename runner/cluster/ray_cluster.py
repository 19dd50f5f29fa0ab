"""A Ray cluster as the machines of a run. The only module that knows Ray.

A node offers a device by the custom resource `hud-cpu` or `hud-cuda`. Its name in results is the
label `hud-machine`, else its host name. A case is a task for a chosen node that requests this
resource and a GPU or a CPU. Ray retries no task: only the run knows the state of a case.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayError, RuntimeEnvSetupError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from compile_hud.db.jobs.live_log import LiveLog
from compile_hud.runner.cluster.api import Ended, Reply, Setup, Slot, Status
from compile_hud.runner.cluster.node import serve_with_logs
from compile_hud.runner.errors import ExecutorError
from compile_hud.runner.execution.executor import CaseOrder

MACHINE_LABEL = "hud-machine"


def resource_of(device: str) -> str:
    """Return the name of the resource that a node with `device` offers."""
    return f"hud-{device}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """A task of a run (empty for none); `output` is Ray's iterator over its logs and reply."""

    output: Any
    run_id: str


class RayCluster:
    """A Cluster whose machines are the nodes of a Ray cluster that offer `device`.

    `address` is Ray's own (`host:port`, `auto` for the one on this machine). Tasks run under
    `environment`, a Ray runtime environment; its Python is the toolchain then.
    """

    def __init__(self, *, address: str, device: str, environment: Mapping[str, Any]) -> None:
        self._address = address
        self._device = device
        self._environment = dict(environment)
        self._numbers = itertools.count()
        self._tasks: dict[str, _Task] = {}
        self._logs: dict[str, LiveLog] = {}

    def open(self) -> None:
        """Connect; raise ExecutorError."""
        try:
            ray.init(
                address=self._address,
                runtime_env=self._environment or None,
                # Ray logs the output of workers on their nodes.
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except (OSError, RayError, RuntimeError, TypeError, ValueError) as error:
            raise ExecutorError(
                f"no Ray cluster at {self._address}: {_first_line(error)}."
                " `ray start --head` starts one, RAY_ADDRESS names another",
                address=self._address,
            ) from error

    def slots(self) -> tuple[Slot, ...]:
        """Return a slot for each node that is alive and offers the device."""
        resource = resource_of(self._device)
        return tuple(
            Slot(
                node_id=node["NodeID"],
                machine=node["Labels"].get(MACHINE_LABEL) or node["NodeManagerHostname"],
            )
            for node in ray.nodes()
            if node["Alive"] and node["Resources"].get(resource, 0) >= 1
        )

    def submit(self, order: CaseOrder | None, *, slot: Slot, setup: Setup) -> str:
        """Begin a case, or without one the device's facts, on `slot`; return the task's name."""
        is_gpu = self._device == "cuda"
        task = ray.remote(serve_with_logs).options(
            num_returns="streaming",
            name="hud" if order is None else f"hud {order.case.key}",
            num_cpus=0 if is_gpu else 1,
            num_gpus=1 if is_gpu else 0,
            resources={resource_of(self._device): 1},
            scheduling_strategy=NodeAffinitySchedulingStrategy(slot.node_id, soft=False),
            max_retries=0,
        )
        name = f"task-{next(self._numbers)}"
        run_id = "" if order is None else order.run_id
        self._tasks[name] = _Task(output=task.remote(order, setup=setup), run_id=run_id)
        return name

    def wait(self, *, limit_s: float) -> Sequence[Ended]:
        """Return the tasks that ended, after `limit_s` seconds at most; each once."""
        if not self._tasks:
            time.sleep(limit_s)
            return []
        names = {task.output: name for name, task in self._tasks.items()}
        ready, _ = ray.wait(list(names), num_returns=1, timeout=limit_s)
        outputs = [self._receive(names[ref]) for ref in ready]
        return [ended for ended in outputs if ended is not None]

    def log_of(self, run_id: str) -> LiveLog | None:
        """Return the newest log of the case that a run measures; may be called from any thread."""
        return self._logs.get(run_id)

    def cancel(self, task: str) -> None:
        """Kill a task with all its processes; it gives no reply."""
        # A worker that waits for its host reacts to nothing but SIGKILL. The host then sees the end
        # of its standard input and kills its children.
        ray.cancel(self._forget(task).output, force=True)

    def close(self) -> None:
        """Kill the running tasks and disconnect."""
        for task in list(self._tasks):
            self.cancel(task)
        ray.shutdown()

    def _receive(self, name: str) -> Ended | None:
        """Receive the next output of a task; return its reply where it has ended."""
        task = self._tasks[name]
        try:
            output: LiveLog | Reply = ray.get(next(task.output))
        except RuntimeEnvSetupError as error:
            reason = f"its runtime environment cannot be made: {_first_line(error)}"
            output = Reply(status=Status.UNUSABLE, reason=reason)
        except RayError as error:
            self._forget(name)
            return Ended(task=name, reason=_first_line(error))
        if isinstance(output, LiveLog):
            self._logs[task.run_id] = output
            return None
        self._forget(name)
        return Ended(task=name, reply=output)

    def _forget(self, name: str) -> _Task:
        task = self._tasks.pop(name)
        self._logs.pop(task.run_id, None)
        return task


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].rstrip(".")
