"""The steps `warm up` and `sample` of a launch: eager and variant interleaved."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from compile_hud.runner.measure.context import Context, Forward
from compile_hud.runner.measure.latency.conditions import conditions, look
from compile_hud.runner.measure.latency.machine_speed import open_speed_probe
from compile_hud.runner.measure.latency.timing import (
    Side,
    Timing,
    clock_name,
    headline,
    quiet_interpreter,
    sampling_details,
    take_samples,
    warm_up,
)
from compile_hud.runner.measure.resources.memory import storage_bytes
from compile_hud.runner.measure.resources.telemetry import open_telemetry
from compile_hud.runner.protocol.messages import RawMetric

# Warm-up may take this share of the sampling budget; sampling detects a later drop.
WARMUP_BUDGET_SHARE = 0.5


def sample(context: Context, forward: Forward) -> None:
    """Warm up, sample `forward` and eager in turn, and record the results."""
    device, settings = context.device, context.request.settings
    sides = [Side(name="variant", step=context.step(forward))]
    if not context.is_eager:
        sides.insert(0, Side(name="eager", step=context.step(context.subject.model)))
    telemetry = open_telemetry(context)
    speed_probe = open_speed_probe(device)
    with (
        device.pinned() as core,
        device.flushing(working_set_bytes=_working_set_bytes(context)) as timer,
        quiet_interpreter(),
    ):
        with context.log.step("warm up"):
            warmup_s = settings.budget_s * WARMUP_BUDGET_SHARE
            warm_up(sides, device=timer, deadline_s=time.perf_counter() + warmup_s)
        with context.log.step("sample"):
            before = look(core=core)
            course = take_samples(
                sides,
                device=timer,
                settings=settings,
                between_rounds=None if telemetry is None else telemetry.read,
                speed_probe=speed_probe,
            )
            after = look(core=core)
        clock = timer.clock
    if telemetry is not None:
        telemetry.report(context)
    details = context.findings.details
    details["core"] = core
    details["sampling"] = sampling_details(sides, course)
    details["conditions"] = conditions(
        before, after, sides=sides, num_threads=1 if device.is_cuda else settings.num_threads
    )
    _report(context, sides=sides, clock=clock)
    if speed_probe is not None:
        context.findings.metrics["pace_s"] = _raw(
            speed_probe, lambda timing: timing.cpu_s, method="thread CPU time, once a round"
        )


def _working_set_bytes(context: Context) -> int:
    subject = context.variant
    if context.device.is_cuda and context.is_eager:
        # Gradients and optimizer state belong to the working set, and only an iteration creates
        # them. Without this one a launch would decide differently from the others.
        subject.step(subject.model)()
    return storage_bytes(subject.alive())


def _report(context: Context, *, sides: list[Side], clock: str) -> None:
    metrics = context.findings.metrics
    variant = sides[-1]
    names = {
        "variant": ("latency_s", "latency_cpu_s"),
        "eager": ("eager_latency_s", "eager_latency_cpu_s"),
    }
    for side in sides:
        wall_name, cpu_name = names[side.name]
        metrics[wall_name] = _raw(side, lambda timing: timing.wall_s, method=clock)
        if all(timing.cpu_s is not None for timing in side.samples):
            metrics[cpu_name] = _raw(side, lambda timing: timing.cpu_s, method=clock)
    workload = context.request.workload
    for name, amount in (
        ("throughput_samples_per_s", workload.num_samples),
        ("throughput_tokens_per_s", workload.num_tokens),
    ):
        if amount is not None:
            context.findings.add(
                name,
                [amount / timing.wall_s for timing in variant.samples],
                method=f"{amount} an iteration over its latency",
            )
    if len(sides) == 2:
        metrics["speedup"] = paired_speedup(sides)


def _raw(side: Side, value: Callable[[Timing], float | None], *, method: str) -> RawMetric:
    def numbers(timings: list[Timing]) -> tuple[float, ...]:
        return tuple(number for timing in timings if (number := value(timing)) is not None)

    return RawMetric(samples=numbers(side.samples), warmups=numbers(side.warmups), method=method)


def paired_speedup(sides: Sequence[Side]) -> RawMetric:
    """Return eager over variant time, round by round, on the CPU clock where there is one."""
    return RawMetric(
        samples=tuple(headline(sides)),
        method=f"eager over variant {clock_name(sides)}, round by round",
    )
