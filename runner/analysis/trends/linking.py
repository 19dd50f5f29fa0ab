"""Link the geometric means of changing cohorts into one trend.

Method: a linked Jevons index of matched models. The value of a mode after a run is the mean of the
newest results of the models with one in every mode (`model_means`). The overview shows it too. A
mean of other models moves without any change of the code. So a step is the geometric mean of the
ratios of the models that both runs have:

    step(t) = exp(mean over A(t) of log x(t) - log x(t - 1)),  value(t - 1) = value(t) / step(t),

from the newest run, where the value is the mean itself, back to the oldest. A(t) are the models
with a number in every mode both at t - 1 or before, and at t or after. A model that fails meanwhile
keeps its last number: its change appears in the step in which it returns. While no model joins or
leaves, the value is the mean of each day, since the steps multiply to its ratio.
Sources: ILO and others, Consumer Price Index Manual (2020), chapters 6 (matched models, Jevons) and
9 (linking by overlap); Fleming and Wallace, CACM 1986 (geometric means of ratios).
Assumptions: every model weighs the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from compile_hud.runner.analysis.stats.model_means import (
    OWN,
    common,
    is_number,
    mean_logs,
    model_weights,
    stand_in_sources,
)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LinkedMeans:
    """The means of each mode (row) after each run (column), NaN where there is none.

    `cohort` is by mode, run and subject: whether the subject counts. `segments` numbers the parts
    that no common subject links; the newest one is 0.
    """

    values: np.ndarray
    lows: np.ndarray
    highs: np.ndarray
    own: np.ndarray
    cohort: np.ndarray
    segments: np.ndarray


def linked_means(numbers: np.ndarray, *, sources: np.ndarray, models: np.ndarray) -> LinkedMeans:
    """Return the linked means of medians, lower and upper bounds by mode, run and subject.

    NaN is a subject without a number; each number stays valid until the next run that tries its
    case. `sources` has the mode with the same code, `models` the model of each subject.
    """
    has = is_number(numbers)
    stand_ins = stand_in_sources(has, sources)
    own = mean_logs(numbers, stand_ins=stand_ins, models=models)
    logs = np.log(np.where(has, numbers[0], 1.0))
    levels, segments = _linked(own.values, _steps(has, logs, stand_ins=stand_ins, models=models))
    return LinkedMeans(
        values=np.exp(levels),
        lows=np.exp(levels - own.below),
        highs=np.exp(levels + own.above),
        own=np.exp(own.values),
        cohort=own.cohort,
        segments=segments,
    )


def _steps(
    has: np.ndarray, logs: np.ndarray, *, stand_ins: np.ndarray, models: np.ndarray
) -> np.ndarray:
    """Return the logarithm of the step to each run from the previous one; NaN without a link."""
    num_modes, num_runs, _ = has.shape
    rows = np.arange(num_runs)[None, :, None]
    last_row = np.maximum.accumulate(np.where(has, rows, -1), axis=1)
    carried = np.take_along_axis(logs, np.maximum(last_row, 0), axis=1)
    has_later = np.flip(np.maximum.accumulate(np.flip(has, axis=1), axis=1), axis=1)
    # A mode that is compared on one side of the step is compared in it.
    is_same = stand_ins[:, :-1] == stand_ins[:, 1:]
    is_matched = common(
        (last_row[:, :-1] >= 0) & has_later[:, 1:],
        stand_ins=np.where(is_same, stand_ins[:, 1:], OWN),
        models=models,
    )
    weights = model_weights(is_matched, models)
    moves = (weights * (carried[:, 1:] - carried[:, :-1])).sum(axis=2)
    steps = np.full((num_modes, num_runs), np.nan)
    steps[:, 1:] = np.where(is_matched.any(axis=2), moves, np.nan)
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
