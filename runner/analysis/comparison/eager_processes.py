"""Eager in its own process against eager in the processes of a variant.

Method: a run measures eager twice, as a case of its own and in turn with each variant. The code is
the same, so only the load of the machine differs. The two differ if their intervals do not overlap
and the change is beyond the floor of the metric: intervals of one launch are narrower than the
spread between launches.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from compile_hud.db.records.metrics import METRICS, speedup_latencies
from compile_hud.db.records.results import Case, CaseResult
from compile_hud.db.records.summaries import Outline
from compile_hud.runner.analysis.stats.estimates import Estimate

_EAGER = "eager"


@dataclass(frozen=True, slots=True)
class _Measured:
    """The estimates of a case by metric, and the method of its speedup."""

    case: Case
    estimates: Mapping[str, Estimate]
    method: str


def of_results(results: Iterable[CaseResult]) -> dict[str, Estimate]:
    """Return eager's own time where it differs from that in the processes of a case, by its key."""
    return _differing(
        _Measured(
            item.case,
            {part.metric: Estimate(part.median, *part.interval) for part in item.measurements},
            next((part.method for part in item.measurements if part.metric == "speedup"), ""),
        )
        for item in results
    )


def of_summaries(results: Iterable[Outline]) -> dict[str, Estimate]:
    """Return the same as `of_results`, of summaries."""
    return _differing(
        _Measured(
            item.case,
            {
                name: Estimate(part.median, part.low, part.high)
                for name, part in item.measurements.items()
            },
            item.measurements["speedup"].method if "speedup" in item.measurements else "",
        )
        for item in results
    )


def _differing(results: Iterable[_Measured]) -> dict[str, Estimate]:
    every = list(results)
    own = {_subject(item.case): item for item in every if item.case.variant == _EAGER}
    differing = {}
    for item in every:
        alone = own.get(_subject(item.case))
        if alone is None or item is alone:
            continue
        eager, latency = speedup_latencies([item.method])
        paired, single = item.estimates.get(eager), alone.estimates.get(latency)
        if paired and single and _is_other(paired, single, floor=METRICS[latency].relevance_floor):
            differing[item.case.key] = single
    return differing


def _subject(case: Case) -> str:
    return dataclasses.replace(case, variant="", mode="", backend="").key


def _is_other(one: Estimate, other: Estimate, *, floor: float) -> bool:
    if min(one.value, other.value) <= 0 or max(one.low, other.low) <= min(one.high, other.high):
        return False
    return max(one.value / other.value, other.value / one.value) > 1 + floor
