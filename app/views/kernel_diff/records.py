"""What the page of the kernel diff is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compile_hud.app.ui.urls import KernelDiffState
from compile_hud.db.records.kernels import Kernel, KernelSource
from compile_hud.db.records.results import Case, Run, Verdict


def class_words(kind: str) -> str:
    """Return the class of a change for people: `other code`."""
    return kind.replace("_", " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffSide:
    """One of the two results; `case` is None where the run has no case of that name.

    `num_kernels` leaves out what operators do outside of kernels, though it has rows; it is None
    where none were recorded. `missing` says why there are none, and `hint` how to get them; empty
    where there are.
    """

    run: Run
    case_key: str
    case: Case | None
    num_kernels: int | None = None
    missing: str = ""
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffRow:
    """One change; times are seconds an iteration, `contribution_s` candidate less baseline.

    `number` is its place, the largest contribution first, which is the same when the sides are
    swapped. `verdict` is `unchanged` for what is within noise and for parts of the profile, which
    nobody judges. `before_s` and `after_s` are the times of both sides, None where a side has
    nothing; `count_s` and `time_s` are what calls and the time of one contribute.
    """

    number: int
    label: str
    kind: str
    verdict: Verdict
    contribution_s: float
    text: str
    matched_by: str
    baseline: tuple[Kernel, ...] = ()
    candidate: tuple[Kernel, ...] = ()
    before_s: float | None = None
    after_s: float | None = None
    count_s: float | None = None
    time_s: float | None = None
    is_part: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffPage:
    """Everything the page of the kernel diff shows; without kernels on both sides it has no rows.

    `basis` names what `baseline_s` and `candidate_s` are, `change_s` is their difference and
    `unexplained_s` what the rows leave of it. The two are rounded to a tenth of a microsecond, so
    that what is shown of them adds up, and nothing is left over that is less. `environment` has
    what the runs differ in, name by name as (before, after); `is_comparable` says whether their
    fingerprints are equal. `sources` is the code of both sides by its hash. `problem` says why
    there is no diff although both sides have kernels; `noise` what makes its times uncertain, and
    `unexplained_text` what the unexplained part is, "" where there is none.
    """

    baseline: DiffSide
    candidate: DiffSide
    environment: Mapping[str, Sequence[Any]]
    is_comparable: bool
    basis: str = ""
    baseline_s: float = 0.0
    candidate_s: float = 0.0
    change_s: float = 0.0
    unexplained_s: float = 0.0
    rows: tuple[DiffRow, ...] = ()
    sources: Mapping[str, KernelSource] = field(default_factory=dict)
    problem: str = ""
    noise: str = ""
    unexplained_text: str = ""

    @property
    def explained_s(self) -> float:
        """Return what the rows contribute together."""
        return self.change_s - self.unexplained_s

    @property
    def is_same_result(self) -> bool:
        """Return whether both sides are one result."""
        places = [(side.run.id, side.case_key) for side in (self.baseline, self.candidate)]
        return places[0] == places[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertKernels:
    """The kernels behind an alert, none where all are within noise; `state` leads to the diff.

    `share_text` says how much of `change_s`, seconds per iteration of what `basis` names, the rows
    explain together. `noise` says what makes their times uncertain, "" where nothing does.
    """

    state: KernelDiffState
    rows: tuple[DiffRow, ...]
    basis: str
    change_s: float
    share_text: str
    noise: str = ""
