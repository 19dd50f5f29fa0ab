"""Steady state: is the level stable, did it drop, and is it precise enough? Pure; no torch.

Method: warm-up is over when the median of the last block of rounds agrees with that of the block
before it. Among the rounds after that, a drop is the split where the later rounds are below the
earlier ones nearly without exception (probability of superiority, the Mann-Whitney statistic over
its maximum). Late compilation, autotuning and graph recording look like that. A rise is no warm-up:
a level that was lower at first concerns the machine, not the model.
Assumption: rounds are in the order in which they were taken.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

# Two successive blocks of three rounds whose medians lie within 5 % of each other: settled.
STEADY_ROUNDS = 3
STEADY_SPREAD = 0.05
# A smaller fall than 5 % is not worth an alert, so not worth throwing samples away either.
MIN_LEVEL_DROP = 0.05
# This share of all pairs of a round before and one after the drop must have fallen. With
# MIN_DROP_ROUNDS on either side plain noise gets there in fewer than 1 of 100 launches.
MIN_DROP_SUPERIORITY = 0.97
MIN_DROP_ROUNDS = 5
# A 95 % interval leaves one in 40 on either side. An integer is exact; a float ends at 1023 rounds.
TAIL_ODDS = 40


def is_steady(times_s: Sequence[float]) -> bool:
    """Return whether the last two blocks of STEADY_ROUNDS times are at one level."""
    if len(times_s) < 2 * STEADY_ROUNDS:
        return False
    before = _median(times_s[-2 * STEADY_ROUNDS : -STEADY_ROUNDS])
    last = _median(times_s[-STEADY_ROUNDS:])
    return max(before, last) <= min(before, last) * (1 + STEADY_SPREAD)


def last_level_drop(times_s: Sequence[float]) -> int:
    """Return the index of the first time after the last fall of the level, 0 when there is none."""
    start = 0
    while fall := _clearest_drop(times_s[start:]):
        start += fall
    return start


def begins_to_drop(times_s: Sequence[float]) -> bool:
    """Return whether the last times, too few for a drop, lie clearly below all before them."""
    for size in range(1, MIN_DROP_ROUNDS):
        before, last = times_s[:-size], times_s[-size:]
        if len(before) >= MIN_DROP_ROUNDS and max(last) * (1 + MIN_LEVEL_DROP) < min(before):
            return True
    return False


def _clearest_drop(times_s: Sequence[float]) -> int:
    times = np.asarray(times_s, dtype=float)
    best, clearest = 0, MIN_DROP_SUPERIORITY
    for split in range(MIN_DROP_ROUNDS, times.size - MIN_DROP_ROUNDS + 1):
        before, after = times[:split], times[split:]
        if np.median(after) * (1 + MIN_LEVEL_DROP) > np.median(before):
            continue
        superiority = float(np.mean(before[:, None] > after[None, :]))
        if superiority > clearest:
            best, clearest = split, superiority
    return best


def relative_half_width(values: Sequence[float]) -> float:
    """Return half the width of the median's 95 % interval, relative to the median.

    The interval lies between two order statistics, as in runner/analysis/stats, which a worker
    cannot import. Infinite for fewer than six values, which cannot reach 95 %.
    """
    ordered = sorted(values)
    n = len(ordered)
    rank, ways = 0, 1
    below = ways
    while TAIL_ODDS * below <= 1 << n:
        rank += 1
        ways = ways * (n - rank + 1) // rank
        below += ways
    if rank == 0 or _median(ordered) == 0:
        return math.inf
    return (ordered[n - rank] - ordered[rank - 1]) / 2 / abs(_median(ordered))


def _median(values: Sequence[float]) -> float:
    return float(np.median(values))
