"""A row of a kernel diff: which kernels, the class of their change, and what it contributes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from compile_hud.db.records.kernels import Kernel
from compile_hud.runner.analysis.kernels.grouping import MatchedBy


class ChangeKind(StrEnum):
    """The class of a change."""

    UNCHANGED = "unchanged"
    SLOWER = "same_code_slower"
    FASTER = "same_code_faster"
    OTHER_CONFIG = "other_config"
    OTHER_CODE = "other_code"
    NEW = "new"
    VANISHED = "vanished"
    MORE_OFTEN = "more_often"
    LESS_OFTEN = "less_often"
    OTHER_ALGORITHM = "other_algorithm"
    SPLIT = "split"
    MERGED = "merged"
    REGROUPED = "regrouped"
    PART = "part"


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelChange:
    """One row of a diff: what changed, by how much an iteration, and why.

    `contribution_s` is candidate less baseline, seconds an iteration; `count_s` and `time_s` are
    the parts of it that come from the number of calls and from the time of one, None where kernels
    of one side only or of a fusion leave no call to compare. `part` names the part of the profile
    that the row is about, where it is about no kernel. `matched_by` is how the kernels of both
    sides were found to belong together. `is_beyond_noise` is False where neither the calls nor the
    time of one changed by more than noise; what is on one side alone, or fused, is beyond it.
    """

    kind: ChangeKind
    baseline: tuple[Kernel, ...]
    candidate: tuple[Kernel, ...]
    contribution_s: float
    text: str
    matched_by: MatchedBy
    count_s: float | None = None
    time_s: float | None = None
    part: str = ""
    is_beyond_noise: bool = True

    @property
    def label(self) -> str:
        """Return what the row is called: the labels of both sides where they differ."""
        if self.part:
            return self.part
        names = [
            " + ".join(dict.fromkeys(kernel.label for kernel in side))
            for side in (self.baseline, self.candidate)
            if side
        ]
        return " -> ".join(dict.fromkeys(names))

    def to_json(self) -> dict[str, Any]:
        """Return the row as a JSON object; times are microseconds an iteration."""
        return {
            "label": self.label,
            "class": str(self.kind),
            "contribution_us": 1e6 * self.contribution_s,
            "count_us": None if self.count_s is None else 1e6 * self.count_s,
            "time_us": None if self.time_s is None else 1e6 * self.time_s,
            "matched_by": str(self.matched_by),
            "text": self.text,
            "baseline": [_brief(kernel) for kernel in self.baseline],
            "candidate": [_brief(kernel) for kernel in self.candidate],
        }


def _brief(kernel: Kernel) -> dict[str, Any]:
    return {
        "name": kernel.name,
        "kind": kernel.kind,
        "library": kernel.library,
        "shapes": kernel.shapes,
        "module": kernel.module,
        "operators": list(kernel.operators),
        "count": kernel.count,
        "total_us": 1e6 * kernel.total_s,
        "mean_us": 1e6 * kernel.mean_s,
        "min_us": 1e6 * kernel.min_s,
        "source_hash": kernel.source_hash,
        "config": dict(kernel.config),
    }
