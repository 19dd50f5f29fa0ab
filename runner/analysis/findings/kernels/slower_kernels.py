"""slower-kernel: generated kernels take longer than those of eager that do the same work.

Method: the diff of the kernels of eager and of the case says which do the same work. Times are
scaled to the latencies, which both sides have from the same minutes. A decomposition leaves kernels
without a counterpart; those of both sides are compared as a whole. Kernels vary more than a
latency, so the rule needs a case that is slower than eager, and a factor of MIN_RATIO.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from compile_hud.db.records.metrics import speedup_latencies
from compile_hud.runner.analysis.findings.draft import Draft, FindingKind
from compile_hud.runner.analysis.findings.locations import calls_text, location_of, time_text
from compile_hud.runner.analysis.findings.result_evidence import ResultEvidence
from compile_hud.runner.analysis.kernels.grouping import Group, MatchedBy
from compile_hud.runner.analysis.kernels.matching import Match

# Profiles of one kernel in two processes differ by less, except on a busy machine.
MIN_RATIO = 1.3


def find(case: ResultEvidence) -> Iterator[Draft]:
    """Yield the generated kernels that are slower than those of eager, as one finding."""
    eager_scale = _eager_scale(case)
    if eager_scale is None:
        return
    matches = _with_leftovers(case.matches)
    slower = [match for match in matches if _is_slower(match, case, eager_scale=eager_scale)]
    names = {
        (kernel.name, kernel.shapes, kernel.operators, kernel.module)
        for match in slower
        for group in match.candidate
        for kernel in group.kernels
    }
    indices = tuple(
        index
        for index, kernel in enumerate(case.kernels)
        if (kernel.name, kernel.shapes, kernel.operators, kernel.module) in names
    )
    if not indices:
        return
    kernels = [case.kernels[index] for index in indices]
    eager_s = eager_scale * math.fsum(_time_s(match.baseline) for match in slower)
    time_s = case.kernel_scale * math.fsum(kernel.total_s for kernel in kernels)
    yield Draft(
        text=f"{calls_text(kernels)} take {time_text(time_s)}; kernels of eager do the same work in"
        f" {time_text(eager_s)}",
        where=location_of(kernels),
        kernels=indices,
        part=max(0.0, 1 - eager_s / time_s),
    )


def _eager_scale(case: ResultEvidence) -> float | None:
    """Return the factor from a kernel of eager to its part of eager's latency.

    None if the case is not slower than eager, or has no kernels of eager. A replayed graph has no
    operators, so its kernels match few of eager's.
    """
    if case.profile is None or case.profile.is_graph_replay:
        return None
    speedup = case.result.measurement("speedup")
    if speedup is None or speedup.interval[1] >= 1 or case.is_eager or case.eager is None:
        return None
    eager_s = case.median(speedup_latencies([speedup.method])[0])
    total_s = math.fsum(kernel.total_s for kernel in case.eager.kernels)
    if eager_s is None or not total_s:
        return None
    return min(1.0, eager_s / total_s)


def _with_leftovers(matches: Sequence[Match]) -> list[Match]:
    """Return the matches of both sides, and one of all kernels without a counterpart."""
    alone = [match for match in matches if match.matched_by is MatchedBy.NOTHING]
    leftovers = Match(
        baseline=_kernels(group for match in alone for group in match.baseline),
        candidate=_kernels(group for match in alone for group in match.candidate),
        matched_by=MatchedBy.NOTHING,
    )
    return [*(match for match in matches if match.baseline and match.candidate), leftovers]


def _kernels(groups: Iterable[Group]) -> tuple[Group, ...]:
    return tuple(group for group in groups if not group.is_dispatch)


def _is_slower(match: Match, case: ResultEvidence, *, eager_scale: float) -> bool:
    # A library's kernel that both sides call is the same one, and attention has its own finding.
    if match.matched_by is MatchedBy.ATTENTION or not any(
        group.is_generated for group in match.candidate
    ):
        return False
    eager_s = eager_scale * _time_s(match.baseline)
    return case.kernel_scale * _time_s(match.candidate) >= MIN_RATIO * eager_s > 0


def _time_s(groups: Sequence[Group]) -> float:
    return math.fsum(group.total_s for group in groups)


KIND = FindingKind(
    code="slower-kernel",
    meaning="A generated kernel takes longer than the kernels of eager that do the same work.",
    remedy="run these operators eagerly (torch.compiler.disable), or try max-autotune",
    source="kernels of the case and of eager",
    rule=find,
    min_share=0.05,
)
