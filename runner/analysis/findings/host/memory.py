"""memory-grows and fragmentation: bytes that nothing of the model needs.

The allocator takes memory in blocks and returns them late. Its reserve is a finding if it is at
least MIN_RESERVE times the peak of the tensors, and MIN_RESERVED_BYTES larger. None costs time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from compile_hud.db.records.findings import Exhibit, Location
from compile_hud.db.shared.text import significant
from compile_hud.runner.analysis.findings.draft import Draft, FindingKind
from compile_hud.runner.analysis.findings.locations import gib_text, metric_exhibit
from compile_hud.runner.analysis.findings.result_evidence import ResultEvidence

_DETAIL = "memory_growth"
_KIB = 1024
MIN_RESERVE = 1.5
MIN_RESERVED_BYTES = 2**30


def find(case: ResultEvidence) -> Iterator[Draft]:
    """Yield the growth of memory between iterations."""
    growth = case.result.details.get(_DETAIL)
    if not isinstance(growth, Mapping):
        return
    num_bytes, holder = growth.get("bytes_per_iteration"), growth.get("holder")
    if not isinstance(num_bytes, int | float) or num_bytes <= 0:
        return
    yield Draft(
        text=f"each iteration leaves {significant(num_bytes / _KIB)} KiB behind",
        where=Location(module=holder if isinstance(holder, str) else ""),
        evidence=(
            Exhibit(kind="detail", name=_DETAIL, value=float(num_bytes), unit="B an iteration"),
        ),
    )


def find_fragmentation(case: ResultEvidence) -> Iterator[Draft]:
    """Yield the memory of the device that the allocator holds and no tensor uses."""
    reserved, peak = case.median("peak_reserved_bytes"), case.median("peak_bytes")
    if reserved is None or not peak:
        return
    if reserved < MIN_RESERVE * peak or reserved - peak < MIN_RESERVED_BYTES:
        return
    yield Draft(
        text=f"the allocator holds {gib_text(reserved)} for {gib_text(peak)} of tensors",
        evidence=(
            metric_exhibit("peak_reserved_bytes", reserved, unit="B"),
            metric_exhibit("peak_bytes", peak, unit="B"),
        ),
    )


KIND = FindingKind(
    code="memory-grows",
    meaning="Memory between iterations grows, as by a leak.",
    remedy="drop or detach what forward stores",
    source="memory of several iterations",
    rule=find,
    min_share=None,
)
FRAGMENTATION = FindingKind(
    code="fragmentation",
    meaning="The allocator of the GPU holds much more memory than the tensors need.",
    remedy="set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    source="memory of an iteration",
    rule=find_fragmentation,
    min_share=None,
)
