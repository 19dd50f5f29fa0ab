"""One launch of a case, from building the model to the report.

The first launch does everything; later ones compile again from the filled cache and take more
samples, since fresh processes differ from each other more than samples within one (FACTS E).
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from db.records import Outcome, RunWarning
from runner.measure.accuracy import (
    GRADIENT_MIN_COSINE,
    MIN_COSINE,
    Accuracy,
    check_accuracy,
)
from runner.measure.compiling import (
    CompileTimes,
    compile_model,
    effective_mode,
    time_compilation,
)
from runner.measure.device import Device, Timing, open_device
from runner.measure.dynamo import CompileCounts, generated_code_sha256, read_counts, reset
from runner.measure.memory import peak_bytes
from runner.measure.steps import StepLog
from runner.measure.subject import Subject, build_subject, fp64_twin
from runner.measure.timing import MIN_ROUNDS, Side, quiet_python, take_samples, warm_up
from runner.protocol import LaunchReport, LaunchRequest, RawMetric

# Warm-up may take this share of the sampling budget before it is called unsettled.
WARMUP_BUDGET_SHARE = 0.5


@dataclass(slots=True)
class Findings:
    """What a launch has found so far."""

    metrics: dict[str, RawMetric] = field(default_factory=dict)
    warnings: list[RunWarning] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)
    effective_mode: str = ""


def run_launch(request: LaunchRequest) -> LaunchReport:
    """Return what this launch of the case found; raise what the model or the compiler raises."""
    log = StepLog()
    with log.step("fingerprint"):
        device = open_device(request.case.device, num_threads=request.settings.num_threads)
        reason = device.why_unsupported(request.case.dtype)
    if reason is not None:
        return LaunchReport(outcome=Outcome.SKIPPED, reason=reason)
    torch.manual_seed(request.settings.seed)
    with log.step("build"):
        subject = build_subject(request, device=device)
    found = Findings()
    found.details["num_parameters"] = sum(item.numel() for item in subject.model.parameters())
    reason = _measure(request, subject=subject, device=device, log=log, found=found)
    found.details["steps"] = log.entries
    if reason:
        return LaunchReport(
            outcome=Outcome.INACCURATE,
            reason=reason,
            effective_mode=found.effective_mode,
            warnings=tuple(found.warnings),
            details=found.details,
        )
    return LaunchReport(
        outcome=Outcome.OK,
        effective_mode=found.effective_mode,
        metrics=found.metrics,
        warnings=tuple(found.warnings),
        details=found.details,
    )


def _measure(
    request: LaunchRequest, *, subject: Subject, device: Device, log: StepLog, found: Findings
) -> str:
    is_first = request.launch == 0
    reference: Reference | None = None
    if is_first:
        with log.step("eager oracle"):
            reference = _reference(subject)
    forward: Callable[..., Any] = subject.model
    if request.case.backend == "eager":
        found.effective_mode = "eager"
    else:
        with log.step("compile"):
            forward = _compile(request, subject=subject, device=device, found=found)
    if reference is not None:
        with log.step("accuracy"):
            reason = _check(
                reference, request=request, subject=subject, forward=forward, found=found
            )
        if reason:
            return reason
        del reference
    _sample(request, subject=subject, forward=forward, device=device, log=log, found=found)
    if is_first:
        with log.step("memory"):
            peak, method = peak_bytes(subject.step(forward), alive=subject.alive(), device=device)
            found.metrics["peak_bytes"] = RawMetric(samples=(float(peak),), method=method)
    with log.step("result"):
        if request.case.backend != "eager":
            _count(found, read_counts(), is_first=is_first)
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What results are held against: the fp64 oracle, and eager in the dtype of the case."""

    oracle: dict[str, torch.Tensor]
    eager: dict[str, torch.Tensor]


def _reference(subject: Subject) -> Reference:
    twin = fp64_twin(subject)
    oracle = twin.result(twin.model)
    del twin
    return Reference(oracle=oracle, eager=subject.result(subject.model))


