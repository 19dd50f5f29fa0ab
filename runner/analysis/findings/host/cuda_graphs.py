"""cudagraph-skipped and cudagraph-coverage: CUDA graphs that were requested and do not run.

Kernels of a replayed graph have no operator of their own in the trace. So kernels with an operator
are launched one by one, apart from the copies of the inputs. In training, loss and optimizer are
outside of every graph; they count as well, since they are launched one by one too.
"""

from __future__ import annotations

from collections.abc import Iterator

from compile_hud.db.records.findings import Exhibit
from compile_hud.db.records.kernels import Kernel
from compile_hud.db.shared.text import first_line, one_line, shortened
from compile_hud.runner.analysis.findings.draft import Draft, FindingKind
from compile_hud.runner.analysis.findings.locations import exhibits_of, location_of, share_text
from compile_hud.runner.analysis.findings.result_evidence import ResultEvidence
from compile_hud.runner.analysis.kernels.grouping import GENERATED

REASONS = "cudagraph_skip_reasons"
# Below this share of the calls, the launches outside of graphs matter.
MIN_COVERAGE = 0.8
_MODES = ("reduce-overhead", "max-autotune")
_COPY_OF_INPUTS = "aten::_foreach_copy_"
_MAX_REASON = 160


def find_skipped(case: ResultEvidence) -> Iterator[Draft]:
    """Yield the reasons for which Inductor skipped CUDA graphs."""
    reasons = case.result.details.get(REASONS)
    texts = [text for text in reasons or () if isinstance(text, str)]
    if not texts or not case.is_cuda:
        return
    reason = shortened(one_line(first_line(texts[0])), limit=_MAX_REASON)
    yield Draft(
        text=f"CUDA graphs were skipped: {reason}",
        evidence=tuple(Exhibit(kind="detail", name=f"{REASONS}: {text}") for text in texts),
    )


def find_coverage(case: ResultEvidence) -> Iterator[Draft]:
    """Yield the kernels outside of CUDA graphs in a mode that uses them."""
    if not case.has_cuda_graphs or case.result.case.mode not in _MODES:
        return
    calls = [kernel for kernel in case.kernels if not kernel.is_dispatch]
    total = sum(kernel.count for kernel in calls)
    outside = [kernel for kernel in calls if _is_launched(case, kernel)]
    num_outside = sum(kernel.count for kernel in outside)
    coverage = 1 - num_outside / total if total else 1.0
    if coverage >= MIN_COVERAGE:
        return
    yield Draft(
        text=f"{share_text(coverage)} of the calls of kernels are inside CUDA graphs;"
        f" {num_outside:.0f} are launched one by one",
        where=location_of(outside),
        evidence=exhibits_of(outside),
    )


def _is_launched(case: ResultEvidence, kernel: Kernel) -> bool:
    """Return whether the host launches the kernel itself."""
    if case.profile is not None and not case.profile.is_graph_replay:
        return True
    if kernel.library in GENERATED:
        # The notes name its operators also in a replay, and only a launch has its shapes.
        return bool(kernel.shapes)
    return bool(kernel.operators) and _COPY_OF_INPUTS not in kernel.operators


SKIPPED = FindingKind(
    code="cudagraph-skipped",
    meaning="Inductor was asked for CUDA graphs and did without them.",
    remedy="remove what the reason names: copies to the CPU, mutated inputs, dynamic shapes",
    source="counters of the compiler",
    rule=find_skipped,
    min_share=None,
)
COVERAGE = FindingKind(
    code="cudagraph-coverage",
    meaning="Many kernels run outside of the CUDA graphs of the mode.",
    remedy="compile the whole step, and remove graph breaks and copies to the CPU",
    source="kernels",
    rule=find_coverage,
    min_share=None,
)
