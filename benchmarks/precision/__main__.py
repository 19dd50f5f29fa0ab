"""Measure the coefficient of variation between fresh estimates of ours and of peers, at equal time.

Each estimate takes `--seconds` of wall time, everything included: starting Python, importing torch
and the model, building, compiling with a filled cache, and the samples of eager and compiled. The
tools take turns, model by model, so that a drift of the machine affects all of them. The document
is written anew after each estimate.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from benchmarks.precision import ours
from benchmarks.precision.agreement import OURS, summarise
from benchmarks.startup import RESULTS, ROOT, describe_machine
from compile_hud.runner.execution.worker_process import WorkerHost
from compile_hud.runner.protocol.files import write_json

# 1: first version.
SCHEMA_VERSION = 1
MODELS = ("bert", "gpt2", "resnet", "vit", "unet")
PEERS = ("plain loop", "blocked_autorange", "interleaved loop")
PYPERF = "pyperf"
NOT_RUN = {"triton do_bench": "times CUDA kernels only; this machine has no GPU"}
# pyperf repeats whole processes; this share of the time is for their start, the rest for values.
PYPERF_START_SHARE = 0.6
PYPERF_VALUES = 3


class PeerError(RuntimeError):
    """A peer's process failed."""


class Bench:
    """One model's tools, each with a filled compile cache."""

    def __init__(self, model: str, *, shape: str, folder: Path) -> None:
        self.model = model
        self.shape = shape
        self._environment = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": f"{ROOT}:{ROOT}/src",
            "TORCHINDUCTOR_CACHE_DIR": str(folder / model / "peers"),
        }
        self._folders = ours.WorkerFolders(home=folder / "home", cache=folder / model / "ours")
        self._prepared: dict[str, float] = {}

    def prepare(self) -> None:
        """Fill both caches, then measure start, build and latencies with them."""
        self._run("benchmarks.precision.peers", "prepare", self.model, self.shape)
        started_s = time.monotonic()
        self._prepared = self._run("benchmarks.precision.peers", "prepare", self.model, self.shape)
        self._prepared["process_s"] = time.monotonic() - started_s
        host = WorkerHost(python=Path(sys.executable), home=self._folders.home)
        case = ours.order(self.model, self.shape)
        try:
            ours.launch(host, case, number=0, folders=self._folders)
        finally:
            host.close()

    def estimate(self, tool: str, *, seconds: float) -> dict[str, Any]:
        """Return one estimate by `tool` with the wall time it took; raise PeerError."""
        started_s = time.monotonic()
        until = started_s + seconds
        if tool == OURS:
            estimates = ours.estimate(self.model, self.shape, folders=self._folders, until=until)
        elif tool == PYPERF:
            estimates = self._pyperf(seconds)
        else:
            extra = ("--until", repr(until))
            estimates = self._run(
                "benchmarks.precision.peers", tool, self.model, self.shape, *extra
            )
        return {
            "tool": tool,
            "model": self.model,
            **estimates,
            "wall_s": round(time.monotonic() - started_s, 2),
            "load": round(os.getloadavg()[0], 2),
        }

    def _pyperf(self, seconds: float) -> dict[str, float]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "pyperf.json"
            options = pyperf_options(self._prepared, seconds=seconds)
            command = (self.model, self.shape, *options, "--quiet", "--copy-env", "-o", str(path))
            self._run("benchmarks.precision.peer_pyperf", *command, is_json=False)
            return read_pyperf(json.loads(path.read_text(encoding="utf-8")))

    def _run(self, module: str, *arguments: str, is_json: bool = True) -> dict[str, float]:
        done = subprocess.run(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise PeerError(f"{module} {' '.join(arguments)}:\n{done.stderr[-2000:]}")
        if not is_json:
            return {}
        document: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
        return document


def pyperf_options(prepared: Mapping[str, float], *, seconds: float) -> tuple[str, ...]:
    """Return pyperf's options for so many seconds: worker processes, values and calls a value.

    `prepared` has the seconds in which a process with both starts, builds and compiles, and the
    latencies. A given number of calls a value spares pyperf its calibrating process.
    """
    both_s = 2 * (prepared["process_s"] - prepared["compile_s"]) + prepared["compile_s"]
    num_processes = max(1, int(PYPERF_START_SHARE * seconds / both_s))
    left_s = max(0.2, seconds - num_processes * both_s)
    # One more than the values: the warm-up.
    value_s = left_s / (2 * num_processes * (PYPERF_VALUES + 1))
    loops = [max(1, round(value_s / prepared[name])) for name in ("eager_s", "compiled_s")]
    return (
        *("--loops-of", ",".join(map(str, loops)), "--processes", str(num_processes)),
        *("--values", str(PYPERF_VALUES), "--warmups", "1"),
    )


def read_pyperf(document: Mapping[str, Any]) -> dict[str, float]:
    """Return the medians of a pyperf document's two benchmarks."""
    results = {}
    for item in document["benchmarks"]:
        metadata = {**document.get("metadata", {}), **item.get("metadata", {})}
        values = sorted(value for run in item["runs"] for value in run.get("values", ()))
        middle = len(values) // 2
        even = len(values) % 2 == 0
        median = (values[middle - 1] + values[middle]) / 2 if even else values[middle]
        results[f"{metadata['name']}_s"] = median
    return results


def turns(tools: Sequence[str], *, number: int) -> list[str]:
    """Return the tools in the order of round `number`: each goes first as often as the others."""
    first = number % len(tools)
    return [*tools[first:], *tools[:first]]


def document_of(estimates: list[dict[str, Any]], *, setting: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document to write."""
    return {
        "schema_version": SCHEMA_VERSION,
        "benchmark": "precision",
        "at": datetime.now(timezone.utc).isoformat(),
        **setting,
        "not_run": NOT_RUN,
        "summary": summarise(estimates),
        "estimates": estimates,
    }


def main() -> int:
    """Measure and update the document after each estimate; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="+", default=list(MODELS))
    parser.add_argument("--shape", default="small")
    parser.add_argument("--tools", nargs="+", default=[*PEERS, PYPERF, OURS])
    parser.add_argument("--estimates", type=int, default=10, help="for each tool and model")
    parser.add_argument("--seconds", type=float, default=20.0, help="wall time of an estimate")
    parser.add_argument("--caches", type=Path, help="compile caches to keep and to find again")
    parser.add_argument("--output", type=Path, default=RESULTS / "precision.json")
    arguments = parser.parse_args()
    setting = {
        "machine": describe_machine() | {"pyperf": importlib.metadata.version("pyperf")},
        "shape": arguments.shape,
        "seconds": arguments.seconds,
    }
    estimates: list[dict[str, Any]] = []
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.caches or Path(temporary)
        benches = [Bench(model, shape=arguments.shape, folder=folder) for model in arguments.models]
        for bench in benches:
            bench.prepare()
        for number in range(arguments.estimates):
            for bench in benches:
                for tool in turns(arguments.tools, number=number):
                    estimates.append(bench.estimate(tool, seconds=arguments.seconds))
                    document = document_of(estimates, setting=setting)
                    write_json(arguments.output, document)
    print(json.dumps(summarise(estimates), indent=1))
    print(f"written to {arguments.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
