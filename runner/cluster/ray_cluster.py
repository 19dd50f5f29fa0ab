"""A Ray cluster as the machines of a run. The only module that knows Ray.

A node offers a device by the custom resource `hud-cpu` or `hud-cuda`. Its name in results is the
label `hud-machine`, else its host name. A case is a task for a chosen node that requests this
resource and a GPU or a CPU. Ray retries no task: only the run knows the state of a case.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import ray
from ray.exceptions import RayError, RuntimeEnvSetupError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from compile_hud.runner.cluster.api import Logs, Reply, Setup, Slot, Status, Task
from compile_hud.runner.cluster.node import serve_with_logs
from compile_hud.runner.errors import ExecutorError

MACHINE_LABEL = "hud-machine"


def resource_of(device: str) -> str:
    """Return the name of the resource that a node with `device` offers."""
    return f"hud-{device}"


class RayCluster:
    """A Cluster whose machines are the nodes of a Ray cluster that offer `device`.

    It is the cluster that RAY_ADDRESS names, else the one on this machine. Tasks run under
    `environment`, a Ray runtime environment; its Python is the toolchain then.
    """

    def __init__(self, *, device: str, environment: Mapping[str, Any]) -> None:
        self._device = device
        self._environment = dict(environment)
        # Ray's iterator over the logs and the reply of each task.
        self._outputs: dict[Slot, Any] = {}

    def open(self) -> None:
        """Connect; raise ExecutorError."""
        try:
            ray.init(
                # Ray itself reads RAY_ADDRESS, before it looks for a cluster on this machine.
                address="auto",
                runtime_env=self._environment or None,
                # Ray logs the output of workers on their nodes.
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except (OSError, RayError, RuntimeError, TypeError, ValueError) as error:
            address = os.environ.get("RAY_ADDRESS") or "auto"
            raise ExecutorError(
                f"no Ray cluster at {address}: {_first_line(error)}."
                " `ray start --head` starts one, RAY_ADDRESS names another",
                address=address,
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

    def submit(self, task: Task | None, *, slot: Slot, setup: Setup) -> None:
        """Begin a case on `slot`, or without one the query of the device's facts."""
        is_gpu = self._device == "cuda"
        served = ray.remote(serve_with_logs).options(
            num_returns="streaming",
            name="hud" if task is None else f"hud {task.orders[0].case.key}",
            num_cpus=0 if is_gpu else 1,
            num_gpus=1 if is_gpu else 0,
            resources={resource_of(self._device): 1},
            scheduling_strategy=NodeAffinitySchedulingStrategy(slot.node_id, soft=False),
            # A retried task loses as many outputs as its first attempt gave, the reply among them.
            max_retries=0,
        )
        self._outputs[slot] = served.remote(task, setup=setup)

    def wait(self, *, limit_s: float) -> Sequence[tuple[Slot, Logs | Reply]]:
        """Return the next outputs of tasks, after `limit_s` seconds at most."""
        if not self._outputs:
            time.sleep(limit_s)
            return []
        slots = {output: slot for slot, output in self._outputs.items()}
        ready, _ = ray.wait(list(slots), num_returns=1, timeout=limit_s)
        return [(slots[output], self._receive(slots[output])) for output in ready]

    def cancel(self, slot: Slot) -> None:
        """Kill the task on `slot` with all its processes; it gives no reply."""
        # A worker that waits for its host reacts to nothing but SIGKILL. The host then sees the end
        # of its standard input and kills its children.
        ray.cancel(self._outputs.pop(slot), force=True)

    def close(self) -> None:
        """Kill the running tasks and disconnect."""
        for slot in list(self._outputs):
            self.cancel(slot)
        ray.shutdown()

    def _receive(self, slot: Slot) -> Logs | Reply:
        """Receive the next output of a task."""
        output: Logs | Reply
        try:
            output = ray.get(next(self._outputs[slot]))
        except RuntimeEnvSetupError as error:
            reason = f"its runtime environment cannot be made: {_first_line(error)}"
            output = Reply(status=Status.UNUSABLE, reason=reason)
        except RayError as error:
            output = Reply(status=Status.GONE, reason=_first_line(error))
        if isinstance(output, Reply):
            del self._outputs[slot]
        return output


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0].rstrip(".")
