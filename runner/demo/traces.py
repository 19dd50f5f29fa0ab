"""Chrome traces of the newest synthetic results, written from their timelines.

The format is that of torch.profiler: an event per kernel call, and one for the iteration.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from compile_hud.db.records.kernels import Kernel, profile_of
from compile_hud.db.records.results import CaseResult, RunDocument
from compile_hud.db.shared.trace_paths import trace_name

_US_PER_S = 1e6
_STREAM = 7


def write_traces(documents: Iterable[RunDocument], *, folder: Path) -> int:
    """Write the traces of all results with a timeline into `folder`; return their number.

    Raises OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    num_written = 0
    for document in documents:
        for result in document.results:
            name = trace_name(result.id)
            events = trace_events(result)
            if name is None or not events:
                continue
            content = json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()
            (folder / name).write_bytes(gzip.compress(content, mtime=0))
            num_written += 1
    return num_written


def trace_events(result: CaseResult) -> list[dict[str, Any]]:
    """Return the events of the iteration of a synthetic result, none without a timeline."""
    profile = profile_of(result.details)
    if profile is None or not profile.timeline:
        return []
    events = [
        _event("hud/iteration", start_s=0.0, duration_s=profile.iteration_s, tid=1, args={})
        | {"cat": "user_annotation"}
    ]
    for number, span in enumerate(profile.timeline):
        kernel = result.kernels[span.kernel]
        args = {"correlation": number + 1, "stream": _STREAM, "device": 0, **_launch(kernel)}
        events.append(
            _event(
                kernel.name,
                start_s=span.start_s,
                duration_s=span.duration_s,
                tid=_STREAM,
                args=args,
            )
        )
    return events


def _launch(kernel: Kernel) -> dict[str, Any]:
    names = {"grid": "grid", "block": "block", "registers": "registers per thread"}
    return {label: kernel.launch[name] for name, label in names.items() if name in kernel.launch}


def _event(
    name: str, *, start_s: float, duration_s: float, tid: int, args: dict[str, Any]
) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": "kernel",
        "name": name,
        "pid": 0,
        "tid": tid,
        "ts": round(_US_PER_S * start_s, 3),
        "dur": round(_US_PER_S * duration_s, 3),
        "args": args,
    }
