"""Choose the revisions of a history whose measurement says most about its steps.

Method: each revision is measured against one anchor, in pairs of launches, which gives the
logarithm of its ratio with a standard error. The measured revisions divide the history into
segments. Of the segments that are not known to be flat, the one whose change is largest in units of
its standard error comes next: its middle is measured. This is adaptive bisection of a piecewise
constant function (Castro and Nowak, Minimax bounds for active learning, 2008).

A segment is flat once the 95 % interval of its change lies within the floor. A step is a segment
without a revision between whose change is beyond STEP_Z standard errors. Assumptions: those of
paired.py, and independent errors of revisions, since each has pairs of its own. A change and its
reversal within one segment cancel, which `least` points in even distances make unlikely.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from compile_hud.runner.analysis.detection.config import DEFAULT_CONFIG

# The quantile of the 95 % interval.
FLAT_Z = 1.96
# 0.3 % for a false step in each of some ten segments, which have no other correction.
STEP_Z = 2.94
# The change between two such revisions is known to 0.35 of the floor.
TARGET_SHARE = 0.25

# The points that the detector needs: before the first step for its noise, and in a later level.
POINTS_BEFORE = DEFAULT_CONFIG.min_noise_points
POINTS_AFTER = DEFAULT_CONFIG.sustained_points


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionLevel:
    """The logarithm of the ratio of a revision to the anchor, with its standard error."""

    log_ratio: float
    error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """The change from one measured revision to the next measured one, by their indices."""

    first: int
    last: int
    log_ratio: float
    error: float
    num_left: int

    @property
    def score(self) -> float:
        """Return the size of the change in standard errors."""
        return abs(self.log_ratio) / self.error if self.error else math.inf

    def is_flat(self, floor: float) -> bool:
        """Return whether the 95 % interval lies within `floor` (0.05 is 5 %)."""
        return abs(self.log_ratio) + FLAT_Z * self.error < math.log1p(floor)

    @property
    def is_changed(self) -> bool:
        """Return whether the change is no noise."""
        return self.score > STEP_Z

    @property
    def interval(self) -> tuple[float, float]:
        """Return the 95 % interval of the ratio."""
        margin = FLAT_Z * self.error
        return math.exp(self.log_ratio - margin), math.exp(self.log_ratio + margin)

    @property
    def ratio(self) -> float:
        """Return the ratio of the last revision to the first."""
        return math.exp(self.log_ratio)


ANCHOR = RevisionLevel(log_ratio=0.0, error=0.0)


def level_of(ratio: float, *, low: float, high: float) -> RevisionLevel:
    """Return the level with the 95 % interval from `low` to `high`."""
    return RevisionLevel(log_ratio=math.log(ratio), error=math.log(high / low) / (2 * FLAT_Z))


def is_precise(low: float, high: float, *, floor: float) -> bool:
    """Return whether a revision with this interval needs no further launches."""
    return math.log(high / low) / 2 <= TARGET_SHARE * math.log1p(floor)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseHistory:
    """The levels of one case by revision, and the revisions at which it has none to give."""

    levels: Mapping[int, RevisionLevel]
    unusable: Collection[int] = ()

    def segments(self) -> tuple[Segment, ...]:
        """Return the segments between the measured revisions, oldest first."""
        return tuple(
            Segment(
                first=first,
                last=last,
                log_ratio=self.levels[last].log_ratio - self.levels[first].log_ratio,
                error=math.hypot(self.levels[first].error, self.levels[last].error),
                num_left=sum(index not in self.unusable for index in range(first + 1, last)),
            )
            for first, last in pairwise(sorted(self.levels))
        )

    def ends(self, num_revisions: int) -> tuple[int, ...]:
        """Return the first and the last usable revision, nothing if none is usable."""
        usable = [index for index in range(num_revisions) if index not in self.unusable]
        return (usable[0], usable[-1]) if usable else ()


def next_revision(
    histories: Sequence[CaseHistory], *, num_revisions: int, floor: float, least: int
) -> int | None:
    """Return the index of the revision to measure next, None if every segment is known.

    The cases of `histories` are measured at the same revisions. The ends come first. Flat segments
    are divided while fewer than `least` revisions are measured.
    """
    for history in histories:
        for index in history.ends(num_revisions):
            if index not in history.levels:
                return index
    parts = [(segment, history) for history in histories for segment in history.segments()]
    parts = [(segment, history) for segment, history in parts if segment.num_left]
    open_parts = [item for item in parts if not item[0].is_flat(floor)]
    if open_parts:
        return _middle(*max(open_parts, key=lambda item: item[0].score))
    known = {index for history in histories for index in history.levels}
    if parts and len(known) < least:
        return _middle(*max(parts, key=lambda item: item[0].num_left))
    return None


def revision_for_detection(history: CaseHistory, *, num_revisions: int, floor: float) -> int | None:
    """Return the next revision of a level that has too few points for the detector, or None.

    It is the one that is farthest from the measured ones. Without a step no level needs any.
    """
    levels, unusable = history.levels, history.unusable
    steps = steps_of(history.segments(), floor=floor)
    starts = [0, *(step.last for step in steps), num_revisions]
    for start, end in pairwise(starts if steps else ()):
        inside = [index for index in levels if start <= index < end]
        free = [index for index in range(start, end) if index not in {*levels, *unusable}]
        if free and len(inside) < (POINTS_AFTER if start else POINTS_BEFORE):
            return max(free, key=lambda index: _distance(index, inside))
    return None


def _distance(index: int, measured: Collection[int]) -> int:
    return min(abs(index - known) for known in measured)


def steps_of(segments: Sequence[Segment], *, floor: float) -> tuple[Segment, ...]:
    """Return the segments that are steps: changed, not flat, and without a revision between."""
    return tuple(
        item
        for item in segments
        if not item.num_left and item.is_changed and not item.is_flat(floor)
    )


def undecided_of(segments: Sequence[Segment], *, floor: float) -> tuple[Segment, ...]:
    """Return the segments that are neither flat nor a step."""
    steps = steps_of(segments, floor=floor)
    return tuple(item for item in segments if not item.is_flat(floor) and item not in steps)


def _middle(segment: Segment, history: CaseHistory) -> int:
    between = range(segment.first + 1, segment.last)
    inside = [index for index in between if index not in history.unusable]
    target = (segment.first + segment.last) / 2
    return min(inside, key=lambda index: abs(index - target))
