"""Find slow drifts: levels that change a little every night and much in the end.

Method: the last 10, 20, 40 and 80 points are each cut into five blocks of equal length. Such a
window drifts if, on logarithms,
- the medians of its blocks rise (or fall) one after the other, the last one by a quarter of the
  mean or more;
- the line through them moves by the floor or more from end to end (by 1.7 floors in 10 or 20
  points), and by 4 standard errors or more;
- that line fits better than any one step (ratio of likelihoods under Laplace noise); across known
  steps it has to fit clearly better, also than the levels between them;
- its last block is half a floor beyond every earlier block since the last step, since a season
  comes back. A window across a step is compared with the whole history.
Overlapping windows that drift the same way are one drift.
Assumptions: those of detector.py. Only the order of the points counts: 1 % a week is detected in 40
to 80 points of a nightly series, and in 10 of a weekly one. Half a season is a drift until it
turns.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG, DetectorConfig
from compile_hud.runner.analysis.detection.history import checked_history
from compile_hud.runner.analysis.stats.estimates import (
    CONFIDENCE,
    MEDIAN_INEFFICIENCY,
    robust_sd,
    sliding_medians,
    student_quantile,
)

# The slope below is that of five blocks.
NUM_BLOCKS = 5
# Least squares through five points, one apart: weights of the slope.
_SLOPE_WEIGHTS = np.array([-2.0, -1.0, 0.0, 1.0, 2.0]) / 10
# The farthest that a line through five medians rises, over the range that they lie in.
_MAX_RISE = NUM_BLOCKS * float(np.abs(_SLOPE_WEIGHTS).sum()) / 2
# Standard error of a line's rise through five blocks, in standard errors of one block's median.
_RISE_ERRORS = NUM_BLOCKS * math.sqrt(float(_SLOPE_WEIGHTS @ _SLOPE_WEIGHTS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """A stretch in which the level moves slowly in one direction.

    `start` is its first point, `index` the point of its first detection, `end` one past the last
    point known to belong to it. `start` and `index` stay as points arrive, unless a step is
    detected in it. `before` and `after` are the medians of its first and last block. `change` is
    after over before less 1; `low` and `high` are its 95 % interval.
    """

    start: int
    index: int
    end: int
    before: float
    after: float
    change: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class _DriftWindow:
    """A window that drifts: where it is, and on logarithms its first and last block's medians."""

    start: int
    end: int
    begin: float
    finish: float
    error: float

    @property
    def is_up(self) -> bool:
        return self.finish > self.begin


def find_drifts(
    values: np.ndarray,
    *,
    floor: float,
    breaks: Iterable[int] = (),
    config: DetectorConfig = DEFAULT_CONFIG,
) -> list[Drift]:
    """Return every slow drift in `values`, upwards or downwards, oldest first.

    `breaks` are the first points of new levels (the known steps). A drift crosses a break only if a
    line fits clearly better than the levels between the breaks. Raises ValueError unless all values
    are finite and above 0.
    """
    numbers = checked_history(values)
    indices = sorted({index for index in breaks if 0 < index < numbers.size})
    logs = np.log(numbers)
    windows = _drifting_windows(logs, needed=math.log1p(floor), breaks=indices, config=config)
    return [_describe(group) for group in _overlapping(windows)]


def _drifting_windows(
    logs: np.ndarray, *, needed: float, breaks: Sequence[int], config: DetectorConfig
) -> list[_DriftWindow]:
    """Return the windows that drift, by the night on which they end, the longest first."""
    windows: list[_DriftWindow] = []
    blocks = logs
    for size in config.drift_block_points:
        # A median lies between those of the halves: longer blocks reach no farther than these.
        if NUM_BLOCKS * size > logs.size or _reach(blocks) < needed:
            break
        blocks = sliding_medians(logs, size)
        floors = config.drift_short_floors if size <= config.drift_short_block_points else 1.0
        windows += _windows_of(logs, blocks, needed=needed * floors, breaks=breaks, config=config)
    return sorted(windows, key=lambda window: (window.end, window.start))


def _reach(blocks: np.ndarray) -> float:
    """Return the largest possible rise of a line through any five of `blocks`."""
    return _MAX_RISE * float(blocks.max() - blocks.min())


