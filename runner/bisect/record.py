"""The state of a bisection, as a file that is written after each step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from compile_hud.db.records.codec import JSON_NAME
from compile_hud.db.records.results import Case
from compile_hud.runner.analysis.comparison.bisection import (
    BoundsVerdict,
    Mark,
    Reading,
    Suspects,
    answer,
    find_suspects,
    judge_bounds,
)
from compile_hud.runner.files.stored_searches import StoredSearch
from compile_hud.runner.protocol.messages import MeasureSettings


class RevisionAxis(StrEnum):
    """The kind of revisions that a bisection searches."""

    TOOLCHAIN = "toolchain"
    TORCH = "torch"
    COMMIT = "commit"


class BisectEnding(StrEnum):
    """The result of a bisection."""

    FOUND = "found"
    RANGE = "range"
    UNCONFIRMED = "unconfirmed"
    SAME_ENDS = "same_ends"
    UNCLEAR_ENDS = "unclear_ends"


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectRevision:
    """One revision: a toolchain, a torch version or a commit, with its title and author."""

    name: str
    title: str = ""
    author: str = ""
    authored_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BisectStep:
    """The answer of the revision at `index`, and how long it took."""

    index: int = field(metadata={JSON_NAME: "place"})
    mark: Mark
    reason: str
    reading: Reading | None
    took_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of a bisection: the floor of the ends' change, launches a side, time of a step."""

    floor: float
    max_launches: int
    step_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Bisection(StoredSearch):
    """A search between the first of `revisions`, which is good, and the last, which is bad.

    `origin` is the source of the revisions, by texts that depend on the axis. `metric` is None for
    the device's main time. `ends` compares the two ends. `check` compares the first bad revision
    with the last good one if no step did. `alert_id` is the alert whose change it searches, empty
    for a search by hand. `spent_s` are the seconds of its launches.
    """

    NOUN: ClassVar[str] = "bisection"
    # 1: first version.
    VERSION: ClassVar[int] = 1

    axis: RevisionAxis
    origin: Mapping[str, str]
    revisions: tuple[BisectRevision, ...]
    case: Case
    toolchain: str
    settings: MeasureSettings
    metric: str | None
    limits: Limits
    ends: Reading | None = None
    steps: tuple[BisectStep, ...] = ()
    check: Reading | None = None
    alert_id: str = ""
    spent_s: float = 0.0

    @property
    def is_complete(self) -> bool:
        """Return whether it has a result."""
        return self.ending is not None

    @property
    def suspects(self) -> Suspects:
        """Return the remaining suspects."""
        marks = {step.index: step.mark for step in self.steps}
        return find_suspects(len(self.revisions), marks)

    @property
    def evidence(self) -> Reading | None:
        """Return the first bad revision against the last good one, None before that is measured."""
        suspects = self.suspects
        if suspects.last_good > 0:
            return self.check
        if suspects.first_bad == len(self.revisions) - 1:
            return self.ends
        return next(step.reading for step in self.steps if step.index == suspects.first_bad)

    @property
    def ending(self) -> BisectEnding | None:
        """Return the result, None while the search continues."""
        if self.ends is None:
            return None
        verdict = judge_bounds(self.ends, floor=self.limits.floor)
        if verdict is not BoundsVerdict.DIFFER:
            return (
                BisectEnding.SAME_ENDS
                if verdict is BoundsVerdict.SAME
                else BisectEnding.UNCLEAR_ENDS
            )
        suspects, evidence = self.suspects, self.evidence
        if evidence is None or suspects.num_left > 1 + len(suspects.skipped):
            return None
        if answer(evidence, bounds=self.ends) is not Mark.BAD:
            return BisectEnding.UNCONFIRMED
        return BisectEnding.FOUND if suspects.num_left == 1 else BisectEnding.RANGE