def _compile(
    request: LaunchRequest, *, subject: Subject, device: Device, found: Findings
) -> Callable[..., Any]:
    # Lazy initialisation of the operators' libraries would otherwise count as compile time.
    subject.step(subject.model)()
    reset()
    forward = compile_model(subject.model, case=request.case, workload=request.workload)
    times = time_compilation(_marked(subject.step(forward), device), device=device)
    counts = read_counts()
    found.effective_mode, warnings = effective_mode(request.case, counts=counts, device=device)
    if request.launch == 0:
        # A later launch autotunes nothing: it finds the choices in the cache.
        found.warnings.extend(warnings)
    found.details["generated_code_sha256"] = generated_code_sha256(Path(request.cache_dir))
    _report_compile_time(request, times=times, counts=counts, found=found)
    return forward


def _report_compile_time(
    request: LaunchRequest, *, times: CompileTimes, counts: CompileCounts, found: Findings
) -> None:
    found.details["first_calls_s"] = list(times.first_calls_s)
    found.details["num_fxgraph_cache_hits"] = counts.num_fxgraph_cache_hits
    state = "empty" if request.launch == 0 else "filled"
    raw = RawMetric(
        samples=(times.compile_s,),
        method=f"first {len(times.first_calls_s)} calls minus as many later ones, cache {state}",
    )
    if request.launch == 0:
        found.metrics["compile_cold_s"] = raw
    elif counts.num_fxgraph_cache_hits > 0:
        found.metrics["compile_warm_s"] = raw
    elif request.case.backend == "inductor" and counts.num_graphs > 0:
        found.warnings.append(
            RunWarning(
                code="cache-miss",
                text="the filled compile cache was not hit: no warm compile time",
                hint="run with TORCH_LOGS=+torch._inductor.codecache to see why",
            )
        )


def _check(
    reference: Reference,
    *,
    request: LaunchRequest,
    subject: Subject,
    forward: Callable[..., Any],
    found: Findings,
) -> str:
    is_eager = request.case.backend == "eager"
    result = reference.eager if is_eager else subject.result(forward)
    checked: list[tuple[Accuracy, Accuracy]] = []
    for part, oracle in reference.oracle.items():
        floors = GRADIENT_MIN_COSINE if part == "gradients" else MIN_COSINE
        check = functools.partial(
            check_accuracy,
            oracle=oracle,
            dtype=request.case.dtype,
            min_cosine=request.workload.min_cosine or floors[request.case.dtype],
        )
        eager = check(reference.eager[part])
        accuracy = check(result[part], eager_rmse=None if is_eager else eager.rmse)
        if accuracy.reason:
            return f"{part}: {accuracy.reason}"
        checked.append((accuracy, eager))
    method = f"against the fp64 eager oracle: {', '.join(reference.oracle)}; the worst of them"
    values = {
        "max_abs_error": max(accuracy.max_abs_error for accuracy, _ in checked),
        "cosine_similarity": min(accuracy.cosine for accuracy, _ in checked),
    }
    ratios = [accuracy.rmse / eager.rmse for accuracy, eager in checked if eager.rmse > 0]
    if ratios and not is_eager:
        values["rmse_ratio"] = max(ratios)
    for name, value in values.items():
        found.metrics[name] = RawMetric(samples=(value,), method=method)
    return ""


def _sample(
    request: LaunchRequest,
    *,
    subject: Subject,
    forward: Callable[..., Any],
    device: Device,
    log: StepLog,
    found: Findings,
) -> None:
    variant = Side(name="variant", step=_marked(subject.step(forward), device))
    sides = [variant]
    if request.case.backend != "eager":
        sides.insert(0, Side(name="eager", step=subject.step(subject.model)))
    with device.pinned() as core, quiet_python():
        with log.step("warm up"):
            warmup_s = request.settings.budget_s * WARMUP_BUDGET_SHARE
            has_settled = warm_up(sides, device=device, deadline_s=time.perf_counter() + warmup_s)
        with log.step("sample"):
            take_samples(sides, device=device, settings=request.settings)
    found.details["core"] = core
    found.details["iterations_per_sample"] = {side.name: side.num_iterations for side in sides}
    _warn_about_samples(variant, has_settled=has_settled, found=found)
    _report_latency(request, sides=sides, device=device, found=found)


