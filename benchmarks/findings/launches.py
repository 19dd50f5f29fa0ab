"""Launches of two models in this process, in turn: their latencies, kernels and findings.

A neighbour on the core interrupts calls. So a latency is the fastest of many calls, in CPU time.
The time of a kernel is that of its fastest call, in the fastest of several recordings.
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn, optim
from torch._functorch import config as functorch_config
from torch._inductor import config as inductor_config

from compile_hud.db.records.findings import Finding
from compile_hud.db.records.graphs.host_times import HOST_TIMES
from compile_hud.db.records.kernels import Kernel
from compile_hud.db.records.results import CaseResult, Dtype, Phase
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.runner.analysis.findings.registry import findings_of
from compile_hud.runner.analysis.findings.result_evidence import ResultEvidence
from compile_hud.runner.execution.kernel_profile import host_times
from compile_hud.runner.measure.compile.compiler_warnings import recorded_warnings
from compile_hud.runner.measure.compile.dynamo import recorded_compiles
from compile_hud.runner.measure.compile.step import compile_subject, report_counts
from compile_hud.runner.measure.context import Context, Forward
from compile_hud.runner.measure.kernels.profile_step import report_kernels
from compile_hud.runner.measure.kernels.provenance import recorded_origins
from compile_hud.runner.measure.resources.memory_growth import report_growth
from compile_hud.runner.measure.resources.training_breakdown import report_breakdown
from compile_hud.runner.protocol.messages import notes_path
from compile_hud.runner.traces.profile import KernelReport, load_kernel_notes, read_kernels
from tests.support.builders import make_case, make_measurement, make_result
from tests.support.runs.launch_contexts import forget_compiled, make_context

# A call right after one of the other model has cold caches. No user's loop has two models in turn.
NUM_ROUNDS, NUM_CALLS = 20, 10
MIN_RECORDINGS, MAX_RECORDINGS = 2, 8
AGREEMENT = 1.15
# Details with lists of samples.
_TIMES = (HOST_TIMES, "breakdown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A model with its inputs, measured eagerly or compiled; `is_fused` is about its optimizer."""

    make: Callable[[], nn.Module]
    inputs: dict[str, Tensor]
    phase: Phase = Phase.INFERENCE
    is_eager: bool = False
    is_fused: bool = False


@dataclass(slots=True, kw_only=True)
class Launch:
    """A subject after its first calls."""

    context: Context
    forward: Forward
    warnings: tuple[RunWarning, ...]
    report: KernelReport | None = None
    # Compiling included.
    first_calls_s: float = 0.0
    latency_s: float = float("inf")

    @property
    def step(self) -> Callable[[], object]:
        """Return one iteration."""
        return self.context.step(self.forward)


