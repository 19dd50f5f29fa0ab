"""cache-bypass and cache-miss: graphs that a new process compiles although a cache is filled.

The cost is one of the start, not of an iteration. The warm compile time of a result with a miss is
missing, and a bypass of one cache can leave the other one in use. So neither has a measured cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compile_hud.db.records.findings import Exhibit
from compile_hud.db.shared.compile_caches import CacheLookups, LookupReason, cache_lookups
from compile_hud.db.shared.text import counted_of, shortened
from compile_hud.runner.analysis.findings.draft import Draft, FindingKind
from compile_hud.runner.analysis.findings.locations import metric_exhibit
from compile_hud.runner.analysis.findings.result_evidence import ResultEvidence

_MAX_REASON = 200
_TIMES = ("compile_cold_s", "compile_warm_s")


def find_bypasses(case: ResultEvidence) -> Iterator[Draft]:
    """Yield the graphs that no cache stores, from the last launch with any."""
    lookups = [item for item in cache_lookups(case.result.details) if item.num_bypasses]
    yield from _draft(case, lookups, event="bypass")


def find_misses(case: ResultEvidence) -> Iterator[Draft]:
    """Yield the misses of a filled cache, from the last launch with any."""
    lookups = [
        item
        for item in cache_lookups(case.result.details)
        if item.num_misses and item.state != "cold"
    ]
    yield from _draft(case, lookups, event="miss")


def _draft(case: ResultEvidence, lookups: Sequence[CacheLookups], *, event: str) -> Iterator[Draft]:
    last = [item for item in lookups if item.launch == lookups[-1].launch]
    if not last:
        return
    reasons = [reason for item in last for reason in item.reasons if reason.event == event] or [
        _UNKNOWN
    ]
    # A miss is permanent only if its entry cannot be written.
    permanence = "at each start" if any(item.is_permanent for item in reasons) else "this time"
    verb = "was bypassed" if event == "bypass" else "missed"
    counts = [
        f"{item.title} {verb} {counted_of(_num(item, event), item.num_lookups, 'time')}"
        for item in last
    ]
    text = shortened("; ".join(dict.fromkeys(item.text for item in reasons)), limit=_MAX_REASON)
    yield Draft(
        text=f"{', '.join(counts)}, {permanence}: {text}",
        remedy="; ".join(dict.fromkeys(item.remedy for item in reasons if item.remedy)),
        evidence=(
            *(
                Exhibit(
                    kind="detail",
                    name="compile",
                    value=float(_num(item, event)),
                    unit="1",
                    facts={"cache": item.cache, "launch": item.launch, "state": item.state},
                )
                for item in last
            ),
            *(
                metric_exhibit(name, value)
                for name in _TIMES
                if (value := case.median(name)) is not None
            ),
        ),
    )


_UNKNOWN = LookupReason(event="", text="no reason given", is_permanent=False, remedy="")


def _num(item: CacheLookups, event: str) -> int:
    return item.num_bypasses if event == "bypass" else item.num_misses


BYPASSES = FindingKind(
    code="cache-bypass",
    meaning="torch stores no entry for a graph: each start compiles it again.",
    remedy="TORCH_LOGS=+torch._inductor.codecache shows the graph and the reason",
    source="look-ups of the compile caches",
    rule=find_bypasses,
    min_share=None,
)
MISSES = FindingKind(
    code="cache-miss",
    meaning="A start with a filled compile cache compiled a graph again.",
    remedy="TORCH_LOGS=+torch._inductor.codecache shows the keys of both starts",
    source="look-ups of the compile caches",
    rule=find_misses,
    min_share=None,
)
