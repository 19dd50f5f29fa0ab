"""The state of a backfill, as a file that is written after each revision."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from compile_hud.db.records.results import Case
from compile_hud.runner.analysis.comparison.backfill import (
    ANCHOR,
    CaseHistory,
    RevisionLevel,
    Segment,
    level_of,
    next_revision,
    revision_for_detection,
    steps_of,
    undecided_of,
)
from compile_hud.runner.analysis.comparison.bisection import Reading
from compile_hud.runner.bisect.record import BisectRevision, RevisionAxis
from compile_hud.runner.files.stored_searches import StoredSearch
from compile_hud.runner.protocol.messages import MeasureSettings

# Each revision is measured against the first one.
ANCHOR_INDEX = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillLimits:
    """The floor of a change, launches a side and seconds of a case, and the fewest revisions.

    With `fills` the levels of steps get as many points as the detector needs.
    """

    floor: float
    max_launches: int
    step_s: float
    least: int
    fills: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CasePoint:
    """One case at one revision against the anchor; `factor` normalised the stored times.

    A case without a time there has a `reason`.
    """

    case_key: str
    reading: Reading
    factor: float
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillPoint:
    """All cases at the revision `index`, or the reason why none could be measured."""

    index: int
    run_id: str
    cases: tuple[CasePoint, ...]
    reason: str
    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Backfill(StoredSearch):
    """A history that is being measured, oldest revision first.

    `origin` is the source of the revisions, as that of a bisection. `anchor_s` are the times of
    the anchor that the stored values are normalised to, by case and metric.
    """

    NOUN: ClassVar[str] = "backfill"
    # 1: first version.
    VERSION: ClassVar[int] = 1

    axis: RevisionAxis
    origin: Mapping[str, str]
    revisions: tuple[BisectRevision, ...]
    cases: tuple[Case, ...]
    toolchain: str
    settings: MeasureSettings
    limits: BackfillLimits
    anchor_s: Mapping[str, Any]
    points: tuple[BackfillPoint, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Return whether no revision is left to measure."""
        return self.next_index is None

    @property
    def next_index(self) -> int | None:
        """Return the revision to measure next, None if the backfill is complete."""
        index = self.uncertain_index
        if index is not None or not self.limits.fills:
            return index
        indices = (
            revision_for_detection(
                self.history(case.key),
                num_revisions=len(self.revisions),
                floor=self.limits.floor,
            )
            for case in self.cases
        )
        return next((index for index in indices if index is not None), None)

    @property
    def uncertain_index(self) -> int | None:
        """Return the revision that divides an unknown segment, None if each is known."""
        return next_revision(
            [self.history(case.key) for case in self.cases],
            num_revisions=len(self.revisions),
            floor=self.limits.floor,
            least=self.limits.least,
        )

    def levels(self, case_key: str) -> dict[int, RevisionLevel]:
        """Return the levels of a case by index, that of the anchor among them."""
        levels = {ANCHOR_INDEX: ANCHOR}
        for point in self.points:
            for item in point.cases:
                reading = item.reading
                if item.case_key == case_key and reading.ratio and reading.low and reading.high:
                    levels[point.index] = level_of(
                        reading.ratio, low=reading.low, high=reading.high
                    )
        return levels

    def history(self, case_key: str) -> CaseHistory:
        """Return the levels of a case, and the revisions that it does not run at."""
        unusable = {
            point.index
            for point in self.points
            if point.reason
            or any(item.case_key == case_key and item.reason for item in point.cases)
        }
        return CaseHistory(levels=self.levels(case_key), unusable=unusable)

    def segments(self, case_key: str) -> tuple[Segment, ...]:
        """Return the segments between the measured revisions of a case."""
        return self.history(case_key).segments()

    def steps(self, case_key: str) -> tuple[Segment, ...]:
        """Return the steps of a case."""
        return steps_of(self.segments(case_key), floor=self.limits.floor)

    def undecided(self, case_key: str) -> tuple[Segment, ...]:
        """Return the segments of a case that are neither flat nor a step."""
        return undecided_of(self.segments(case_key), floor=self.limits.floor)
