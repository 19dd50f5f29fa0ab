"""The kernels of one iteration and where its time goes, from a profiler's trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from compile_hud.db.errors import RecordError
from compile_hud.db.records.kernels import (
    CACHE_LOOKUP,
    Kernel,
    KernelSource,
    Profile,
    TimelineSpan,
)
from compile_hud.db.shared.text import counted
from compile_hud.runner.errors import TraceError
from compile_hud.runner.files.json_files import read_json
from compile_hud.runner.protocol.kernel_notes import KernelNotes
from compile_hud.runner.traces.cpu import find_on_cpu
from compile_hud.runner.traces.gpu import find_on_gpu
from compile_hud.runner.traces.intervals import whole
from compile_hud.runner.traces.iteration import IterationWork, timeline_spans
from compile_hud.runner.traces.kernel_rows import NS_PER_S, Facts, kernels_of
from compile_hud.runner.traces.timeline import Timeline, read_timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelReport:
    """The kernels of a trace, the code of the generated ones, and the breakdown of the time.

    `devices` are the names of the GPUs that ran them, each once; empty on a CPU, and where the
    trace has no names. `guard_s` is the time of Dynamo's cache look-ups in each iteration, empty
    where nothing was compiled. `gap_operators_s` and `gap_guards_s` are operators and look-ups
    between two graphs of one call on a CPU, empty if there is no such gap.
    """

    kernels: tuple[Kernel, ...]
    sources: tuple[KernelSource, ...]
    profile: Profile
    devices: tuple[str, ...] = ()
    guard_s: tuple[float, ...] = ()
    gap_operators_s: tuple[float, ...] = ()
    gap_guards_s: tuple[float, ...] = ()


def load_kernel_notes(path: Path) -> KernelNotes:
    """Return the notes in the file at `path`; raise RecordError when they cannot be read."""
    try:
        return KernelNotes.from_json(read_json(path))
    except (OSError, RecordError) as error:
        raise RecordError(
            f"cannot read the kernel notes in {path}: {error}", path=path, reason=str(error)
        ) from error


def read_kernels(
    path: Path, *, notes: KernelNotes, latency_s: float | None, peaks: Mapping[str, float]
) -> KernelReport:
    """Return the kernels of the trace at `path`, the longest first, and its profile.

    The profile names no trace: the caller that stores it does. `latency_s` is the median without
    the profiler, `peaks` are the device's measured ones
    (runner/measure/resources/device_peaks.py); both may be unknown. Raises TraceError when the
    trace is broken, has nothing to show, or is not the one of `notes`.
    """
    timeline = read_timeline(path, notes=notes)
    _check(timeline, notes)
    is_gpu = len(timeline.device) > 0
    work = find_on_gpu(timeline) if is_gpu else find_on_cpu(timeline, notes=notes)
    if work.iteration_ns == 0:
        raise TraceError(
            f"{path}: the iterations of this trace have no duration. Record it again, with"
            " torch.profiler.profile as a context around them",
            path=path,
        )
    facts = Facts(
        device="cuda" if is_gpu else "cpu",
        num_iterations=work.num_iterations,
        iteration_ns=work.iteration_ns,
        notes=notes,
        peaks=peaks,
    )
    kernels, sources = kernels_of(work.tallies, facts=facts)
    return KernelReport(
        kernels=kernels,
        sources=sources,
        profile=_profile(work, latency_s, spans=timeline_spans(work.timeline, kernels=kernels)),
        devices=_devices(timeline),
        guard_s=_guard_s(timeline),
        gap_operators_s=tuple(number / NS_PER_S for number in work.gap_operators_ns),
        gap_guards_s=tuple(number / NS_PER_S for number in work.gap_guards_ns),
    )


def _guard_s(timeline: Timeline) -> tuple[float, ...]:
    """Return the seconds of the cache look-ups that began in each iteration, in their order."""
    host = timeline.host
    is_lookup = np.array([call.name == CACHE_LOOKUP for call in timeline.calls], dtype=np.bool_)
    calls = whole(host.calls)
    starts, ends = whole(host.starts), whole(host.ends)
    chosen = is_lookup[calls] if len(calls) else np.zeros(0, dtype=np.bool_)
    if not chosen.any():
        return ()
    starts, ends = starts[chosen], ends[chosen]
    return tuple(
        float((ends - starts)[(since <= starts) & (starts < until)].sum()) / NS_PER_S
        for since, until in sorted(timeline.iterations)
    )


def _devices(timeline: Timeline) -> tuple[str, ...]:
    """Return the names of the GPUs with work; a host may have others of another model."""
    names = timeline.header.devices
    used = {timeline.lanes[lane][0] for lane in timeline.device.lanes}
    numbers = sorted(number for number in used if isinstance(number, int))
    known = [names[number] for number in numbers if 0 <= number < len(names)]
    return tuple(dict.fromkeys(filter(None, known or (names if used else ()))))


def _profile(
    work: IterationWork, latency_s: float | None, *, spans: tuple[TimelineSpan, ...]
) -> Profile:
    return Profile(
        num_iterations=work.num_iterations,
        iteration_s=work.iteration_ns / NS_PER_S,
        latency_s=latency_s,
        components=work.components(),
        busy=work.busy,
        is_graph_replay=work.is_graph_replay,
        overlap_s=work.overlap_ns / work.num_iterations / NS_PER_S,
        timeline=spans,
    )


def _check(timeline: Timeline, notes: KernelNotes) -> None:
    """Raise TraceError when the trace is not the one of the notes."""
    num_iterations = len(timeline.iterations)
    if notes.num_iterations and num_iterations != notes.num_iterations:
        raise TraceError(
            f"{timeline.path}: the trace has {counted(num_iterations, 'iteration')}, its notes say"
            f" {notes.num_iterations}. Give the notes that were written with this trace, or none",
            path=timeline.path,
            num_iterations=num_iterations,
        )
    if notes.device == "cuda" and not len(timeline.device):
        raise TraceError(
            f"{timeline.path}: the trace has no kernel of a GPU, its notes say that it was recorded"
            " on one. Record ProfilerActivity.CUDA, with no other profiler on the GPU",
            path=timeline.path,
        )
