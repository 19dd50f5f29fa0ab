"""Compile a model as its variant requires; measure the time and determine the effective mode."""

from __future__ import annotations

import resource
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import torch

from compile_hud.db.records.results import Case
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.shared.text import counted
from compile_hud.models_zoo.catalog.spec import NO_BACKEND
from compile_hud.runner.measure.compile.cuda_graph import is_graphed
from compile_hud.runner.measure.compile.dynamo import CompileCounts, has_recorded_cudagraphs
from compile_hud.runner.measure.compile.instructions import InstructionCounter
from compile_hud.runner.measure.compile.own_settings import checked_options, resolve_backend
from compile_hud.runner.measure.compile.peak_memory import CompilePeaks, recorded_peaks
from compile_hud.runner.measure.compile.phases import CompileClock
from compile_hud.runner.measure.device import Device
from compile_hud.runner.measure.model_transforms import repeated_blocks
from compile_hud.runner.measure.resources.cpu_counters import PerfInterface
from compile_hud.runner.measure.runtimes.registry import compile_options, is_exported
from compile_hud.runner.protocol.messages import Workload

# The first call compiles; with CUDA graphs the second warms up and the third records the graph.
NUM_COMPILE_CALLS = 3
CUDAGRAPH_MODES: Mapping[str, str] = {
    "reduce-overhead": "default",
    "max-autotune": "max-autotune-no-cudagraphs",
}
# An autotuning mode without choices may still generate other code: it lowers convolutions to
# products, and tunes pointwise kernels on CUDA. The hash of the code is compared with default's.
NOTHING_AUTOTUNED = RunWarning(
    code="no-gemm-autotuned",
    text="Inductor autotuned no matrix product",
    hint="the model has none, or Inductor has no template for it on this device",
)
UNKNOWN_CUDAGRAPHS = RunWarning(
    code="cudagraphs-unknown",
    text="this torch does not report whether a CUDA graph was recorded",
    hint="compare the latency with that of the mode without CUDA graphs",
)
# torch's name of a compiled frame in a trace, followed by the number of the compilation.
COMPILED_REGION = "Torch-Compiled Region"
NO_CUDA_GRAPHS = "not available on this device: CUDA graphs need a CUDA device"
AUTOTUNE_MODES = frozenset({"max-autotune", "max-autotune-no-cudagraphs"})


def unavailable_reason(case: Case, *, device: Device) -> str | None:
    """Return the reason why `device` cannot execute the variant of `case`, else None.

    Without CUDA graphs a mode would compile to another mode's code under its own name.
    """
    if device.is_cuda:
        return None
    if is_graphed(case):
        return f"{NO_CUDA_GRAPHS}; measure it under eager"
    if case.backend == "inductor" and case.mode in CUDAGRAPH_MODES:
        return f"{NO_CUDA_GRAPHS}; {CUDAGRAPH_MODES[case.mode]} is the mode without them"
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileTimes:
    """Wall seconds of the first calls and of an equal number of later ones."""

    first_calls_s: tuple[float, ...]
    later_calls_s: tuple[float, ...]
    # Wall seconds of the first calls by phase of the compilation, where torch reports them.
    phases_s: Mapping[str, float] = field(default_factory=dict)
    # The number of compilations in the later calls; with any, the compile time is not defined.
    num_late_compiles: int = 0
    # CPU seconds of this process and of the compilers it ran, first calls and later ones.
    first_cpu_s: float = 0.0
    later_cpu_s: float = 0.0
    peaks: CompilePeaks = field(default_factory=CompilePeaks)
    # Instructions of the first calls beyond those of the later ones; None with a reason.
    instructions: float | None = None
    missing_instructions: str = ""

    @property
    def compile_cpu_s(self) -> float:
        """Return the CPU time of the first calls beyond that of the later ones, at least 0."""
        return max(0.0, self.first_cpu_s - self.later_cpu_s)

    @property
    def compile_s(self) -> float:
        """Return the time of the first calls beyond that of the later ones, at least 0."""
        return max(0.0, sum(self.first_calls_s) - sum(self.later_calls_s))

    @property
    def split_s(self) -> dict[str, float]:
        """Return the phases with the rest of `compile_s` as `other`; empty without phases."""
        if not self.phases_s:
            return {}
        return {**self.phases_s, "other": max(0.0, self.compile_s - sum(self.phases_s.values()))}


def is_by_dynamo(case: Case) -> bool:
    """Return whether the variant of `case` executes code of torch.compile."""
    return not (is_uncompiled(case) or is_graphed(case) or is_exported(case))


def is_uncompiled(case: Case) -> bool:
    """Return whether the variant of `case` is in eager mode, transformed or not."""
    return case.backend in ("eager", NO_BACKEND)


def compile_arguments(case: Case, workload: Workload) -> dict[str, Any]:
    """Return the arguments of torch.compile for `case`."""
    options: dict[str, Any] = {
        "backend": resolve_backend(case.backend),
        "dynamic": workload.dynamic,
        "fullgraph": workload.fullgraph,
        **compile_options(case),
    }
    own = checked_options(workload.compile, backend=case.backend)
    if own and case.backend == "inductor":
        # torch.compile takes either a mode or options; a mode is a set of options.
        options["options"] = {**torch._inductor.list_mode_options(case.mode), **own}
    elif case.backend == "inductor":
        options["mode"] = case.mode
    elif own:
        options["options"] = {**options.get("options", {}), **own}
    return options