def _windows_of(
    logs: np.ndarray,
    blocks: np.ndarray,
    *,
    needed: float,
    breaks: Sequence[int],
    config: DetectorConfig,
) -> Iterator[_DriftWindow]:
    """Yield the windows that drift of five `blocks`, the sliding medians of `logs`."""
    if _reach(blocks) < needed:
        return
    size = logs.size - blocks.size + 1
    # One row a window: the medians of its five blocks.
    rows = sliding_window_view(blocks, (NUM_BLOCKS - 1) * size + 1)[:, ::size]
    rises = NUM_BLOCKS * (rows @ _SLOPE_WEIGHTS)
    signs = np.sign(rises)
    moves = np.diff(rows, axis=1) * signs[:, None]
    goes_on = moves[:, -1] >= config.drift_min_last_share * moves.mean(axis=1)
    is_drift = (moves > 0).all(axis=1) & goes_on & (np.abs(rises) >= needed)
    for start in np.flatnonzero(is_drift).tolist():
        end = start + NUM_BLOCKS * size
        first, last = bisect_right(breaks, start), bisect_left(breaks, end)
        # A window across a step must exceed the whole history, another one the time since the last
        # step.
        since = breaks[first - 1] if first and first == last else 0
        earlier = blocks[since : max(since, start - size + 1)] * signs[start]
        if earlier.size and earlier.max() > rows[start, -1] * signs[start] - needed / 2:
            continue
        error = _error(
            logs[start:end],
            middle=float(rows[start].mean()),
            rise=float(rises[start]),
            breaks=[index - start for index in breaks[first:last]],
            config=config,
        )
        if error is not None:
            begin, finish = float(rows[start, 0]), float(rows[start, -1])
            yield _DriftWindow(start, end, begin, finish, error)


def _error(
    points: np.ndarray,
    *,
    middle: float,
    rise: float,
    breaks: Sequence[int],
    config: DetectorConfig,
) -> float | None:
    """Return the standard error of a block's median; None unless a line fits, beyond noise.

    It has to fit better than any one step, and better than the levels between `breaks`.
    """
    positions = (np.arange(points.size) + 0.5) / points.size - 0.5
    rest = points - middle - rise * positions
    size = points.size // NUM_BLOCKS
    error = MEDIAN_INEFFICIENCY * robust_sd(rest) / math.sqrt(size)
    if abs(rise) < config.drift_min_errors * _RISE_ERRORS * error:
        return None
    one_step = ([split] for split in range(size, points.size - size + 1, size // 2))
    # The known steps first: true ones decide at once.
    rivals = chain([breaks] if breaks else [], one_step)
    needed = config.drift_min_log_ratio_across_steps if breaks else config.drift_min_log_ratio
    min_misfit = math.exp(needed / points.size) * float(np.abs(rest).sum())
    return error if all(_misfit(points, splits=splits) >= min_misfit for splits in rivals) else None


def _misfit(points: np.ndarray, *, splits: Sequence[int]) -> float:
    """Return the sum of the distances of `points` from the medians between `splits`."""
    return sum(map(_spread, np.split(points, splits)))


def _spread(points: np.ndarray) -> float:
    return float(np.abs(points - np.median(points)).sum())


def _overlapping(windows: list[_DriftWindow]) -> Iterator[list[_DriftWindow]]:
    group: list[_DriftWindow] = []
    for window in windows:
        if group and (window.start >= group[-1].end or window.is_up != group[0].is_up):
            yield group
            group = []
        group.append(window)
    if group:
        yield group


def _describe(windows: list[_DriftWindow]) -> Drift:
    first, last = windows[0], windows[-1]
    change = last.finish - first.begin
    degrees = last.end - last.start - 2
    margin = student_quantile((1 + CONFIDENCE) / 2, degrees=degrees) * math.hypot(
        first.error, last.error
    )
    return Drift(
        start=first.start,
        index=first.end - 1,
        end=last.end,
        before=math.exp(first.begin),
        after=math.exp(last.finish),
        change=math.expm1(change),
        low=math.expm1(change - margin),
        high=math.expm1(change + margin),
    )
