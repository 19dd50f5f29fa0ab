"""Compare our totals per kernel with those of Holistic Trace Analysis, from the same trace.

`--peer` is the Python of an environment with `pip install HolisticTraceAnalysis`. `--trace` is a
trace of a GPU with the profiler's steps, such as that project's own tests/data/trace_diff/control.
Compares the time of every kernel and the communication that nothing hides. Writes one document.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.startup import RESULTS, BenchmarkError
from compile_hud.runner.protocol.kernel_notes import KernelNotes
from compile_hud.runner.traces.profile import read_kernels

# 1: first version.
SCHEMA_VERSION = 1
# The peer leaves the last step out by default, and logs to standard output.
PEER_CODE = """
import importlib.metadata, json, sys
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_dir=sys.argv[1], include_last_profiler_step=True)
kinds, kernels = analysis.get_gpu_kernel_breakdown(
    visualize=False, num_kernels=100_000, duration_ratio=1.0)
json.dump({
    "version": importlib.metadata.version("HolisticTraceAnalysis"),
    "kernels_us": dict(zip(kernels["name"], map(float, kernels["sum (us)"]))),
    "kinds_us": dict(zip(kinds["kernel_type"], map(float, kinds["sum"]))),
}, open(sys.argv[2], "w"))
"""
# The peer's name for the time in which a rank only communicates.
PEER_EXPOSED = "COMMUNICATION"


def ask_peer(python: str, trace: Path) -> dict[str, Any]:
    """Return the peer's report on the trace, which must be the only one in its folder."""
    with tempfile.TemporaryDirectory() as folder:
        inputs, answer = Path(folder) / "traces", Path(folder) / "answer.json"
        inputs.mkdir()
        (inputs / trace.name).symlink_to(trace.resolve())
        command = [python, "-c", PEER_CODE, str(inputs), str(answer)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise BenchmarkError(f"{python} cannot analyse {trace}: {done.stderr[-1000:]}")
        document: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
        return document


def compare(trace: Path, *, python: str) -> dict[str, Any]:
    """Return the deviations of our numbers from the peer's, as shares of the peer's."""
    theirs = ask_peer(python, trace)
    report = read_kernels(trace, notes=KernelNotes(), latency_s=None, peaks={})
    num_iterations = report.profile.num_iterations
    ours: Counter[str] = Counter()
    for kernel in report.kernels:
        ours[kernel.name] += kernel.total_s * num_iterations * 1e6
    totals = theirs["kernels_us"]
    exposed_us = report.profile.components.get("communication", 0.0) * num_iterations * 1e6
    peer_exposed_us = theirs["kinds_us"].get(PEER_EXPOSED, 0.0)
    return {
        "trace": trace.name,
        "peer_version": theirs["version"],
        "num_iterations": num_iterations,
        "num_kernels": len(ours),
        "num_peer_kernels": len(totals),
        "num_common": len(set(ours) & set(totals)),
        "largest_difference": max(
            abs(ours[name] - total) / total for name, total in totals.items() if total
        ),
        "exposed_communication_us": round(exposed_us, 3),
        "peer_exposed_communication_us": peer_exposed_us,
    }


def main() -> int:
    """Compare, write the document and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", required=True, help="a Python with HolisticTraceAnalysis")
    parser.add_argument("--trace", type=Path, action="append", required=True)
    parser.add_argument("--output", type=Path, default=RESULTS / "trace_peer.json")
    options = parser.parse_args()
    document = {
        "schema_version": SCHEMA_VERSION,
        "measured_at": datetime.now(timezone.utc).isoformat(),
        "traces": [compare(trace, python=options.peer) for trace in options.trace],
    }
    options.output.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    print(json.dumps(document, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