def script_arguments(case: Case, workload: Workload) -> dict[str, Any]:
    """Return the arguments of torch.compile that also have the config of Inductor."""
    arguments = compile_arguments(case, workload)
    own = workload.compile.inductor
    if own and case.backend == "inductor":
        mode = arguments.pop("mode", case.mode)
        known = arguments.get("options") or torch._inductor.list_mode_options(mode)
        arguments["options"] = {**known, **own}
    return arguments


def compile_model(model: torch.nn.Module, *, case: Case, workload: Workload) -> Callable[..., Any]:
    """Return `model` under torch.compile with the settings of `case`; `model` itself stays eager.

    With regional compilation the repeated blocks are compiled within `model`.
    """
    options = compile_arguments(case, workload)
    if workload.transform.is_regional:
        for block in repeated_blocks(model):
            block.compile(**options)
        return model
    compiled: Callable[..., Any] = torch.compile(model, **options)
    return compiled


def family_cpu_s() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def time_compilation(
    step: Callable[[], object],
    *,
    device: Device,
    clock: CompileClock | None = None,
    cpu_s: Callable[[], float] = family_cpu_s,
    kernel: PerfInterface | None = None,
) -> CompileTimes:
    """Return the times of the first calls of `step`, which compile, and of later ones.

    `clock` records the events of the compilations.
    """
    booked = CompileClock() if clock is None else clock
    with closing(InstructionCounter(kernel=kernel)) as counter:
        counts = [counter.read()]
        with recorded_peaks(device) as peaks:
            start_cpu_s = cpu_s()
            first = tuple(device.time_call(step) for _ in range(NUM_COMPILE_CALLS))
            middle_cpu_s = cpu_s()
        counts.append(counter.read())
        phases_s, num_compiles = dict(booked.phases_s), booked.num_compiles()
        later = tuple(device.time_call(step) for _ in range(NUM_COMPILE_CALLS))
        counts.append(counter.read())
    return CompileTimes(
        instructions=_compile_instructions(counts),
        missing_instructions=counter.missing,
        first_calls_s=first,
        later_calls_s=later,
        phases_s=phases_s,
        num_late_compiles=booked.num_compiles() - num_compiles,
        first_cpu_s=middle_cpu_s - start_cpu_s,
        later_cpu_s=cpu_s() - middle_cpu_s,
        peaks=peaks,
    )


def _compile_instructions(counts: Sequence[float | None]) -> float | None:
    """Return the instructions between the first two readings beyond those between the last two."""
    start, middle, end = counts
    if start is None or middle is None or end is None:
        return None
    return max(0.0, (middle - start) - (end - middle))


def runs_compiled_code(step: Callable[[], object]) -> bool:
    """Return whether one call of `step` enters a function that Dynamo compiled."""
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities) as trace:
        step()
    return any(event.name.startswith(COMPILED_REGION) for event in trace.events() or ())


def effective_mode(
    case: Case, *, counts: CompileCounts, device: Device
) -> tuple[str, tuple[RunWarning, ...]]:
    """Return the effective mode, with warnings if it differs from the requested one."""
    if not is_by_dynamo(case):
        return case.mode, ()
    if counts.num_graphs == 0:
        return "eager", (
            fallback(
                case.mode,
                ran="eager",
                why=f"Dynamo captured no graph: every operator ran eagerly{_skip_reason(counts)}",
                hint="run with TORCH_LOGS=graph_breaks to see what stopped it",
            ),
        )
    if case.backend != "inductor":
        return case.mode, ()
    mode = case.mode
    reasons: list[str] = []
    notes: list[RunWarning] = []
    if mode in CUDAGRAPH_MODES:
        if why := _no_cudagraphs_reason(counts, device=device):
            mode = CUDAGRAPH_MODES[mode]
            reasons.append(why)
        elif has_recorded_cudagraphs() is None:
            notes.append(UNKNOWN_CUDAGRAPHS)
    if mode in AUTOTUNE_MODES and counts.num_autotuned == 0:
        notes.append(NOTHING_AUTOTUNED)
    if mode != case.mode:
        hint = (
            "read the skip reasons in the result's details"
            if device.is_cuda
            else f"a CUDA device is needed to see what {case.mode} can do"
        )
        notes.insert(0, fallback(case.mode, ran=mode, why="; ".join(reasons), hint=hint))
    return mode, tuple(notes)


def _skip_reason(counts: CompileCounts) -> str:
    if not counts.skipped:
        return ""
    first = counts.skipped[0]
    return f" ({first.reason}{first.end})"


def _no_cudagraphs_reason(counts: CompileCounts, *, device: Device) -> str:
    if not device.is_cuda:
        return "CUDA graphs need a CUDA device"
    if counts.num_cudagraph_skips > 0:
        reasons = "; ".join(counts.cudagraph_skip_reasons) or "no reason given"
        times = counted(counts.num_cudagraph_skips, "time")
        return f"Inductor skipped CUDA graphs {times} ({reasons})"
    if has_recorded_cudagraphs() is False:
        return "no CUDA graph was recorded"
    return ""


def fallback(requested: str, *, ran: str, why: str, hint: str) -> RunWarning:
    """Return the warning that another mode ran than the requested one."""
    return RunWarning(
        code="mode-fallback",
        text=f"{requested} fell back to {ran}: {why}",
        hint=hint,
    )
