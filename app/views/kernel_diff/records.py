"""The data of the page of the kernel diff."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from compile_hud.app.ui.urls import KernelDiffState
from compile_hud.app.views.memory.records import MemoryChanges
from compile_hud.db.records.kernels import Kernel, KernelSource
from compile_hud.db.records.results import Case, Run, Verdict


def class_words(kind: str) -> str:
    """Return the label of a class of changes: `other code`."""
    return kind.replace("_", " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffSide:
    """One of the two results; `case` is None if the run has no such case.

    `num_kernels` excludes the rows of operators outside of kernels; None if no kernels were
    recorded. `missing` is the reason for that, and `hint` a remedy; both are empty otherwise.
    """

    run: Run
    case_key: str
    case: Case | None
    num_kernels: int | None = None
    missing: str = ""
    hint: str = ""

    @property
    def device(self) -> str:
        """Return the name of the GPU or CPU, "" if unknown."""
        name = self.run.environment.get("device_name")
        return name if isinstance(name, str) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffRow:
    """One change; times are seconds per iteration, `contribution_s` candidate less baseline.

    `number` is its rank, the largest contribution first; swapped sides give the same ranks.
    `verdict` is `unchanged` within noise and for components of the profile, which have no test.
    `before_s` and `after_s` are the times of both sides, None for a missing side. `count_s` and
    `time_s` are the contributions of the number of calls and of the time of one.
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
class KernelSum:
    """The seconds an iteration of both sides of one kind, operator or module.

    `property` is which of these, `label` the name in short.
    """

    property: str
    name: str
    label: str
    baseline_s: float
    candidate_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffPage:
    """Everything the page of the kernel diff shows; without kernels on both sides it has no rows.

    `basis` names the times `baseline_s` and `candidate_s`. `change_s` is their difference, and
    `unexplained_s` the part of it that no row explains. Both are rounded to a tenth of a
    microsecond, so that the shown numbers add up and no smaller remainder is left. `environment`
    has the facts that differ, name by name as (before, after); `is_comparable` tells whether the
    fingerprints are equal. `sources` is the code of both sides by its hash. `problem` is the reason
    why there is no diff although both sides have kernels, `noise` the reason why its times are
    uncertain. `unexplained_text` describes the unexplained part, "" without one.
    `sums` are those of the kernels of both sides that changed, the largest change of each property
    first. `devices_text` names two different devices, "" otherwise. `memory` has the changes of
    memory at the peak, None if a side has none.
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
    sums: tuple[KernelSum, ...] = ()
    devices_text: str = ""
    memory: MemoryChanges | None = None

    @property
    def explained_s(self) -> float:
        """Return the sum of the contributions of the rows."""
        return self.change_s - self.unexplained_s

    @property
    def is_same_result(self) -> bool:
        places = [(side.run.id, side.case_key) for side in (self.baseline, self.candidate)]
        return places[0] == places[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertKernels:
    """The kernels behind an alert, none if all are within noise; `state` leads to the diff.

    `share_text` is the share of `change_s` that the rows explain together; `change_s` is in seconds
    per iteration of `basis`. `noise` is the reason why their times are uncertain, "" for none.
    """

    state: KernelDiffState
    rows: tuple[DiffRow, ...]
    basis: str
    change_s: float
    share_text: str
    noise: str = ""
