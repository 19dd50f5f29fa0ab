"""The table of all findings, and the findings of a case result.

Findings are derived from what is stored, whenever a result is shown: results of older runs have
them too, and a better rule needs no migration.

Attribution: each second belongs to at most one finding. The rules run in the order of the table,
and a kernel belongs to the first finding that names it. So does time without a kernel. A kernel
counts with its time under the profiler. If all kernels together last longer than the latency, all
are scaled down alike. Some causes have a time that was measured without the profiler; they cost at
most what is left of the latency. So the costs of a case add up to at most its latency.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from compile_hud.db.records.findings import OTHER_FINDING, TOTAL, Exhibit, Finding
from compile_hud.runner.analysis.findings.compile import (
    caches,
    compile_memory,
    graph_capture,
    guards,
    not_compiled,
    same_code,
)
from compile_hud.runner.analysis.findings.draft import Draft, FindingKind
from compile_hud.runner.analysis.findings.host import cuda_graphs, host_bound, memory, waits
from compile_hud.runner.analysis.findings.kernels import (
    attention_decomposed,
    autotune_flip,
    fallbacks,
    moves,
    occupancy,
    optimizer,
    plain_core_products,
    slower_kernels,
    tiny_kernels,
)
from compile_hud.runner.analysis.findings.locations import exhibits_of, time_text
from compile_hud.runner.analysis.findings.result_evidence import ResultEvidence
from compile_hud.runner.analysis.findings.slower_than_eager import (
    MEANING,
    MIN_LOSS,
    REMEDY,
    slower_than_eager,
)

# The order is that of attribution: a rule that names fewer kernels precedes one that names more.
KINDS: tuple[FindingKind, ...] = (
    attention_decomposed.KIND,
    plain_core_products.KIND,
    fallbacks.UNSUPPORTED,
    fallbacks.FALLBACKS,
    optimizer.KIND,
    waits.EXPOSED,
    occupancy.SPILLS,
    occupancy.LOW,
    moves.LAYOUT_COPIES,
    moves.CONVERSIONS,
    tiny_kernels.KIND,
    autotune_flip.KIND,
    slower_kernels.KIND,
    waits.SYNCS,
    guards.KIND,
    host_bound.KIND,
    cuda_graphs.SKIPPED,
    cuda_graphs.COVERAGE,
    waits.DATA_WAIT,
    not_compiled.KIND,
    graph_capture.BREAKS,
    graph_capture.RECOMPILES,
    caches.BYPASSES,
    caches.MISSES,
    memory.KIND,
    memory.FRAGMENTATION,
    compile_memory.KIND,
    same_code.KIND,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRow:
    """A row of the table of all findings; `min_share` is None if no time decides."""

    code: str
    meaning: str
    source: str
    remedy: str
    min_share: float | None

    @property
    def share_text(self) -> str:
        """Return the least share of the latency that is reported."""
        return "-" if self.min_share is None else f"{self.min_share:.0%}"


def table() -> list[TableRow]:
    """Return a row for each finding, in the order of attribution, the total first."""
    total = TableRow(
        code=TOTAL, meaning=MEANING, source="samples", remedy=REMEDY, min_share=MIN_LOSS
    )
    return [
        total,
        *(
            TableRow(
                code=kind.code,
                meaning=kind.meaning,
                source=kind.source,
                remedy=kind.remedy,
                min_share=kind.min_share,
            )
            for kind in KINDS
        ),
    ]


def findings_of(case: ResultEvidence) -> tuple[Finding, ...]:
    """Return the findings of a case: the total first, then the most expensive."""
    if case.result.case.is_reference:
        return ()
    attribution = _Attribution(case)
    rows = [
        finding
        for kind in KINDS
        for draft in kind.rule(case)
        if (finding := attribution.finding(kind, draft)) is not None
    ]
    ordered = sorted(rows, key=lambda item: -(item.cost_s or 0.0))
    total = slower_than_eager(case, others=ordered)
    return (*(() if total is None else (total,)), *ordered)


class _Attribution:
    """The kernels and gaps of a case, and the findings that have them."""

    def __init__(self, case: ResultEvidence) -> None:
        self._case = case
        self._owners: dict[int, str] = {}
        self._gap_left_s = case.gap_s or 0.0
        self._left_s = math.inf if case.latency_s is None else case.latency_s

    def finding(self, kind: FindingKind, draft: Draft) -> Finding | None:
        """Return the finding of `draft` with its cost; None if it is not worth a report."""
        if not draft.has_time:
            return _finding(kind, draft, cost_s=None, evidence=draft.evidence)
        own = [index for index in draft.kernels if index not in self._owners]
        shared = {index: self._owners[index] for index in draft.kernels if index in self._owners}
        gap_s = min(draft.gap_s, self._gap_left_s)
        cost_s = draft.part * self._time_s(own) + gap_s
        if draft.measured_s is not None:
            cost_s = draft.measured_s
            gap_s = min(max(0.0, cost_s - self._time_s(own)), self._gap_left_s)
        cost_s = min(cost_s, self._left_s)
        shared_s = self._time_s(shared)
        if not self._is_worth_it(kind, cost_s if not draft.has_own_cause else cost_s + shared_s):
            return None
        self._owners |= dict.fromkeys(own, kind.code)
        self._gap_left_s -= gap_s
        if not draft.is_measured:
            cost_s = 0.0
        self._left_s -= cost_s
        kernels = [self._case.kernels[index] for index in draft.kernels]
        return _finding(
            kind,
            draft,
            cost_s=cost_s or None,
            text=_shared_text(shared, shared_s=shared_s),
            evidence=(
                *exhibits_of(kernels),
                *(
                    Exhibit(kind=OTHER_FINDING, name=code, value=shared_s, unit="s")
                    for code in sorted(set(shared.values()))
                ),
                *draft.evidence,
            ),
        )

    def _is_worth_it(self, kind: FindingKind, time_s: float) -> bool:
        if kind.min_share is None:
            return True
        return time_s > 0 and time_s >= kind.min_share * (self._case.latency_s or 0.0)

    def _time_s(self, indices: Sequence[int] | dict[int, str]) -> float:
        total_s = math.fsum(self._case.kernels[index].total_s for index in indices)
        return self._case.kernel_scale * total_s


def _shared_text(shared: dict[int, str], *, shared_s: float) -> str:
    if not shared:
        return ""
    codes = ", ".join(sorted(set(shared.values())))
    return f"; {time_text(shared_s)} of it counted in {codes}"


def _finding(
    kind: FindingKind,
    draft: Draft,
    *,
    cost_s: float | None,
    evidence: Sequence[Exhibit],
    text: str = "",
) -> Finding:
    return Finding(
        code=kind.code,
        text=draft.text + text,
        cost_s=cost_s,
        where=draft.where,
        remedy=draft.remedy or kind.remedy,
        evidence=tuple(evidence),
    )
