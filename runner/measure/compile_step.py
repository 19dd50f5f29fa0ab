"""The step `compile` of a launch, and what the compiler counted by its end."""

from __future__ import annotations

from pathlib import Path

from runner.measure.compiling import (
    CompileTimes,
    compile_model,
    effective_mode,
    time_compilation,
)
from runner.measure.context import Context, Forward
from runner.measure.dynamo import CompileCounts, generated_code_sha256, read_counts, reset


def compile_subject(context: Context) -> Forward:
    """Return the subject's model compiled as the case asks, its first calls made and reported."""
    request, subject, found = context.request, context.subject, context.found
    # Lazy initialisation of the operators' libraries would otherwise count as compile time.
    subject.step(subject.model)()
    reset()
    forward = compile_model(subject.model, case=request.case, workload=request.workload)
    times = time_compilation(context.step(forward), device=context.device)
    counts = read_counts()
    mode, warnings = effective_mode(request.case, counts=counts, device=context.device)
    found.effective_mode = mode
    if context.is_first:
        # A later launch autotunes nothing: it finds the choices in the cache.
        found.warnings.extend(warnings)
    found.details["generated_code_sha256"] = generated_code_sha256(Path(request.cache_dir))
    _report_times(context, times=times, counts=counts)
    return forward


def report_counts(context: Context) -> None:
    """Keep what Dynamo and Inductor counted over all calls of the launch."""
    found, counts = context.found, read_counts()
    found.details["graph_break_reasons"] = list(counts.graph_break_reasons)
    found.details["recompile_reasons"] = list(counts.recompile_reasons)
    found.details["cudagraph_skip_reasons"] = list(counts.cudagraph_skip_reasons)
    found.details["num_autotuned"] = counts.num_autotuned
    if not context.is_first:
        return
    method = "Dynamo's counters over all calls of the launch"
    for name, number in (
        ("graphs", counts.num_graphs),
        ("graph_breaks", counts.num_graph_breaks),
        ("recompiles", counts.num_recompiles),
    ):
        found.add(name, (float(number),), method=method)


def _report_times(context: Context, *, times: CompileTimes, counts: CompileCounts) -> None:
    found = context.found
    found.details["first_calls_s"] = list(times.first_calls_s)
    found.details["num_fxgraph_cache_hits"] = counts.num_fxgraph_cache_hits
    state = "empty" if context.is_first else "filled"
    method = f"first {len(times.first_calls_s)} calls minus as many later ones, cache {state}"
    if context.is_first:
        found.add("compile_cold_s", (times.compile_s,), method=method)
    elif counts.num_fxgraph_cache_hits > 0:
        found.add("compile_warm_s", (times.compile_s,), method=method)
    elif context.request.case.backend == "inductor" and counts.num_graphs > 0:
        found.warn(
            "cache-miss",
            "the filled compile cache was not hit: no warm compile time",
            hint="run with TORCH_LOGS=+torch._inductor.codecache to see why",
        )
