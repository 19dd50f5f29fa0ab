"""One device for several launches: they compile concurrently, and sample one after the other."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

from torch._inductor.runtime import benchmarking

from compile_hud.runner.protocol.messages import Turn


def wait_for_turn(pipe: str) -> Turn:
    """Open the named pipe `pipe`, which signals that this launch is ready, and return what it says.

    Both block without CPU time: opening until there is a writer, reading until it closes.
    """
    text = Path(pipe).read_bytes()
    return Turn.from_json(json.loads(text)) if text else Turn()


@contextmanager
def locked_autotuning(path: str) -> Iterator[None]:
    """Lock the file `path` whenever Inductor times a candidate on the device.

    An empty `path` changes nothing. A candidate that shares the device would look slower than it
    is.
    """
    # Later torches offer `set_gpu_benchmark_lock_context`; 2.9 to 2.12 have only the class.
    benchmarker = getattr(benchmarking, "InductorBenchmarker", None)
    if not path or benchmarker is None:
        yield
        return
    own = benchmarker.benchmark_gpu
    benchmarker.benchmark_gpu = _locked(own, path=path)
    try:
        yield
    finally:
        benchmarker.benchmark_gpu = own


@contextmanager
def locked_device(path: str) -> Iterator[None]:
    """Lock the file `path` during the block; an empty path means no lock."""
    if not path:
        yield
        return
    with Path(path).open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _locked(benchmark: Callable[..., Any], *, path: str) -> Callable[..., Any]:
    @wraps(benchmark)
    def run(*args: Any, **kwargs: Any) -> Any:
        with locked_device(path):
            return benchmark(*args, **kwargs)

    return run