def _marked(step: Callable[[], object], device: Device) -> Callable[[], object]:
    """Return `step` preceded by the mark that lets CUDA-graph trees reuse the outputs' memory."""
    if not device.is_cuda:
        return step

    def marked() -> object:
        torch.compiler.cudagraph_mark_step_begin()
        return step()

    return marked


def _warn_about_samples(variant: Side, *, has_settled: bool, found: Findings) -> None:
    if not has_settled:
        found.warnings.append(
            RunWarning(
                code="unsettled",
                text=f"the time still moved after {len(variant.warmups)} warm-up rounds",
                hint="see whether something else runs on this machine, or raise [run] budget_s",
            )
        )
    if len(variant.samples) <= MIN_ROUNDS:
        found.warnings.append(
            RunWarning(
                code="few-samples",
                text=f"only {len(variant.samples)} samples fitted into the budget",
                hint="raise [run] budget_s for this suite",
            )
        )


def _report_latency(
    request: LaunchRequest, *, sides: list[Side], device: Device, found: Findings
) -> None:
    variant = sides[-1]
    names = {
        "variant": ("latency_s", "latency_cpu_s"),
        "eager": ("eager_latency_s", "eager_latency_cpu_s"),
    }
    for side in sides:
        wall_name, cpu_name = names[side.name]
        found.metrics[wall_name] = _raw(side, lambda timing: timing.wall_s, method=device.clock)
        if all(timing.cpu_s is not None for timing in side.samples):
            found.metrics[cpu_name] = _raw(side, lambda timing: timing.cpu_s, method=device.clock)
    for name, amount in (
        ("throughput_samples_per_s", request.workload.num_samples),
        ("throughput_tokens_per_s", request.workload.num_tokens),
    ):
        if amount is not None:
            found.metrics[name] = RawMetric(
                samples=tuple(amount / timing.wall_s for timing in variant.samples),
                method=f"{amount} an iteration over its latency",
            )
    if len(sides) == 2:
        found.metrics["speedup"] = paired_speedup(sides[0], variant)


def _raw(side: Side, value: Callable[[Timing], float | None], *, method: str) -> RawMetric:
    def numbers(timings: list[Timing]) -> tuple[float, ...]:
        return tuple(number for timing in timings if (number := value(timing)) is not None)

    return RawMetric(samples=numbers(side.samples), warmups=numbers(side.warmups), method=method)


def paired_speedup(eager: Side, variant: Side) -> RawMetric:
    """Return eager over variant time, round by round, on the CPU clock where there is one."""
    pairs = list(zip(eager.samples, variant.samples, strict=True))
    on_cpu_clock = all(left.cpu_s and right.cpu_s for left, right in pairs)
    ratios = tuple(
        (left.cpu_s or 0.0) / (right.cpu_s or 1.0) if on_cpu_clock else left.wall_s / right.wall_s
        for left, right in pairs
    )
    clock = "thread CPU time" if on_cpu_clock else "wall time"
    return RawMetric(samples=ratios, method=f"eager over variant {clock}, round by round")


def _count(found: Findings, counts: CompileCounts, *, is_first: bool) -> None:
    found.details["graph_break_reasons"] = list(counts.graph_break_reasons)
    found.details["recompile_reasons"] = list(counts.recompile_reasons)
    found.details["cudagraph_skip_reasons"] = list(counts.cudagraph_skip_reasons)
    found.details["num_autotuned"] = counts.num_autotuned
    if not is_first:
        return
    method = "Dynamo's counters over all calls of the launch"
    for name, number in (
        ("graphs", counts.num_graphs),
        ("graph_breaks", counts.num_graph_breaks),
        ("recompiles", counts.num_recompiles),
    ):
        found.metrics[name] = RawMetric(samples=(float(number),), method=method)
