"""Measure one look at a series: the steps in all nights up to one, computed on every night."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.limits.histories import FIRST_NIGHT, SPREADS, Event, Shape, draw
from benchmarks.startup import BenchmarkError
from compile_hud.runner.analysis.detector import find_steps

SEED = 7
# The number of each event: every spread in every shape of noise.
NUM_EACH = len(SPREADS) * len(Shape)
# The detector continues from the last history that it followed, and from no other.
OTHER = np.ones(1)


def measure_looks() -> dict[str, Any]:
    """Return the CPU milliseconds of a look: with a detector that follows a history, and with a
    fresh one.

    Raises BenchmarkError if the two report different steps.
    """
    series = [list(_prefixes(event, number)) for event in Event for number in range(NUM_EACH)]
    started_s = time.process_time()
    followed = [[find_steps(values) for values in prefixes] for prefixes in series]
    followed_s = time.process_time() - started_s
    afresh, afresh_s = [], 0.0
    for prefixes in series:
        timings = []
        for values in prefixes:
            find_steps(OTHER)
            started_s = time.process_time()
            timings.append(find_steps(values))
            afresh_s += time.process_time() - started_s
        afresh.append(timings)
    if followed != afresh:
        raise BenchmarkError("following a history gave other steps than asking afresh")
    num_looks = sum(map(len, series))
    return {
        "num_series": len(series),
        "num_looks": num_looks,
        "followed_ms": round(1e3 * followed_s / num_looks, 3),
        "afresh_ms": round(1e3 * afresh_s / num_looks, 3),
    }


def _prefixes(event: Event, number: int) -> Iterator[np.ndarray]:
    values = draw(event, number, seed=SEED).values
    values = values[~np.isnan(values)]
    for num_nights in range(FIRST_NIGHT + 1, values.size + 1):
        yield values[:num_nights]