@contextmanager
def without_caches() -> Iterator[None]:
    """Generate all code anew during the block, so that its origins are recorded."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with (
        warnings.catch_warnings(),
        inductor_config.patch(fx_graph_cache=False),
        functorch_config.patch(enable_autograd_cache=False),
    ):
        # Inductor's own modules use parts of torch that are about to go.
        warnings.simplefilter("ignore", DeprecationWarning)
        yield
    torch.set_num_threads(threads)
    forget_compiled()


def launch(subject: Subject, folder: Path) -> Launch:
    """Return `subject` after its first calls, as a launch of the worker makes them."""
    forget_compiled()
    torch.manual_seed(0)
    model = subject.make()
    model.train(subject.phase is Phase.TRAINING)
    backend = "eager" if subject.is_eager else "inductor"
    context = make_context(model, subject.inputs, phase=subject.phase, backend=backend)
    if subject.is_fused:
        context.subject.optimizer = optim.AdamW(model.parameters(), lr=0.0, fused=True)
    path = Path(tempfile.mkstemp(suffix=".json.gz", dir=folder)[1])
    request = replace(context.request, trace_path=str(path), cache_dir=str(folder))
    context = replace(context, request=request)
    forward: Forward = model
    with (
        recorded_warnings() as recorder,
        recorded_compiles(context.compiles, context.caches),
        recorded_origins(context.origins),
    ):
        began_s = time.perf_counter()
        if not subject.is_eager:
            forward = compile_subject(context)
            for _ in range(3):
                context.step(forward)()
        first_calls_s = time.perf_counter() - began_s
        if not subject.is_eager:
            report_counts(context, forward)
            # The runner has a list for each launch.
            details = context.findings.details
            details["compilations"] = [details["compilations"]]
    report_growth(context, forward)
    reported = (*context.findings.warnings, *recorder.warnings(without=()))
    launched = Launch(
        context=context, forward=forward, warnings=reported, first_calls_s=first_calls_s
    )
    sample_in_turn([launched])
    context.findings.add("latency_s", (launched.latency_s,), method="fastest call, CPU time")
    # Another launch resets Dynamo, and the names of its kernels are the same.
    launched.report = _recording(launched)
    if subject.phase is Phase.TRAINING:
        context.findings.add("latency_cpu_s", (launched.latency_s,), method="as latency_s")
        report_breakdown(context, forward)
    return launched


def sample_in_turn(launches: Sequence[Launch]) -> None:
    """Set the latency of each launch to its fastest call, in CPU time."""
    for item in launches:
        item.latency_s = float("inf")
    for _ in range(NUM_ROUNDS):
        for item in launches:
            for _ in range(NUM_CALLS):
                began_s = time.thread_time()
                item.step()
                item.latency_s = min(item.latency_s, time.thread_time() - began_s)


def result_of(item: Launch, *, eager: Launch | None = None) -> CaseResult:
    """Return the result of a launch, and of its eager twin if there is one."""
    context, findings = item.context, item.context.findings
    report = item.report
    assert report is not None
    case = context.request.case
    measured = [
        make_measurement(name, samples=(min(metric.samples),))
        for name, metric in findings.metrics.items()
        if metric.samples and name not in ("latency_s", "latency_cpu_s")
    ]
    measured.append(make_measurement("latency_s", samples=(item.latency_s,)))
    if report.guard_s:
        measured.append(make_measurement("guard_s", samples=report.guard_s))
    if eager is not None:
        ratio = eager.latency_s / item.latency_s
        measured.append(make_measurement("eager_latency_s", samples=(eager.latency_s,)))
        measured.append(make_measurement("speedup", samples=(ratio,), interval=(ratio, ratio)))
    details = {**host_times(findings.details, report=report), "profile": report.profile.to_json()}
    details |= {name: _fastest(details[name]) for name in _TIMES if name in details}
    return make_result(
        case=make_case(
            mode=case.mode, backend=case.backend, phase=case.phase, dtype=Dtype.FP32, device="cpu"
        ),
        measurements=measured,
        kernels=[_undisturbed(kernel) for kernel in report.kernels],
        sources=report.sources,
        details=details,
        warnings=item.warnings,
        effective_mode=findings.effective_mode or case.mode,
    )


def findings_in(result: CaseResult, *, eager: CaseResult | None = None) -> tuple[Finding, ...]:
    """Return the findings of a result."""
    return findings_of(ResultEvidence(result=result, eager=eager))


def _recording(item: Launch) -> KernelReport:
    reports: list[KernelReport] = []
    while len(reports) < MIN_RECORDINGS or (
        len(reports) < MAX_RECORDINGS
        and _fastest_s(reports[1]) > AGREEMENT * _fastest_s(reports[0])
    ):
        report_kernels(item.context, item.forward)
        path = Path(item.context.request.trace_path)
        notes = load_kernel_notes(notes_path(path))
        reports.append(read_kernels(path, notes=notes, latency_s=item.latency_s, peaks={}))
        reports.sort(key=_fastest_s)
    return reports[0]


def _fastest_s(report: KernelReport) -> float:
    return sum(kernel.count * kernel.min_s for kernel in report.kernels)


def _fastest(times: Any) -> Any:
    """Return times with the least of each list of samples alone."""
    if isinstance(times, Mapping):
        return {name: _fastest(value) for name, value in times.items()}
    if isinstance(times, list) and times and isinstance(times[0], Mapping):
        return [_fastest(item) for item in times]
    return [min(times)] if isinstance(times, list) and times else times


def _undisturbed(kernel: Kernel) -> Kernel:
    """Return `kernel` as if each call were as fast as its fastest."""
    return dataclasses.replace(kernel, mean_s=kernel.min_s, total_s=kernel.count * kernel.min_s)
