"""Link the geometric means of changing cohorts into one trend.

Method: a linked Jevons index of matched models. The value of a mode after a run is the geometric
mean of the newest results of the models that have one in every mode: the number of the overview. A
mean of other models moves without any change of the code. So the step between two runs is the
geometric mean of the ratios of the models that both have:

    step(t) = exp(mean over A(t) of log x(t) - log x(t - 1)),  value(t - 1) = value(t) / step(t),

from the newest run, where the value is the mean itself, back to the oldest. A(t) are the models
with a number in every mode both at t - 1 or before, and at t or after. A model that fails meanwhile
keeps its last number: its change appears in the step in which it returns. While no model joins or
leaves, the value is the mean of each day, since the steps multiply to its ratio.
Sources: ILO and others, Consumer Price Index Manual (2020), chapters 6 (matched models, Jevons) and
9 (linking by overlap); Fleming and Wallace, CACM 1986 (geometric means of ratios).
Assumptions: every model weighs the same. A mode with numbers of less than half of the models does
not shrink the cohort of the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compile_hud.runner.analysis.stats.cohort import MIN_SHARE


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinkedMeans:
    """The means of each mode (row) after each run (column), NaN where there is none.

    `cohort` is by mode, run and model: whether the model counts. `segments` numbers the parts that
    no common model links; the newest one is 0.
    """

    values: np.ndarray
    lows: np.ndarray
    highs: np.ndarray
    own: np.ndarray
    cohort: np.ndarray
    segments: np.ndarray


def linked_means(medians: np.ndarray, lows: np.ndarray, highs: np.ndarray) -> LinkedMeans:
    """Return the linked means of the numbers of each mode, run and model.

    NaN is a model without a number; each number stays valid until the next run that tries its case.
    """
    has = medians > 0
    has &= lows > 0
    logs = np.log(np.where(has, medians, 1.0))
    below = logs - np.log(np.where(has, lows, 1.0))
    above = np.log(np.where(has, highs, 1.0)) - logs
    cohort = common(has)
    counts = cohort.sum(axis=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        own = np.where(cohort, logs, 0.0).sum(axis=2) / counts
        low = np.sqrt((np.where(cohort, below, 0.0) ** 2).sum(axis=2)) / counts
        high = np.sqrt((np.where(cohort, above, 0.0) ** 2).sum(axis=2)) / counts
    own[counts == 0] = np.nan
    levels, segments = _linked(own, _steps(has, logs))
    return LinkedMeans(
        values=np.exp(levels),
        lows=np.exp(levels - low),
        highs=np.exp(levels + high),
        own=np.exp(own),
        cohort=cohort,
        segments=segments,
    )


def common(has: np.ndarray) -> np.ndarray:
    """Return for each mode, run and model whether it counts: every compared mode has it.

    A mode with less than MIN_SHARE of the models that any mode has is not compared: its own models
    are those of the cohort that it has.
    """
    counts = has.sum(axis=2)
    is_compared = (counts > 0) & (counts >= MIN_SHARE * has.any(axis=0).sum(axis=1))
    is_common = (has | ~is_compared[:, :, None]).all(axis=0)
    return np.asarray(has & is_common & is_compared.any(axis=0)[:, None])


def _steps(has: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """Return the logarithm of the step to each run from the previous one; NaN without a link."""
    num_modes, num_runs, _ = has.shape
    rows = np.arange(num_runs)[None, :, None]
    last_row = np.maximum.accumulate(np.where(has, rows, -1), axis=1)
    carried = np.take_along_axis(logs, np.maximum(last_row, 0), axis=1)
    has_later = np.flip(np.maximum.accumulate(np.flip(has, axis=1), axis=1), axis=1)
    is_matched = common((last_row[:, :-1] >= 0) & has_later[:, 1:])
    counts = is_matched.sum(axis=2)
    moves = np.where(is_matched, carried[:, 1:] - carried[:, :-1], 0.0).sum(axis=2)
    steps = np.full((num_modes, num_runs), np.nan)
    steps[:, 1:] = np.where(counts > 0, moves / np.maximum(counts, 1), np.nan)
    return steps


def _linked(own: np.ndarray, steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the levels linked to the newest mean of each mode, and their segments."""
    num_modes, num_runs = own.shape
    levels = np.full_like(own, np.nan)
    segments = np.zeros((num_modes, num_runs), dtype=np.int64)
    for mode in range(num_modes):
        level, segment = np.nan, 0
        for row in reversed(range(num_runs)):
            if row + 1 < num_runs:
                level -= steps[mode, row + 1]
            if np.isnan(level) and not np.isnan(own[mode, row]):
                segment += not np.isnan(levels[mode, row + 1 :]).all()
                level = own[mode, row]
            segments[mode, row] = segment
            levels[mode, row] = np.nan if np.isnan(own[mode, row]) else level
    return levels, segments
