"""Measure the speed and the memory of reading profiler traces.

Makes up traces in the form in which torch.profiler writes those of a GPU: operators with shapes,
launches, flow arrows, kernels on two streams. One has as many events as a large recorded one, one
has 500 MB. Reads each in processes of their own: event by event (`events`), into the table of
kernels (`kernels`), and the small one by `json.load` as most tools do. Traces named on the command
line are read as well. The library ijson reads the same values as we
do (`values`). Writes one document.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import ijson

from benchmarks.startup import RESULTS, describe_machine
from compile_hud.runner.files.stream_reader import open_unpacked
from compile_hud.runner.protocol.kernel_notes import KernelNotes
from compile_hud.runner.traces.chrome_trace import MAX_EVENT_BYTES, JsonStream, read_events
from compile_hud.runner.traces.profile import read_kernels

# 1: first version.
SCHEMA_VERSION = 1
# The A/B traces in the tests of Holistic Trace Analysis have so many events.
NUM_EVENTS = 110_000
LARGE_BYTES = 500_000_000
# Launches between two ranges of an iteration.
LAUNCHES_PER_ITERATION = 500
KERNELS = (
    "ampere_sgemm_128x64_tn",
    "triton_poi_fused_add_gelu_0",
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>,"
    " std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul>)",
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
)


def made_up_events() -> Iterator[str]:
    """Yield the events of launch after launch, without end."""
    number = 0
    while True:
        at_us = 20.0 * number
        if number % LAUNCHES_PER_ITERATION == 0:
            step = {
                "ph": "X", "cat": "user_annotation", "name": "hud/iteration", "pid": 100,
                "tid": 100, "ts": at_us, "dur": 20.0 * LAUNCHES_PER_ITERATION - 1,
                "args": {"External id": number},
            }  # fmt: skip
            yield json.dumps(step, indent=2)
        for event in _launch(number, at_us):
            yield json.dumps(event, indent=2)
        number += 1


def _launch(number: int, at_us: float) -> list[dict[str, Any]]:
    """Return an operator, its launch, the arrow to its kernel, and the kernel."""
    rows = 64 * (1 + number % 40)
    host: dict[str, Any] = {"ph": "X", "pid": 100, "tid": 100}
    shapes = {
        "External id": number, "Record function id": 0, "Ev Idx": number,
        "Concrete Inputs": ["", ""], "Input type": ["float", "float"],
        "Input Strides": [[1024, 1], [1, 1024]], "Input Dims": [[rows, 1024], [1024, 1024]],
    }  # fmt: skip
    stream = 7 if number % len(KERNELS) < len(KERNELS) - 1 else 20
    arrow = {"id": number, "cat": "ac2g", "name": "ac2g"}
    return [
        host | {"cat": "cpu_op", "name": "aten::mm", "ts": at_us, "dur": 15.5, "args": shapes},
        host
        | {"cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": at_us + 5, "dur": 4.25}
        | {"args": {"External id": number, "cbid": 211, "correlation": number}},
        host | {"ph": "s", "ts": at_us + 5, **arrow},
        {"ph": "f", "pid": 0, "tid": stream, "ts": at_us + 9, **arrow, "bp": "e"},
        {
            "ph": "X", "cat": "kernel", "name": KERNELS[number % len(KERNELS)], "pid": 0,
            "tid": stream, "ts": at_us + 9, "dur": 12.125,
            "args": {
                "External id": number, "device": 0, "context": 1, "stream": stream,
                "correlation": number, "registers per thread": 90, "shared memory": 49152,
                "blocks per SM": 0.59, "warps per SM": 2.37, "grid": [rows, 1, 1],
                "block": [128, 1, 1], "est. achieved occupancy %": 31,
            },
        },
    ]  # fmt: skip


def write_trace(path: Path, *, num_events: int | None = None, num_bytes: int = 0) -> None:
    """Write a made-up trace of `num_events` or, if that is None, of `num_bytes`."""
    with gzip.open(path, "wt") if path.suffix == ".gz" else path.open("w") as file:
        num_written = file.write('{"schemaVersion": 1, "traceEvents": [\n')
        for number, text in enumerate(made_up_events()):
            if number == num_events or (num_events is None and num_written >= num_bytes):
                break
            num_written += file.write(",\n" + text if number else text)
        file.write("]}\n")


def _count_events(path: Path) -> int:
    return sum(1 for _ in read_events(path))


def _count_kernels(path: Path) -> int:
    report = read_kernels(path, notes=KernelNotes(), latency_s=None, peaks={})
    return len(report.kernels)


def _load_json(path: Path) -> int:
    with open_unpacked(path) as file:
        return len(json.load(file)["traceEvents"])


def _values(path: Path) -> int:
    with JsonStream(path) as stream:
        stream.expect("{")
        while stream.peek_item() == '"':
            name = stream.take()
            stream.expect(":")
            if name == "traceEvents":
                return sum(1 for _ in stream.items(max_bytes=MAX_EVENT_BYTES))
            stream.take()
    return 0


def _stream_json(path: Path) -> int:
    with open_unpacked(path) as file:
        return sum(1 for _ in ijson.items(file, "traceEvents.item", use_float=True))


def _nothing(path: Path) -> int:
    del path
    return 0


WAYS: dict[str, Callable[[Path], int]] = {
    "nothing": _nothing,
    "events": _count_events,
    "kernels": _count_kernels,
    "json.load": _load_json,
    "values": _values,
    "ijson": _stream_json,
}


def read_here(way: str, path: Path) -> dict[str, Any]:
    """Return the cost of reading in this process, which has read nothing else."""
    started_s, started_cpu_s = time.perf_counter(), time.process_time()
    num_kernels = WAYS[way](path)
    return {
        "num_found": num_kernels,
        "wall_s": round(time.perf_counter() - started_s, 3),
        "cpu_s": round(time.process_time() - started_cpu_s, 3),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def read_apart(way: str, path: Path) -> dict[str, Any]:
    """Return the cost of reading in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.trace_reading", "--read", way, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def measure(path: Path, *, ways: tuple[str, ...]) -> dict[str, Any]:
    """Return the cost of each way of reading the trace."""
    timings = {way: read_apart(way, path) for way in ways}
    num_events = timings["events"]["num_found"]
    return {
        "trace": path.name,
        "num_bytes": path.stat().st_size,
        "num_events": num_events,
        "events_per_cpu_s": round(num_events / timings["events"]["cpu_s"]),
        **timings,
    }


def main() -> int:
    """Measure, write the document and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=RESULTS / "trace_reading.json")
    parser.add_argument("--trace", type=Path, action="append", default=[], help="one more trace")
    parser.add_argument("--read", nargs=2, metavar=("WAY", "TRACE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        print(json.dumps(read_here(options.read[0], Path(options.read[1]))))
        return 0
    document: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "measured_at": datetime.now(timezone.utc).isoformat(),
        "machine": describe_machine(),
    }
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder) / "small.json.gz", Path(folder) / "large.json"
        write_trace(small, num_events=NUM_EVENTS)
        write_trace(large, num_bytes=LARGE_BYTES)
        traces = [
            measure(path, ways=("events", "kernels", "json.load", "values", "ijson"))
            for path in (small, *options.trace)
        ]
        document["python_alone"] = read_apart("nothing", small)
        traces.append(measure(large, ways=("events", "kernels", "values", "ijson")))
    document["traces"] = traces
    document["load_after"] = [round(value, 2) for value in os.getloadavg()]
    options.output.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(document, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
