"""The step `tokens` of a launch: the time of each token of a model that generates text.

Such a model has the attribute `on_token` and calls it after each new token, if it is not None. Here
it waits for the device and reads the wall clock, as a client that shows each token would.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch

from compile_hud.db.shared.text import plural
from compile_hud.runner.measure.context import Context, Forward
from compile_hud.runner.measure.latency.timing import garbage_collection_paused

ATTRIBUTE = "on_token"
MIN_ITERATIONS = 3
MAX_ITERATIONS = 30
# The limit of the whole step: it explains a latency that was measured with more care before.
BUDGET_S = 1.0
METHOD = "wall clock after each token, device synchronised; {what}"


def has_tokens(context: Context) -> bool:
    """Return whether the model of the variant reports its tokens."""
    return hasattr(context.variant.model, ATTRIBUTE)


def report_tokens(context: Context, forward: Forward) -> None:
    """Report the time to the first token, and the median and the 99th percentile of the others.

    A graph that replays the whole loop reports no token, and there are no metrics.
    """
    texts = _timed_texts(context, forward)
    if not all(texts):
        return
    gaps = [[after - before for before, after in pairwise(times)] for times in texts]
    add = context.findings.add
    add(
        "first_token_s",
        [times[0] for times in texts],
        method=METHOD.format(what="from the call to the first token"),
    )
    if not all(gaps):
        return
    add(
        "token_p50_s",
        [statistics.median(each) for each in gaps],
        method=METHOD.format(what="the median of each text"),
    )
    add(
        "token_p99_s",
        (percentile_99([gap for each in gaps for gap in each]),),
        method=METHOD.format(what=f"over the tokens of {len(texts)} {plural(len(texts), 'text')}"),
    )


def percentile_99(values: Sequence[float]) -> float:
    """Return the 99th percentile of `values`, with linear interpolation."""
    if len(values) < 2:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[-1]


def _timed_texts(context: Context, forward: Forward) -> list[list[float]]:
    """Return the seconds from the call to each token, by text."""
    step, device, model = context.step(forward), context.device, context.variant.model
    texts: list[list[float]] = []
    start_s = 0.0

    # Dynamo would compile the reading of the clock.
    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def mark() -> None:
        device.synchronize()
        texts[-1].append(time.perf_counter() - start_s)

    before = getattr(model, ATTRIBUTE)
    _set(model, mark)
    try:
        with device.pinned(), garbage_collection_paused():
            # The first text is the warm-up.
            for _ in range(1 + _num_texts(context)):
                texts.append([])
                device.synchronize()
                start_s = time.perf_counter()
                step()
    finally:
        _set(model, before)
    return texts[1:]


def _set(model: Any, hook: Callable[[], None] | None) -> None:
    setattr(model, ATTRIBUTE, hook)


def _num_texts(context: Context) -> int:
    latency_s = statistics.median(context.findings.metrics["latency_s"].samples)
    return max(MIN_ITERATIONS, min(MAX_ITERATIONS, int(BUDGET_S / latency_s)))
