"""autotune-flip: the autotuner chose another configuration than before, and it is slower.

Method: the diff of the kernels against the previous result has a class for the same code with
another configuration. The cost is the regret: the time that these kernels gained.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from compile_hud.db.errors import RecordError
from compile_hud.db.records.findings import Exhibit
from compile_hud.db.records.kernels import Kernel
from compile_hud.runner.analysis.findings.draft import Draft, FindingKind
from compile_hud.runner.analysis.findings.locations import calls_text, location_of
from compile_hud.runner.analysis.findings.result_evidence import ResultEvidence
from compile_hud.runner.analysis.kernels.change_classes import ChangeKind, KernelChange
from compile_hud.runner.analysis.kernels.diff import diff_kernels, side_of


def find(case: ResultEvidence) -> Iterator[Draft]:
    """Yield the kernels that another configuration made slower."""
    rows = list(_slower_rows(case))
    names = {kernel for row in rows for kernel in map(_identity, row.candidate)}
    indices = tuple(
        index for index, kernel in enumerate(case.kernels) if _identity(kernel) in names
    )
    kernels = [case.kernels[index] for index in indices]
    total_s = math.fsum(kernel.total_s for kernel in kernels)
    regret_s = math.fsum(row.contribution_s for row in rows)
    if not total_s or regret_s <= 0:
        return
    yield Draft(
        text=f"{calls_text(kernels)} have another configuration than in the last good run",
        where=location_of(kernels),
        kernels=indices,
        part=min(1.0, regret_s / total_s),
        evidence=tuple(
            Exhibit(
                kind="change",
                name=row.label,
                value=row.contribution_s,
                unit="s",
                facts={"text": row.text},
            )
            for row in rows
        ),
    )


def _slower_rows(case: ResultEvidence) -> Iterator[KernelChange]:
    if case.previous is None or not case.kernels or not case.previous.kernels:
        return
    try:
        diff = diff_kernels(side_of(case.previous), side_of(case.result))
    except RecordError:
        return
    for row in diff.rows:
        if row.kind is ChangeKind.OTHER_CONFIG and row.contribution_s > 0:
            yield row


def _identity(kernel: Kernel) -> tuple[str, ...]:
    return (kernel.name, kernel.shapes, kernel.source_hash, kernel.module)


KIND = FindingKind(
    code="autotune-flip",
    meaning="The autotuner chose a slower configuration than in the last good run.",
    remedy="keep the autotuning cache between runs, and compare the choices in both logs",
    source="kernels, compared with the last good run",
    rule=find,
    min_share=0.01,
)
