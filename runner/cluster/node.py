"""A node of the cluster: it measures cases as `hud run` does on its own machine.

A process of the node executes many tasks, one at a time, and reuses the worker host of each
interpreter. The hosts and their children end with that process in any case.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from compile_hud.db.jobs.live_log import find_live_log
from compile_hud.db.records.json_fields import SCHEMA_VERSION
from compile_hud.db.shared.trace_paths import trace_name
from compile_hud.runner.cluster.api import Logs, Reply, Setup, Status, Task
from compile_hud.runner.errors import DeviceUnavailable, ExecutorError, LockUnavailable
from compile_hud.runner.execution.device_idle import wait_until_idle
from compile_hud.runner.execution.local_executor import LocalExecutor
from compile_hud.runner.execution.paired_launches import PairSide
from compile_hud.runner.persistence.spool import utc_now
from compile_hud.runner.protocol.messages import PROTOCOL_VERSION
from compile_hud.runner.system.gpus import users_of
from compile_hud.runner.system.locks import machine_lock_dir, patient_lock
from compile_hud.runner.system.machine import LocalMachine

# After this time the driver learns that the machine is busy, and may reassign the case.
LOCK_LIMIT_S = 60.0
# Seconds between two uploads of a case's log: some kilobytes, for people who watch a run.
LOG_INTERVAL_S = 5.0
# 1: a task had one order. 2: it has one for each toolchain.
_TASK_VERSION = 2
# Runner and nodes exchange records of these versions.
RELEASE = f"protocol {PROTOCOL_VERSION}, schema {SCHEMA_VERSION}, tasks {_TASK_VERSION}"


def serve(task: Task | None, *, setup: Setup) -> Reply:
    """Return the results of the case in `task`; without one, the facts of the device."""
    if setup.release != RELEASE:
        reason = f"it speaks {RELEASE}, the runner {setup.release}: install the same release"
        return Reply(status=Status.UNUSABLE, reason=reason)
    lock = machine_lock_dir(os.environ) / f"device-{setup.device}.lock"
    try:
        with patient_lock(lock, limit_s=LOCK_LIMIT_S) as is_locked:
            if not is_locked:
                return Reply(status=Status.BUSY, reason="another run measures there")
            # Executors are cached per GPU: the first case on a GPU starts their processes.
            executors, facts = _open(setup, os.environ.get("CUDA_VISIBLE_DEVICES", ""))
            return facts if task is None else _measure(task, executors=executors)
    except (ExecutorError, LockUnavailable) as error:
        return Reply(status=Status.UNUSABLE, reason=str(error))


def serve_with_logs(
    task: Task | None, *, setup: Setup, every_s: float = LOG_INTERVAL_S
) -> Iterator[Logs | Reply]:
    """Yield the newest logs of the case at intervals, and at the end the reply of `serve`."""
    orders = () if task is None else task.orders
    with ThreadPoolExecutor(max_workers=1) as thread:
        reply = thread.submit(serve, task, setup=setup)
        while wait([reply], timeout=every_s).not_done:
            logs = tuple(find_live_log(state_dir(os.environ), order.run_id) for order in orders)
            if any(logs):
                yield logs
        yield reply.result()


def _measure(task: Task, *, executors: Sequence[LocalExecutor]) -> Reply:
    sides = [
        PairSide(executor=executor, order=order)
        for executor, order in zip(executors, task.orders, strict=True)
    ]
    try:
        results = tuple(task.measure(sides))
    except DeviceUnavailable as error:
        return Reply(status=Status.UNUSABLE, reason=str(error))
    traces = tuple(_take_trace(result.id) for result in results)
    return Reply(status=Status.DONE, results=results, traces=traces)


@cache
def _open(setup: Setup, visible_devices: str) -> tuple[tuple[LocalExecutor, ...], Reply]:
    """Return the executors of this process, and the reply with their facts; opened once."""
    del visible_devices  # Ray chooses the device, and the worker host inherits it.
    users = wait_until_idle(
        setup.device,
        users=lambda device: users_of(device, machine=LocalMachine(), env=os.environ),
        limit_s=setup.wait_idle_s,
        now=utc_now,
        sleep=time.sleep,
        # The reply carries the users, and a node has no terminal.
        notify=lambda _event: None,
    )
    with ExitStack() as stack:
        executors, facts = [], []
        for python in setup.pythons:
            executor = LocalExecutor(
                python=Path(python or sys.executable),
                state_dir=state_dir(os.environ),
                device=setup.device,
                num_threads=setup.num_threads,
            )
            stack.callback(executor.close)
            executors.append(executor)
            # One after the other: imports of the next would disturb the peaks.
            facts.append(executor.open())
        stack.pop_all()
        return tuple(executors), Reply(status=Status.DONE, facts=tuple(facts), users=users)


def state_dir(env: Mapping[str, str]) -> Path:
    """Return the folder for the compile caches and logs of a node."""
    named = env.get("HUD_STATE_DIR")
    return Path(named) if named else Path.home() / ".cache" / "compile-hud"


def _take_trace(result_id: str) -> bytes:
    """Return and delete the trace of a result; the driver stores it."""
    name = trace_name(result_id)
    path = state_dir(os.environ) / "spool" / str(name)
    if name is None or not path.is_file():
        return b""
    content = path.read_bytes()
    path.unlink()
    return content
