"""One estimate by a peer, in a process of its own: eager and compiled latency of a model.

`python -m benchmarks.precision.peers TOOL MODEL SHAPE --until MONOTONIC` prints a JSON object. The
time until then, after importing, building and compiling, is shared equally by the two.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.benchmark import Timer

from compile_hud.models_zoo.building.loader import load_builder
from compile_hud.models_zoo.catalog.catalog import CATALOG, find_size

Call = Callable[[], object]
# A plain loop is usually written with a few calls before it.
NUM_WARMUP_CALLS = 5


def subject(model: str, shape: str, *, compiled: bool) -> Call:
    """Return one iteration of inference on one thread, compiled and warm if requested."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    spec = CATALOG[model]
    config = find_size(spec, shape).config
    builder = load_builder(spec.build)
    module = builder.build(config).eval()
    inputs = builder.example_inputs(config, seed=0)
    forward = torch.compile(module) if compiled else module

    def call() -> object:
        with torch.no_grad():
            return forward(**inputs)

    for _ in range(NUM_WARMUP_CALLS):
        call()
    return call


def plain_loop(call: Call, seconds: float) -> float:
    """Return the mean time of a call in a loop of `seconds`."""
    num_calls, started_s = 0, time.perf_counter()
    while (elapsed_s := time.perf_counter() - started_s) < seconds or num_calls == 0:
        call()
        num_calls += 1
    return elapsed_s / num_calls


def blocked_autorange(call: Call, seconds: float) -> float:
    """Return the median that torch.utils.benchmark reports."""
    timer = Timer("call()", globals={"call": call}, num_threads=1)
    return float(timer.blocked_autorange(min_run_time=seconds).median)


def one_after_the_other(
    measure: Callable[[Call, float], float], calls: list[Call], until: float
) -> list[float]:
    """Return the estimate of each call, each with an equal share of the time left."""
    estimates = []
    for number, call in enumerate(calls):
        estimates.append(
            measure(call, max(0.05, (until - time.monotonic()) / (len(calls) - number)))
        )
    return estimates


def interleaved(calls: list[Call], until: float) -> list[float]:
    """Return the medians of single calls in turn, as PyTorch's benchmarks/dynamo runner does."""
    times: list[list[float]] = [[] for _ in calls]
    while not times[0] or time.monotonic() < until:
        for call, own in zip(calls, times, strict=True):
            started_s = time.perf_counter()
            call()
            own.append(time.perf_counter() - started_s)
    return [statistics.median(own) for own in times]


TOOLS: dict[str, Callable[[list[Call], float], list[float]]] = {
    "plain loop": lambda calls, until: one_after_the_other(plain_loop, calls, until),
    "blocked_autorange": lambda calls, until: one_after_the_other(blocked_autorange, calls, until),
    "interleaved loop": interleaved,
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tool", choices=[*TOOLS, "prepare"])
    parser.add_argument("model")
    parser.add_argument("shape")
    parser.add_argument("--until", type=float, default=0.0)
    arguments = parser.parse_args()
    started_s = time.monotonic()
    eager = subject(arguments.model, arguments.shape, compiled=False)
    built_s = time.monotonic()
    calls = [eager, subject(arguments.model, arguments.shape, compiled=True)]
    document: dict[str, Any] = {}
    if arguments.tool == "prepare":
        document["build_s"] = built_s - started_s
        document["compile_s"] = time.monotonic() - built_s
        until = time.monotonic() + 1.0
        estimates = one_after_the_other(blocked_autorange, calls, until)
    else:
        estimates = TOOLS[arguments.tool](calls, arguments.until)
    print(json.dumps({**document, "eager_s": estimates[0], "compiled_s": estimates[1]}))


if __name__ == "__main__":
    main()
