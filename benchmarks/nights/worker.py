"""A worker host without torch: it speaks the protocol of the real one and forks a child a launch.

It is the toolchain of the simulation, so that thirty nights take minutes; the processes are real.
"""

from __future__ import annotations

import json
import os
import random
import resource
import select
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from benchmarks.nights.faults import Fault, Faults, meet, of_environment
from compile_hud.db.records.results import Outcome
from compile_hud.runner.protocol.files import write_json
from compile_hud.runner.protocol.messages import PROTOCOL_VERSION, LaunchReport, RawMetric

FACTS = {
    "torch_version": "2.13.0",
    "torch_git": "0123456789abcdef",
    "python_version": "3.11.0",
    "device_name": "Simulated CPU",
    "cpu_model": "Simulated CPU",
    "num_cpus": 1,
    "hostname": "simulated",
}
LATENCY_S = 0.010
# A slow night is far above the floor and the noise.
SLOWDOWN = 1.3
SPREAD = 0.004
MEMORY_LIMIT_BYTES = 1 << 28
DEVICE_LOST_REASON = "the step warm_up failed: CUDA error: GPU is lost"


def main() -> None:
    """Serve orders until standard input ends."""
    _answer({"event": "ready", "protocol_version": PROTOCOL_VERSION})
    buffered = b""
    while True:
        while b"\n" not in buffered:
            data = os.read(0, 65536)
            if not data:
                return
            buffered += data
        line, buffered = buffered.split(b"\n", 1)
        order = json.loads(line)
        if order["action"] == "cancel":
            return
        child = os.fork()
        if child == 0:
            _live(order)
        ending = _wait(child, timeout_s=float(order["timeout_s"]))
        _answer({"event": "exited", "ending": ending, "was_oom_killed": False})
        if ending == "cancelled":
            return


def _answer(document: dict[str, Any]) -> None:
    os.write(1, json.dumps(document).encode() + b"\n")


def _live(order: Mapping[str, Any]) -> NoReturn:
    """Run as the child: never return into the host, not even from a full disk."""
    status = 1
    try:
        _obey(order)
        status = 0
    finally:
        os._exit(status)


def _obey(order: Mapping[str, Any]) -> None:
    faults = of_environment()
    if order["action"] == "facts":
        if order["device"] == "cuda" and faults.has(Fault.DEVICE_LOST):
            Path(order["log_path"]).write_text(DEVICE_LOST_REASON, encoding="ascii")
            return
        write_json(Path(order["report_path"]), FACTS)
    elif order["action"] == "peaks":
        write_json(Path(order["report_path"]), {})
    elif order["action"] == "launch":
        request = order["request"]
        report = _launch(request["case"], faults)
        write_json(Path(request["report_path"]), report.to_json())


def _launch(case: Mapping[str, Any], faults: Faults) -> LaunchReport:
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES))
    model = case["model"]
    try:
        meet(model, faults)
    except MemoryError:
        return LaunchReport(outcome=Outcome.OUT_OF_MEMORY, reason="MemoryError")
    if case["device"] == "cuda" and faults.has(Fault.DEVICE_LOST):
        return LaunchReport(outcome=Outcome.FAILED, reason=DEVICE_LOST_REASON)
    level_s = LATENCY_S * (SLOWDOWN if model == "steady" and faults.has(Fault.SLOWER) else 1.0)
    samples = tuple(level_s * random.gauss(1.0, SPREAD) for _ in range(5))
    return LaunchReport(
        outcome=Outcome.OK, metrics={"latency_s": RawMetric(samples=samples, method="simulated")}
    )


def _wait(child: int, *, timeout_s: float) -> str:
    """Wait for the child and return its outcome; kill it when it is late or the runner is gone."""
    watch = os.pidfd_open(child)
    deadline_s = time.monotonic() + timeout_s
    ready, _, _ = select.select([watch, 0], [], [], max(0.0, deadline_s - time.monotonic()))
    os.close(watch)
    if not ready or 0 in ready:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not ready:
        return "timeout"
    if 0 in ready:
        return "cancelled"
    return f"exit {os.waitstatus_to_exitcode(status)}"


if __name__ == "__main__":
    main()
    sys.stderr.flush()
    os._exit(0)
