"""The number of calls after which faster calls repay the compile time.

Method: the compile time over the time that a call saves, latency x (speedup - 1): eager minus
compiled latency by the ratio of the two, which is stable when either one drifts. The interval
combines the ends of all three, so it is wider than 95 %.
Assumptions: every call takes as long as the measured ones; all are of one shape.
"""

from __future__ import annotations

from compile_hud.runner.analysis.stats.estimates import Estimate


def calls_to_pay_back(cost: Estimate, *, latency: Estimate, speedup: Estimate) -> Estimate | None:
    """Return the number of calls that repay a compile time of `cost` seconds.

    `latency` is that of a call in seconds, on the clock of `speedup`. None if the speedup is not
    significant: its interval includes 1.
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
