"""Find the first bad revision between two ends by noisy measurements.

Method: a binary search whose answers are sequential tests (Wald, Sequential Analysis, 1947;
searching by such answers: Karp and Kleinberg, Noisy binary search, 2007). A revision is measured
against the good end in pairs of launches. Its position is log(revision / good) over log(bad /
good), 0 at the good end and 1 at the bad one, with the interval of paired.py. The revision is good
once that interval lies below the half and bad once it lies above. Until then launches are added. An
undecided revision is skipped, never guessed. The error is divided by the looks of a test and by the
answers of the search (Bonferroni).

The ends come first: they differ once the interval lies beyond half of the change between them, so
that the half-way level does lie between theirs. At last the first bad revision is measured against
the last good one, which reveals a wrong earlier answer.
Assumptions: those of paired.py; every revision lies on its side of the half-way level, so other
changes in the range are smaller than half of the one in question.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from compile_hud.db.records.metrics import METRICS, Direction
from compile_hud.db.records.results import CaseResult, Outcome, Verdict
from compile_hud.runner.analysis.comparison.measurements import FAMILY_ERROR
from compile_hud.runner.analysis.comparison.paired import main_metric
from compile_hud.runner.analysis.comparison.runs import OUTCOME, CaseComparison
from compile_hud.runner.analysis.stats.rounds import Pair

# paired.py reserves half of the error of a comparison for one metric; a bisection uses that half.
SEARCH_ERROR = FAMILY_ERROR / 2
# Half of the way from the good end's level to the bad end's, on the scale that is compared.
HALF_WAY = 0.5


class Mark(StrEnum):
    """The mark of a revision."""

    GOOD = "good"
    BAD = "bad"
    SKIPPED = "skipped"


class BoundsVerdict(StrEnum):
    """The verdict on the two ends."""

    DIFFER = "differ"
    SAME = "same"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One metric, or the `outcome`, of two revisions.

    Levels and interval are None if a side has no number; a change of a count from 0 has no ratio.
    Levels are in `unit`, `num_pairs` are pairs of launches. `kernels` has the cause and the changed
    kernels as JSON, None without kernels. `model_code` has the change of the model's code, empty
    where it is the same. `decisive` is the interval at the error of the search,
    None where only the 95 % interval is known.
    """

    metric: str
    unit: str
    baseline: float | None
    candidate: float | None
    ratio: float | None
    low: float | None
    high: float | None
    baseline_outcome: Outcome
    candidate_outcome: Outcome
    reason: str = ""
    num_pairs: int = 0
    kernels: Mapping[str, Any] | None = None
    model_code: str = ""
    decisive: tuple[float, float] | None = None

    @property
    def search_interval(self) -> tuple[float, float] | None:
        """Return the interval of the ratio that answers, None where there is no ratio above 0."""
        low, high = self.decisive or (self.low, self.high)
        return (low, high) if low and high else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspects:
    """The range of the first bad revision, by indices: after `last_good`, up to `first_bad`.

    `skipped` are the undecided revisions in it.
    """

    last_good: int
    first_bad: int
    skipped: tuple[int, ...]

    @property
    def num_left(self) -> int:
        """Return the number of revisions that may be the first bad one."""
        return self.first_bad - self.last_good


def read_pair(
    baseline: CaseResult,
    candidate: CaseResult,
    *,
    rows: Sequence[CaseComparison],
    metric: str | None = None,
) -> Reading:
    """Return the reading of `metric` in `rows`, the comparison of the two.

    None means the device's main time.
    """
    name = metric or main_metric(Pair(baseline, candidate))
    row = next((row for row in rows if row.metric == name), None)
    comparison = None if row is None else row.comparison
    return Reading(
        metric=name,
        unit="" if row is None else row.unit,
        baseline=None if row is None else row.baseline,
        candidate=None if row is None else row.candidate,
        ratio=None if comparison is None else comparison.ratio,
        low=None if comparison is None else comparison.low,
        high=None if comparison is None else comparison.high,
        baseline_outcome=baseline.outcome,
        candidate_outcome=candidate.outcome,
        reason=candidate.reason or baseline.reason,
        decisive=None if comparison is None else comparison.decisive,
    )


