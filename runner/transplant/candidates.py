"""Find the kernels of a bad build that those of a good one can replace, and the others. Pure.

A candidate is a kernel that the diff pairs with one of the good build, that takes longer now, and
whose code or configuration changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from compile_hud.db.records.kernels import VECTOR_ISA, Kernel
from compile_hud.db.shared.text import counted
from compile_hud.runner.analysis.kernels.change_classes import ChangeKind, KernelChange
from compile_hud.runner.analysis.kernels.diff import KernelDiff, diff_kernels
from compile_hud.runner.analysis.kernels.grouping import GENERATED, KernelSide
from compile_hud.runner.protocol.transplants import KernelTransplant
from compile_hud.runner.transplant.interfaces import (
    KernelCode,
    RefusalReason,
    interface_change,
)

# Kernels with a smaller part of the change of the latency are not looked at.
MIN_PART = 0.02
# The fastest of ten calls differs by less from launch to launch of the same code.
SLOWER = 1.05
_OTHER = (ChangeKind.OTHER_CODE, ChangeKind.OTHER_CONFIG)
_REGROUPED = (ChangeKind.SPLIT, ChangeKind.MERGED, ChangeKind.REGROUPED)
_CHOICES = ("num_warps", "num_stages")


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A kernel to transplant; `contribution_s` is its part of the change under the profiler."""

    label: str
    transplant: KernelTransplant
    contribution_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRefusal:
    """A slower kernel that is not transplanted, with the reason as a code and a clause."""

    label: str
    reason: RefusalReason
    text: str
    contribution_s: float

    def to_json(self) -> dict[str, Any]:
        """Return the refusal as a JSON object; times are microseconds an iteration."""
        return {
            "label": self.label,
            "reason": str(self.reason),
            "text": self.text,
            "contribution_us": 1e6 * self.contribution_s,
        }


def find_candidates(
    good: KernelSide, bad: KernelSide, *, max_kernels: int, num_threads: int
) -> tuple[list[Candidate], list[KernelRefusal]]:
    """Return the kernels to transplant and the refused ones, each the longest first.

    `num_threads` are those of the case.
    """
    candidates: list[Candidate] = []
    refusals: list[KernelRefusal] = []
    seen: set[str] = set()
    for row in _slower_rows(diff_kernels(good, bad)):
        outcome = _look_at(row, sides=(good, bad), num_threads=num_threads)
        if isinstance(outcome, KernelRefusal):
            refusals.append(outcome)
            continue
        code = row.candidate[0].source_hash
        if code in seen:
            # One code with several shapes is replaced wherever it is called.
            continue
        seen.add(code)
        if len(candidates) < max_kernels:
            candidates.append(outcome)
        else:
            text = f"--max-kernels allows only {counted(max_kernels, 'kernel')}"
            refusals.append(_refusal(row, RefusalReason.LIMIT, text))
    return candidates, refusals


def _slower_rows(diff: KernelDiff) -> list[KernelChange]:
    return [
        row
        for row in diff.rows
        if not row.part
        and row.candidate
        and row.contribution_s > MIN_PART * abs(diff.change_s)
        and (row.is_beyond_noise or _has_slower_code(row))
        and not all(kernel.is_dispatch for kernel in row.candidate)
    ]


def _has_slower_code(row: KernelChange) -> bool:
    """Return whether even the fastest call of other code takes longer.

    The profile of one launch may be disturbed; the launches of the experiment decide.
    """
    if row.kind not in _OTHER or not row.baseline:
        return False
    before, after = (max(kernel.min_s for kernel in side) for side in (row.baseline, row.candidate))
    return after > SLOWER * before


def _look_at(
    row: KernelChange, *, sides: tuple[KernelSide, KernelSide], num_threads: int
) -> Candidate | KernelRefusal:
    if not row.baseline:
        return _refusal(row, RefusalReason.NO_PAIR, "the good build has no such kernel")
    if not all(_is_generated(kernel) for kernel in (*row.baseline, *row.candidate)):
        return _refusal(row, RefusalReason.LIBRARY, _library_text(row))
    if row.kind in _REGROUPED or len({item.source_hash for item in row.baseline}) > 1:
        num_before, num_after = len(row.baseline), len(row.candidate)
        text = f"{counted(num_before, 'kernel')} before, {num_after} now: another grouping"
        return _refusal(row, RefusalReason.REGROUPED, text)
    before, after = row.baseline[0], row.candidate[0]
    one = sides[0].sources.get(before.source_hash, "")
    other = sides[1].sources.get(after.source_hash, "")
    if not one or not other:
        side = "good" if not one else "bad"
        text = f"its code of the {side} build is not stored"
        return _refusal(row, RefusalReason.NO_SOURCE, text)
    return _compare(
        row,
        KernelCode(kernel=before, text=one, language=_language(before)),
        KernelCode(kernel=after, text=other, language=_language(after)),
        num_threads=num_threads,
    )


def _compare(
    row: KernelChange, good: KernelCode, bad: KernelCode, *, num_threads: int
) -> Candidate | KernelRefusal:
    change = interface_change(good, bad, num_threads=num_threads)
    if change is not None:
        return _refusal(row, change.reason, change.text)
    config: Mapping[str, Any] = {}
    if good.kernel.source_hash == bad.kernel.source_hash:
        if good.language != "triton" or good.kernel.config == bad.kernel.config:
            text = "the code is the same in both builds, so something else slows it"
            return _refusal(row, RefusalReason.SAME_CODE, text)
        config = good.kernel.config
        if not all(name in config for name in _CHOICES):
            text = "the configuration of the good build was not recorded whole"
            return _refusal(row, RefusalReason.CONFIG, text)
    return Candidate(
        label=row.label,
        contribution_s=row.contribution_s,
        transplant=KernelTransplant(
            name=_own_name(bad.kernel),
            language=bad.language,
            own_source=bad.text,
            source_name=_own_name(good.kernel),
            source=good.text,
            vector_isa=str(good.kernel.launch.get(VECTOR_ISA, "")),
            config=config,
        ),
    )


def _own_name(kernel: Kernel) -> str:
    """Return the name in the code, without the number of the graph in a trace."""
    return kernel.name.partition("#")[0]


def _is_generated(kernel: Kernel) -> bool:
    return kernel.library in GENERATED


def _language(kernel: Kernel) -> str:
    return "triton" if kernel.library == "triton" else "cpp"


def _library_text(row: KernelChange) -> str:
    names = {item.library for item in (*row.baseline, *row.candidate) if not _is_generated(item)}
    return f"a kernel of a library ({', '.join(sorted(names))}), which no build generates"


def _refusal(row: KernelChange, reason: RefusalReason, text: str) -> KernelRefusal:
    return KernelRefusal(
        label=row.label, reason=reason, text=text, contribution_s=row.contribution_s
    )


def refused(candidate: Candidate, reason: RefusalReason, text: str) -> KernelRefusal:
    """Return the refusal of a candidate whose launch decided it."""
    return KernelRefusal(
        label=candidate.label,
        reason=reason,
        text=text,
        contribution_s=candidate.contribution_s,
    )


def labels_of(candidates: Sequence[Candidate]) -> str:
    """Return the labels of candidates as a list."""
    return ", ".join(candidate.label for candidate in candidates)
