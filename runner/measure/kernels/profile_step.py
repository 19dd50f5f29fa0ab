"""The step `kernels` of a launch: a few iterations under the profiler, after every sample.

It writes two files: the Chrome trace, and next to it the notes (runner/protocol/kernel_notes.py).
The notes have this process's knowledge of its kernels that no trace has: their code, their origin,
their bytes. The runner reads both; this step judges nothing.

The code is the sampled code: nothing is compiled again. Each iteration is a range `hud/iteration`
(NVTX too on CUDA). In an eager case each call of a module is a range `hud/module:PATH`, in compiled
code each call of a library. Generated kernels have their modules in the notes.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch.nn.modules.module import (
    register_module_forward_hook,
    register_module_forward_pre_hook,
)
from torch.profiler import ProfilerActivity

from compile_hud.runner.measure.compile.compiler import is_uncompiled
from compile_hud.runner.measure.context import Context, Forward
from compile_hud.runner.measure.kernels.generated_code import (
    FirstCalls,
    generated_kernels,
    register_spills,
    visible_kernels,
)
from compile_hud.runner.measure.kernels.host_times import report_host_times
from compile_hud.runner.measure.kernels.library_calls import shown_library_calls
from compile_hud.runner.measure.kernels.profiler_ranges import named_range
from compile_hud.runner.measure.kernels.provenance import Origins, Provenance
from compile_hud.runner.measure.latency.timing import garbage_collection_paused
from compile_hud.runner.measure.runtimes.registry import is_exported
from compile_hud.runner.protocol.files import write_json
from compile_hud.runner.protocol.kernel_notes import KernelNote, KernelNotes
from compile_hud.runner.protocol.messages import notes_path

# A trace shows the kernels, not the latency: few iterations are enough, and the file stays small.
MAX_ITERATIONS = 10
BUDGET_S = 0.3


def report_kernels(context: Context, forward: Forward) -> None:
    """Write the trace of some iterations through `forward`, and the notes on its kernels.

    If another profiler is active, the iterations run for it and no file is written. Another runtime
    on a CPU has no trace either.
    """
    if context.request.is_watched:
        _show(context, forward)
        return
    if is_exported(context.request.case) and not context.device.is_cuda:
        # The profiler sees torch's operators and CUDA's kernels, and such a case has neither.
        return
    report_host_times(context, forward)
    path = Path(context.request.trace_path)
    num_iterations = _num_iterations(context)
    with context.device.pinned(), garbage_collection_paused(), _shown(context) as calls:
        _profile(context, forward, num_iterations=num_iterations, path=path)
    notes = KernelNotes(
        device=context.request.case.device,
        num_iterations=num_iterations,
        kernels=_notes(context.origins, calls=calls, vector_isas=context.vector_isas),
        call_lines=context.call_lines,
    )
    write_json(notes_path(path), notes.to_json())


@contextmanager
def _shown(context: Context) -> Iterator[FirstCalls]:
    with shown_library_calls(context.library_calls), visible_kernels() as calls:
        yield calls


def _show(context: Context, forward: Forward) -> None:
    step, device = context.step(forward), context.device
    with device.pinned(), garbage_collection_paused():
        for _ in range(_num_iterations(context)):
            with named_range("hud/iteration", device=device):
                step()
                device.synchronize()


def _num_iterations(context: Context) -> int:
    latency_s = statistics.median(context.findings.metrics["latency_s"].samples)
    return max(1, min(MAX_ITERATIONS, int(BUDGET_S / latency_s)))


def _profile(context: Context, forward: Forward, *, num_iterations: int, path: Path) -> None:
    step, device = context.step(forward), context.device
    activities = [ProfilerActivity.CPU]
    if device.is_cuda:
        activities.append(ProfilerActivity.CUDA)
    is_shown = is_uncompiled(context.request.case)
    modules = module_ranges(context.variant.model) if is_shown else nullcontext()
    with (
        modules,
        torch.profiler.profile(
            activities=activities,
            record_shapes=True,
            # The first iteration pays for starting the profiler.
            schedule=torch.profiler.schedule(wait=0, warmup=1, active=num_iterations, repeat=1),
            on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
        ) as profiler,
    ):
        for _ in range(1 + num_iterations):
            with named_range("hud/iteration", device=device):
                step()
                # The kernels of an iteration must end in its range.
                device.synchronize()
            profiler.step()


@contextmanager
def module_ranges(model: torch.nn.Module) -> Iterator[None]:
    """Show each call of a module of `model` as a range `hud/module:PATH` while the block runs."""
    paths = {module: path for path, module in model.named_modules() if path}
    opened: list[torch.profiler.record_function] = []

    def enter(module: torch.nn.Module, _inputs: Any) -> None:
        if module in paths:
            opened.append(torch.profiler.record_function(f"hud/module:{paths[module]}"))
            opened[-1].__enter__()

    def leave(module: torch.nn.Module, _inputs: Any, _output: Any) -> None:
        if module in paths and opened:
            opened.pop().__exit__(None, None, None)

    handles = [
        register_module_forward_pre_hook(enter),
        register_module_forward_hook(leave, always_call=True),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _notes(
    origins: Origins, *, calls: FirstCalls, vector_isas: Mapping[str, str]
) -> dict[str, KernelNote]:
    """Return the notes on each generated kernel, under its name in the trace."""
    notes = {}
    spills = register_spills()
    for kernel in generated_kernels():
        graphs = origins.get(kernel.name, [])
        known = graphs[kernel.index] if kernel.index < len(graphs) else Provenance()
        work = known.work
        notes[kernel.shown_name] = KernelNote(
            language=kernel.language,
            source=kernel.text,
            num_bytes=work.num_bytes if work else None,
            flops=work.flops if work else None,
            dtype=work.dtype if work else "",
            origins=tuple(known.origins),
            arguments=tuple(calls.get(kernel.shown_name, ())),
            spills=spills.get(kernel.shown_name),
            vector_isa=vector_isas.get(kernel.text),
        )
    return notes
