"""The step `compile` of a launch, and the compiler's counts at its end."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from compile_hud.db.records.run_warning import RunWarning
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
    read_counts,
    read_guard_kinds,
    reset,
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
    findings.details.update(
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
        f"Dynamo gave up after {counts.num_recompiles} recompiles, the last for `{last.reason}`"
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
    others = f", and {num_others} other functions" if num_others else ""
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
            f"Dynamo compiled {num_compiles} times while samples were taken: some hold its time",
            hint=GUARD_HINT
            if last is None
            else f"{GUARD_HINT}; the guard that failed last: `{last.reason}`{last.end}",
        )
    num_recordings = context.compiles.num_recordings(since_s=since_s, until_s=until_s)
    if num_recordings:
        context.findings.warn(
            "cudagraphs-recorded-while-sampling",
            f"{num_recordings} CUDA graphs were recorded while samples were taken",
            hint="an input or its address changes from call to call; TORCH_LOGS=perf_hints tells",
        )


def _report_times(
    context: Context, *, times: CompileTimes, counts: CompileCounts, load_s: float
) -> None:
    findings, state = context.findings, context.request.cache_state
    findings.details["first_calls_s"] = list(times.first_calls_s)
    details: dict[str, Any] = {"state": state, "load_s": load_s, "cache": dict(counts.cache)}
    findings.details["compile"] = details
    if times.num_late_compiles:
        findings.warn(
            "still-compiling",
            f"the {len(times.later_calls_s)} calls after the first ones compiled"
            f" {times.num_late_compiles} times more: no compile time",
            hint="look at the recompiles in the result's details",
        )
        return
    details |= {"compile_s": times.compile_s + load_s, "phases_s": times.split_s}
    num_calls = len(times.first_calls_s)
    method = f"first {num_calls} calls minus as many later ones"
    if state == "cold":
        findings.add("compile_cold_s", (times.compile_s,), method=f"{method}, cache empty")
        if not context.device.is_cuda:
            # Persistent helper processes compile Triton, and their CPU time is not accessible.
            how = f"{method}, cache empty; this process and the compilers it ran"
            findings.add("compile_cold_cpu_s", (times.compile_cpu_s,), method=how)
        for phase, name in PHASE_METRICS.items():
            if phase in times.phases_s:
                method = f"wall time in this phase during the first {num_calls} calls, cache empty"
                findings.add(name, (times.phases_s[phase],), method=method)
    elif _is_warm(counts):
        filled = {"warm": "compile_warm_s", "artifacts": "compile_artifacts_s"}
        how = "cache filled" if state == "warm" else "cache loaded from artifacts, loading included"
        findings.add(filled[state], (times.compile_s + load_s,), method=f"{method}, {how}")
    elif context.request.case.backend == "inductor" and counts.num_graphs > 0:
        num_misses = counts.cache.get("fxgraph_misses", 0)
        findings.warn(
            "cache-miss",
            f"the filled compile cache was not hit ({num_misses} of {counts.num_graphs} graphs"
            f" missed, launch with {state} cache): no {state} compile time",
            hint="run with TORCH_LOGS=+torch._inductor.codecache to see why",
        )


def _is_warm(counts: CompileCounts) -> bool:
    # A single recompiled graph takes as long as all the cached ones together.
    return counts.cache.get("fxgraph_hits", 0) > 0 and counts.cache.get("fxgraph_misses", 0) == 0


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