def judge_bounds(reading: Reading, *, floor: float) -> BoundsVerdict:
    """Return whether the ends that `reading` compares differ by enough to search between them.

    Within `floor` (0.05 is 5 %), the whole interval of the change, they are the same.
    """
    if reading.metric == OUTCOME:
        is_same = reading.baseline_outcome is reading.candidate_outcome
        return BoundsVerdict.SAME if is_same else BoundsVerdict.DIFFER
    if METRICS[reading.metric].is_exact:
        is_same = reading.baseline == reading.candidate
    else:
        is_same = _is_within(reading, floor=floor)
    if is_same:
        return BoundsVerdict.SAME
    position = log_position(reading, bounds=reading)
    return BoundsVerdict.DIFFER if position and position[0] > HALF_WAY else BoundsVerdict.UNCLEAR


def answer(reading: Reading, *, bounds: Reading) -> Mark | None:
    """Return the side of the half-way level of `bounds` that the candidate is on, None if unclear.

    A reading without a comparable number is skipped. A bisection of outcomes skips an outcome that
    neither end has.
    """
    if bounds.metric == OUTCOME:
        if reading.candidate_outcome is bounds.baseline_outcome:
            return Mark.GOOD
        is_bad = reading.candidate_outcome is bounds.candidate_outcome
        return Mark.BAD if is_bad else Mark.SKIPPED
    position = log_position(reading, bounds=bounds)
    if position is None:
        return Mark.SKIPPED
    low, high = position
    if high < HALF_WAY:
        return Mark.GOOD
    return Mark.BAD if low >= HALF_WAY else None


def log_position(reading: Reading, *, bounds: Reading) -> tuple[float, float] | None:
    """Return the interval of the change of `reading` as a share of that of `bounds`.

    It is None without a number.
    """
    if reading.baseline is None or reading.candidate is None:
        return None
    if METRICS[bounds.metric].is_exact:
        assert bounds.baseline is not None
        assert bounds.candidate is not None
        share = (reading.candidate - reading.baseline) / (bounds.candidate - bounds.baseline)
        return share, share
    interval = reading.search_interval
    if interval is None or not bounds.ratio or bounds.ratio == 1:
        return None
    shares = [math.log(bound) / math.log(bounds.ratio) for bound in interval]
    return min(shares), max(shares)


def verdict_of(reading: Reading) -> Verdict:
    """Return whether `reading` is a regression or an improvement, by its direction."""
    if reading.metric == OUTCOME:
        is_worse = reading.baseline_outcome is Outcome.OK
    else:
        assert reading.baseline is not None
        assert reading.candidate is not None
        is_higher = reading.candidate > reading.baseline
        if reading.ratio is not None:
            # The medians also show by how much the machine changed between the two.
            is_higher = reading.ratio > 1
        is_worse = is_higher == (METRICS[reading.metric].direction is Direction.LOWER_IS_BETTER)
    return Verdict.REGRESSION if is_worse else Verdict.IMPROVEMENT


def num_answers(num_revisions: int) -> int:
    """Return the number of answers that a search takes: ends, halvings, last check."""
    return 2 + max(0, math.ceil(math.log2(max(1, num_revisions - 1))))


def find_suspects(num_revisions: int, marks: Mapping[int, Mark]) -> Suspects:
    """Return the suspects by `marks` of indices; the first revision is good, the last one bad."""
    last_good = max((index for index, mark in marks.items() if mark is Mark.GOOD), default=0)
    first_bad = min(
        (index for index, mark in marks.items() if mark is Mark.BAD), default=num_revisions - 1
    )
    inside = range(last_good + 1, first_bad)
    skipped = tuple(index for index in inside if marks.get(index) is Mark.SKIPPED)
    return Suspects(last_good=last_good, first_bad=first_bad, skipped=skipped)


def next_index(suspects: Suspects) -> int | None:
    """Return the index of the revision to measure next, None if the search is over.

    It is the middle one. After skipped ones it is the nearest to another fraction of the range,
    since revisions that cannot be built or run are often adjacent.
    """
    inside = range(suspects.last_good + 1, suspects.first_bad)
    indices = [index for index in inside if index not in suspects.skipped]
    if not indices:
        return None
    target = suspects.last_good + suspects.num_left * _fraction(len(suspects.skipped))
    return min(indices, key=lambda index: abs(index - target))


def _fraction(number: int) -> float:
    """Return 1/2, 1/4, 3/4, 1/8, 5/8 ...: van der Corput's sequence in base 2."""
    bits = f"{number + 1:b}"[::-1]
    return int(bits, 2) / (1 << len(bits))


def _is_within(reading: Reading, *, floor: float) -> bool:
    interval = reading.search_interval
    return interval is not None and max(interval[1], 1 / interval[0]) < 1 + floor
