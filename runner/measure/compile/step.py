"""The step `compile` of a launch, and the compiler's counts at its end."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.shared.text import counted
from compile_hud.runner.measure.compile.cache_report import is_filled_cache_hit, report_caches
from compile_hud.runner.measure.compile.code_signature import generated_code_sha256
from compile_hud.runner.measure.compile.compiler import (
    CompileTimes,
    compile_model,
    effective_mode,
    fallback,
    runs_compiled_code,
    time_compilation,
)
from compile_hud.runner.measure.compile.cuda_graph import GraphedModel, is_graphed
from compile_hud.runner.measure.compile.dynamo import (
    CompileCounts,
    read_compilations,
    read_counts,
    read_guard_kinds,
    reset,
)
from compile_hud.runner.measure.compile.own_settings import applied_while_compiling
from compile_hud.runner.measure.compile.peak_memory import (
    METHOD_COMPILERS,
    METHOD_DEVICE,
    METHOD_HOST,
    NO_MARK,
    CompilePeaks,
)
from compile_hud.runner.measure.compile.phases import AOT, BACKEND, DYNAMO, INDUCTOR, CompileClock
from compile_hud.runner.measure.compile.source_locations import GUARD_HINT, CodeLocation
from compile_hud.runner.measure.context import Context, Forward
from compile_hud.runner.measure.kernels.generated_code import generated_modules, module_text
from compile_hud.runner.measure.runtimes.exported import ExportedModel
from compile_hud.runner.measure.runtimes.registry import exported, is_exported
from compile_hud.runner.protocol.messages import LaunchRequest

PHASE_METRICS = {
    DYNAMO: "compile_dynamo_s",
    AOT: "compile_aot_s",
    INDUCTOR: "compile_inductor_s",
    BACKEND: "compile_backend_s",
}
# Warnings about the effective mode; only the last one counts.
MODE_CODES = frozenset({"mode-fallback", "no-gemm-autotuned", "cudagraphs-unknown"})


def compile_subject(context: Context) -> Forward:
    """Return the compiled model of the variant, after its first calls, which are reported."""
    request, subject, findings = context.request, context.variant, context.findings
    # Lazy initialisation of the operators' libraries would otherwise count as compile time.
    subject.step(subject.model)()
    reset()
    load_s = _load_artifacts(request)
    forward, clock = _begin(context)
    with applied_while_compiling(request.workload.compile, inputs=subject.inputs):
        times = time_compilation(context.step(forward), device=context.device, clock=clock)
    counts = read_counts()
    if isinstance(forward, ExportedModel):
        findings.details["runtime"] = forward.facts
    _decide_mode(context, counts=counts)
    findings.details["generated_code_sha256"] = generated_code_sha256(
        Path(request.cache_dir), callers=map(module_text, generated_modules())
    )
    _report_times(context, times=times, counts=counts, load_s=load_s)
    return forward


def _begin(context: Context) -> tuple[Forward, CompileClock | None]:
    """Return a callable that compiles at its first call, and the clock of torch.compile."""
    request, model = context.request, context.variant.model
    if is_exported(request.case):
        return exported(model, case=request.case, device=context.device), None
    if is_graphed(request.case):
        return GraphedModel(model=model, device=context.device), None
    return compile_model(model, case=request.case, workload=request.workload), context.compiles


def report_counts(context: Context, forward: Forward) -> None:
    """Report the counts of Dynamo and Inductor over all calls, and the effective mode."""
    findings, counts = context.findings, read_counts()
    kinds = read_guard_kinds()
    # Some failures show only after the first calls: Dynamo or CUDA graphs may give up later.
    _decide_mode(context, counts=counts)
    if counts.at_limit:
        _report_limit(context, forward, counts=counts)
    if counts.skipped and counts.num_graphs > 0:
        _report_skipped(context, skipped=counts.skipped)
    _report_sampling(context, recompiles=counts.recompiles)
    compilations = read_compilations(context.compiles)
    findings.details.update(
        compilations=[dataclasses.asdict(item) for item in compilations],
        graph_breaks=[dataclasses.asdict(location) for location in counts.graph_breaks],
        recompiles=[dataclasses.asdict(location) for location in counts.recompiles],
        guards=kinds,
        cudagraph_skip_reasons=list(counts.cudagraph_skip_reasons),
        num_autotuned=counts.num_autotuned,
    )
    if not context.is_first:
        return
    method = "Dynamo's counters over all calls of the launch"
    for name, number in (
        ("graphs", counts.num_graphs),
        ("graph_breaks", counts.num_graph_breaks),
        ("recompiles", counts.num_recompiles),
    ):
        findings.add(name, (float(number),), method=method)
    if kinds is not None:
        method = "leaves of the guard trees of all compiled frames"
        findings.add("guards", (float(sum(kinds.values())),), method=method)
    _save_artifacts(context.request)


def _decide_mode(context: Context, *, counts: CompileCounts) -> None:
    mode, warnings = effective_mode(context.request.case, counts=counts, device=context.device)
    # A later launch autotunes nothing: it finds the choices in the cache.
    _set_mode(context, mode, warnings=warnings if context.is_first else ())


def _set_mode(context: Context, mode: str, *, warnings: Sequence[RunWarning]) -> None:
    findings = context.findings
    findings.effective_mode = mode
    others = [warning for warning in findings.warnings if warning.code not in MODE_CODES]
    findings.warnings[:] = [*others, *warnings]


def _report_limit(context: Context, forward: Forward, *, counts: CompileCounts) -> None:
    """Warn that Dynamo gave up on a function, and whether any compiled code still runs."""
    last = counts.at_limit[-1]
    context.findings.warn(
        "recompile-limit",
        f"Dynamo gave up after {counted(counts.num_recompiles, 'recompile')}, the last for"
        f" `{last.reason}`"
        f"{last.end}; calls whose guards fail run eagerly",
        hint=f"{GUARD_HINT}; TORCH_LOGS=recompiles shows each",
    )
    if runs_compiled_code(context.step(forward)):
        return
    why = "nothing compiled ran any more once Dynamo had given up on recompiling"
    warning = fallback(context.request.case.mode, ran="eager", why=why, hint=GUARD_HINT)
    _set_mode(context, "eager", warnings=(warning,))


def _report_skipped(context: Context, *, skipped: Sequence[CodeLocation]) -> None:
    first, num_others = skipped[0], len({item.function for item in skipped}) - 1
    others = f", and {counted(num_others, 'other function')}" if num_others else ""
    context.findings.warn(
        "frame-not-compiled",
        f"Dynamo compiled nothing of `{first.function}`{others}: {first.reason}{first.end}",
        hint="the function runs eagerly; TORCH_LOGS=graph_breaks shows what stopped it",
    )


def _report_sampling(context: Context, *, recompiles: Sequence[CodeLocation]) -> None:
    """Warn of compilations and recordings during sampling: samples include their time."""
    bounds_s = context.log.bounds_s("sample")
    if bounds_s is None:
        return
    since_s, until_s = bounds_s
    num_compiles = context.compiles.num_compiles(since_s=since_s, until_s=until_s)
    if num_compiles:
        last = recompiles[-1] if recompiles else None
        context.findings.warn(
            "recompiles-while-sampling",
            f"Dynamo compiled {counted(num_compiles, 'time')} while samples were taken:"
            " some hold its time",
            hint=GUARD_HINT
            if last is None
            else f"{GUARD_HINT}; the guard that failed last: `{last.reason}`{last.end}",
        )
    num_recordings = context.compiles.num_recordings(since_s=since_s, until_s=until_s)
    if num_recordings:
        context.findings.warn(
            "cudagraphs-recorded-while-sampling",
            f"CUDA graphs were recorded {counted(num_recordings, 'time')} while samples were taken",
            hint="an input or its address changes from call to call; TORCH_LOGS=perf_hints tells",
        )


def _report_times(
    context: Context, *, times: CompileTimes, counts: CompileCounts, load_s: float
) -> None:
    findings, state = context.findings, context.request.cache_state
    findings.details["first_calls_s"] = list(times.first_calls_s)
    details: dict[str, Any] = {"state": state, "load_s": load_s, "cache": dict(counts.cache)}
    findings.details["compile"] = details
    _report_peaks(context, peaks=times.peaks)
    report_caches(context, counts=counts)
    if times.num_late_compiles:
        findings.warn(
            "still-compiling",
            f"the {counted(len(times.later_calls_s), 'call')} after the first ones compiled"
            f" {counted(times.num_late_compiles, 'time')} more: no compile time",
            hint="look at the recompiles in the result's details",
        )
        return
    _report_instructions(context, times=times)
    details |= {"compile_s": times.compile_s + load_s, "phases_s": times.split_s}
    num_calls = len(times.first_calls_s)
    method = f"first {counted(num_calls, 'call')} minus as many later ones"
    if state == "cold":
        findings.add("compile_cold_s", (times.compile_s,), method=f"{method}, cache empty")
        if not context.device.is_cuda:
            # Persistent helper processes compile Triton, and their CPU time is not accessible.
            how = f"{method}, cache empty; this process and the compilers it ran"
            findings.add("compile_cold_cpu_s", (times.compile_cpu_s,), method=how)
        for phase, name in PHASE_METRICS.items():
            if phase in times.phases_s:
                calls = counted(num_calls, "call")
                method = f"wall time in this phase during the first {calls}, cache empty"
                findings.add(name, (times.phases_s[phase],), method=method)
    elif is_filled_cache_hit(counts.cache):
        filled = {"warm": "compile_warm_s", "artifacts": "compile_artifacts_s"}
        how = "cache filled" if state == "warm" else "cache loaded from artifacts, loading included"
        findings.add(filled[state], (times.compile_s + load_s,), method=f"{method}, {how}")


def _report_peaks(context: Context, *, peaks: CompilePeaks) -> None:
    """Report the peak memory of the first calls: a metric if the cache was empty."""
    findings = context.findings
    is_cold = context.request.cache_state == "cold"
    memory: dict[str, int] = {}
    for name, peak, method in (
        ("host", peaks.host, METHOD_HOST),
        ("device", peaks.device, METHOD_DEVICE),
    ):
        if peak is None:
            continue
        memory |= {f"{name} before": peak.before, f"{name} peak": peak.peak}
        if is_cold:
            findings.add(f"compile_peak_{name}_bytes", (float(peak.growth),), method=method)
    if peaks.compilers_bytes is None:
        findings.details["compile"]["compilers_not_measured"] = peaks.compilers_missing
        if is_cold:
            _add_missing(context, "compile_peak_compilers_bytes", why=peaks.compilers_missing)
    else:
        memory["compilers peak"] = peaks.compilers_bytes
        if is_cold and peaks.compilers_bytes:
            method = METHOD_COMPILERS.format(interval_s=peaks.interval_s)
            value = float(peaks.compilers_bytes)
            findings.add("compile_peak_compilers_bytes", (value,), method=method)
    findings.details["compile"]["memory_bytes"] = memory
    if peaks.host is None:
        _add_missing(context, "compile_peak_host_bytes", why=NO_MARK)


def _report_instructions(context: Context, *, times: CompileTimes) -> None:
    """Report the instructions of the compilation: a metric if the cache was empty."""
    if times.instructions is None:
        _add_missing(context, "compile_instructions", why=times.missing_instructions)
        return
    context.findings.details["compile"]["instructions"] = times.instructions
    if context.request.cache_state == "cold":
        num_calls = len(times.first_calls_s)
        method = (
            f"perf_event_open, first {counted(num_calls, 'call')} minus as many later ones, cache"
            " empty; this"
            " thread and the processes that it started"
        )
        context.findings.add("compile_instructions", (times.instructions,), method=method)


def _add_missing(context: Context, metric: str, *, why: str) -> None:
    costs = context.findings.details.setdefault("compile_costs", {"missing": {}})
    costs["missing"][metric] = why


def _load_artifacts(request: LaunchRequest) -> float:
    """Load the first launch's artifacts into the cache if requested; return the wall seconds."""
    if request.cache_state != "artifacts":
        return 0.0
    start_s = time.perf_counter()
    torch.compiler.load_cache_artifacts(Path(request.artifacts_path).read_bytes())
    return time.perf_counter() - start_s


def _save_artifacts(request: LaunchRequest) -> None:
    """Save the cache artifacts of this process for a later launch, if there are any."""
    if request.case.backend != "inductor" or not request.artifacts_path:
        return
    saved = torch.compiler.save_cache_artifacts()
    if saved is not None:
        Path(request.artifacts_path).write_bytes(saved[0])
