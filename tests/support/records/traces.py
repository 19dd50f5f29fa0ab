"""Traces in the format of torch.profiler, made by hand."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from compile_hud.runner.protocol.kernel_notes import KernelNotes
from compile_hud.runner.traces.profile import KernelReport, read_kernels

Json = dict[str, Any]


def span(
    name: str, start_us: float, end_us: float, *, category: str = "cpu_op", **args: Any
) -> Json:
    """Return one complete event of the host; all of `args` but `tid` are the event's own."""
    thread = args.pop("tid", 1)
    return {
        "ph": "X",
        "cat": category,
        "name": name,
        "pid": 1,
        "tid": thread,
        "ts": start_us,
        "dur": end_us - start_us,
        "args": args,
    }


def operator(
    name: str,
    start_us: float,
    end_us: float,
    *,
    dims: Sequence[Any] = (),
    types: Sequence[str] = (),
    **args: Any,
) -> Json:
    """Return an operator; without `types` every input is float."""
    event = span(name, start_us, end_us, **args)
    if dims:
        event["args"]["Input Dims"] = list(dims)
        event["args"]["Input type"] = list(types) or ["float"] * len(dims)
    return event


def annotation(name: str, start_us: float, end_us: float, **args: Any) -> Json:
    """Return the event that record_function writes."""
    return span(name, start_us, end_us, category="user_annotation", **args)


def launch(correlation: int, at_us: float, *, name: str = "cudaLaunchKernel", **args: Any) -> Json:
    """Return the launch of a kernel, which takes a microsecond."""
    return span(name, at_us, at_us + 1, category="cuda_runtime", correlation=correlation, **args)


def on_gpu(
    name: str,
    start_us: float,
    end_us: float,
    *,
    correlation: int,
    stream: int = 7,
    category: str = "kernel",
    **args: Any,
) -> Json:
    """Return a kernel, or a copy, on a stream of the GPU 0."""
    event = span(name, start_us, end_us, category=category)
    event["pid"], event["tid"] = 0, stream
    event["args"] = {"correlation": correlation, "stream": stream, "device": 0, **args}
    return event


def write_trace(path: Path, events: Sequence[Json], **fields: Any) -> Path:
    """Write a trace, packed if the name says so, and return its path."""
    text = json.dumps({"schemaVersion": 1, **fields, "traceEvents": list(events)}, indent=2)
    is_packed = path.name.endswith(".gz")
    path.write_bytes(gzip.compress(text.encode()) if is_packed else text.encode())
    return path


def report_of(
    folder: Path,
    events: Sequence[Json],
    *,
    notes: KernelNotes | None = None,
    latency_s: float | None = None,
    peaks: Mapping[str, float] | None = None,
) -> KernelReport:
    """Return the report on a trace with these events."""
    path = write_trace(folder / "trace.json", events)
    return read_kernels(path, notes=notes or KernelNotes(), latency_s=latency_s, peaks=peaks or {})
