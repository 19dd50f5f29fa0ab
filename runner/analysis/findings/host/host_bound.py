"""host-bound: the GPU waits for the host to launch kernels.

Method: while samples are taken, the host enqueues work in nearly all of the time (`host_share`),
and the kernels last less than the iteration. The gap is the part of the latency without a kernel.
It comes from the latency, since the profiler slows the host. Replaying a CUDA graph removes most of
it: if the run measured `reduce-overhead` as well, the cost is at most what that saved.
"""

from __future__ import annotations

from collections.abc import Iterator

from compile_hud.db.records.findings import Exhibit
from compile_hud.runner.analysis.findings.draft import Draft, FindingKind
from compile_hud.runner.analysis.findings.locations import metric_exhibit, share_text, time_text
from compile_hud.runner.analysis.findings.result_evidence import ResultEvidence

_GRAPHED_REMEDY = "use larger batches: each replay of a graph is a launch too"
_EAGER_REMEDY = 'torch.compile(mode="reduce-overhead") launches all kernels at once'


def find(case: ResultEvidence) -> Iterator[Draft]:
    """Yield the time in which the GPU waits for launches."""
    share = case.host_share
    if share is None or not case.is_host_bound or not case.gap_s or not case.latency_s:
        return
    num_kernels = case.median("num_kernels")
    calls = "" if num_kernels is None else f" of {num_kernels:.0f} kernels"
    evidence = [Exhibit(kind="detail", name="host_share", value=share, unit="share")]
    gap_s, end, remedy = case.gap_s, "", ""
    graphed = _with_graphs(case)
    if graphed is not None:
        variant, graphed_s = graphed
        end = f"; `{variant}` takes {time_text(graphed_s)} in the same run"
        gap_s = min(gap_s, case.latency_s - graphed_s)
        evidence.append(metric_exhibit(f"latency_s of {variant}", graphed_s))
    if case.is_eager:
        remedy = _EAGER_REMEDY
    elif case.has_cuda_graphs:
        remedy = _GRAPHED_REMEDY
    waits = share_text(case.gap_s / case.latency_s)
    yield Draft(
        text=f"the GPU waits for launches{calls} {waits} of the time{end}",
        gap_s=gap_s,
        remedy=remedy,
        evidence=tuple(evidence),
    )


def _with_graphs(case: ResultEvidence) -> tuple[str, float] | None:
    """Return the variant with CUDA graphs that was faster in the same run, and its latency."""
    if case.is_eager or case.has_cuda_graphs:
        return None
    sibling = case.sibling("reduce-overhead")
    latency = None if sibling is None else sibling.measurement("latency_s")
    if sibling is None or latency is None or latency.median >= (case.latency_s or 0.0):
        return None
    return sibling.case.variant, latency.median


KIND = FindingKind(
    code="host-bound",
    meaning="The GPU is idle because the host launches kernels too slowly.",
    remedy='use CUDA graphs: mode="reduce-overhead", or larger batches',
    source="samples and kernels",
    rule=find,
    min_share=0.10,
)
