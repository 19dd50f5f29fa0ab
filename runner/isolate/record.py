"""The state of an isolation, as a file that is written after each measurement."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from compile_hud.db.records.results import Case
from compile_hud.runner.analysis.comparison.bisection import BoundsVerdict, Reading, judge_bounds
from compile_hud.runner.files.stored_searches import StoredSearch
from compile_hud.runner.isolate.fingerprints import EnvironmentFingerprint
from compile_hud.runner.isolate.shares import Position
from compile_hud.runner.protocol.messages import MeasureSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class IsolateLimits:
    """The limits of an isolation.

    `floor` is the smallest change of the ends that is searched. `max_toolchains` counts the ends.
    A mixture is measured for at most `step_s`.
    """

    floor: float
    max_toolchains: int
    max_launches: int
    step_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredEnds:
    """Both toolchains: their environments, their reading, and the `loaded` folders of packages."""

    before: EnvironmentFingerprint
    after: EnvironmentFingerprint
    reading: Reading
    loaded: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MixtureAnswer:
    """The position of a mixture, None with the `reason` why it does not run.

    `differences` are the keys of the differences that it has from the second toolchain.
    """

    differences: tuple[str, ...]
    position: Position | None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredIsolation(StoredSearch):
    """A search of the differences behind a change from the toolchain `baseline` to `candidate`.

    `metric` is None for the device's main time. `answers` are in the order of their measurement; a
    mixture that was measured twice has two.
    """

    NOUN: ClassVar[str] = "isolation"
    # 1: first version.
    VERSION: ClassVar[int] = 1

    baseline: str
    candidate: str
    case: Case
    settings: MeasureSettings
    metric: str | None
    limits: IsolateLimits
    ends: MeasuredEnds | None = None
    answers: tuple[MixtureAnswer, ...] = ()
    has_ended: bool = False

    @property
    def is_complete(self) -> bool:
        """Return whether the search has ended, and not by its limits."""
        return self.has_ended

    @property
    def num_mixtures(self) -> int:
        """Return the number of mixtures with an answer."""
        return len({item.differences for item in self.answers})

    def with_limits(self, limits: IsolateLimits) -> StoredIsolation:
        """Return the search with other limits; ends that were not clear are measured again."""
        ends = self.ends
        if ends is not None:
            verdict = judge_bounds(ends.reading, floor=self.limits.floor)
            ends = None if verdict is BoundsVerdict.UNCLEAR else ends
        return replace(self, limits=limits, ends=ends, has_ended=False)
