"""The step `counters`: hardware and software events during iterations of the variant.

The step is optional: where the kernel, the container or the machine refuses, metrics are missing
and the details give the reason. It has its own loop after the samples, in the calling thread,
pinned to one core.
"""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from compile_hud.db.shared.text import counted
from compile_hud.runner.measure.context import Context, Forward
from compile_hud.runner.measure.latency.timing import garbage_collection_paused
from compile_hud.runner.measure.resources.cpu_counters import (
    HARDWARE,
    SOFTWARE,
    CounterEvent,
    CounterGroup,
    CounterReading,
    LinuxPerf,
    PerfInterface,
    open_group,
    read_paranoid,
    refusal_reason,
    unavailable_reason,
)

NUM_SAMPLES = 5
# A sample of the counters lasts about this long, so that the cost of opening and reading is small.
SAMPLE_S = 0.005
# A slow model needs no more samples: counts hardly differ from one iteration to the next.
BUDGET_S = 0.3
METRICS = ("instructions", "cycles", "cache_misses", "page_faults")
ONE_THREAD = "counted on a CPU with one thread only: the counters are those of the calling thread"


def report_counters(
    context: Context, forward: Forward, *, kernel: PerfInterface | None = None
) -> None:
    """Record the counts of an iteration through `forward`, and the reasons of missing ones."""
    device, findings = context.device, context.findings
    details: dict[str, Any] = {"missing": {}, "per_iteration": {}}
    findings.details["counters"] = details
    if device.is_cuda or device.num_threads != 1:
        details["missing"] = {event.name: ONE_THREAD for event in (*HARDWARE, *SOFTWARE)}
        return
    kernel = kernel or LinuxPerf()
    latency_s = statistics.median(findings.metrics["latency_s"].samples)
    num_iterations = max(1, round(SAMPLE_S / latency_s))
    num_samples = max(1, min(NUM_SAMPLES, int(BUDGET_S / (num_iterations * latency_s))))
    details["iterations_per_sample"] = num_iterations
    with device.pinned(), garbage_collection_paused(), contextlib.ExitStack() as opened:
        groups: list[tuple[CounterGroup, list[CounterEvent]]] = []
        for events in (HARDWARE, SOFTWARE):
            countable = _countable(events, kernel=kernel, missing=details["missing"])
            group = _open(countable, kernel=kernel, missing=details["missing"])
            if group is not None:
                groups.append((opened.enter_context(contextlib.closing(group)), countable))
        if not groups:
            return
        step = context.step(forward)
        step()
        samples = [
            _count(step, [group for group, _ in groups], num_iterations=num_iterations)
            for _ in range(num_samples)
        ]
    for (_, countable), readings in zip(groups, zip(*samples, strict=True), strict=True):
        _keep(context, readings, events=countable, num_iterations=num_iterations)


def _countable(
    events: Sequence[CounterEvent], *, kernel: PerfInterface, missing: dict[str, str]
) -> list[CounterEvent]:
    """Return the countable events; add the reasons of the others to `missing`."""
    refusals = {event: unavailable_reason(event, kernel=kernel) for event in events}
    missing.update({event.name: why for event, why in refusals.items() if why})
    return [event for event, why in refusals.items() if not why]


def _open(
    events: Sequence[CounterEvent], *, kernel: PerfInterface, missing: dict[str, str]
) -> CounterGroup | None:
    """Return `events` as a group; None without any, or if they cannot be counted together."""
    if not events:
        return None
    try:
        return open_group(events, kernel=kernel)
    except OSError as error:
        # Each event can be counted alone: the processor has few counters, or shares them.
        why = refusal_reason(error, paranoid=read_paranoid())
        missing.update({event.name: why for event in events})
        return None


def _count(
    step: Callable[[], object], groups: Sequence[CounterGroup], *, num_iterations: int
) -> list[tuple[CounterReading, CounterReading]]:
    """Return the readings of each group before and after the iterations of one sample."""
    before = [group.read() for group in groups]
    for _ in range(num_iterations):
        step()
    return [(first, group.read()) for first, group in zip(before, groups, strict=True)]


def _keep(
    context: Context,
    readings: Sequence[tuple[CounterReading, CounterReading]],
    *,
    events: Sequence[CounterEvent],
    num_iterations: int,
) -> None:
    details = context.findings.details["counters"]
    shares = [share_counted(before, after) for before, after in readings]
    if not all(shares):
        why = "its turn never came: something else uses the counters (a profiler, the watchdog)"
        details["missing"].update({event.name: why for event in events})
        return
    method = f"perf_event_open around {counted(num_iterations, 'iteration')}, this thread"
    if min(shares) < 1:
        method += f"; counted {min(shares):.0%} of the time or more and scaled up"
    for index, event in enumerate(events):
        samples = tuple(
            (after.values[index] - before.values[index]) / share / num_iterations
            for (before, after), share in zip(readings, shares, strict=True)
        )
        details["per_iteration"][event.name] = statistics.median(samples)
        if event.name in METRICS:
            context.findings.add(event.name, samples, method=method)


def share_counted(before: CounterReading, after: CounterReading) -> float:
    """Return the share of the time between two readings in which the group really counted."""
    enabled_ns = after.enabled_ns - before.enabled_ns
    running_ns = after.running_ns - before.running_ns
    return running_ns / enabled_ns if enabled_ns > 0 else 0.0
