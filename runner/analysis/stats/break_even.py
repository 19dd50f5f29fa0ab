"""After how many calls compiling is paid back by faster ones.

Method: the compile time over what a call saves, latency x (speedup - 1): eager minus compiled
latency by the ratio of the two, which repeats where either one drifts. The interval is put together
from the ends of all three, so it is wider than 95 %.
Assumptions: every call takes as long as those that were measured; all are of one shape.
"""

from __future__ import annotations

from compile_hud.runner.analysis.stats.estimates import Estimate


def calls_to_pay_back(cost: Estimate, *, latency: Estimate, speedup: Estimate) -> Estimate | None:
    """Return after how many calls a compile time of `cost` seconds is paid back.

    `latency` is that of a call in seconds, on the clock of `speedup`. None where nothing is saved
    for certain: the interval of the speedup holds 1.
    """
    if speedup.low <= 1 or latency.low <= 0:
        return None
    min_calls, most = (
        side * (ratio - 1)
        for side, ratio in ((latency.low, speedup.low), (latency.high, speedup.high))
    )
    return Estimate(
        cost.value / (latency.value * (speedup.value - 1)), cost.low / most, cost.high / min_calls
    )
