"""graph-break and recompiles: Dynamo left the graph, or compiled it again.

Breaks cost the time between the end of a graph and the first kernel of the next, less the operators
that run eagerly there: those run without the break too. It is measured without the profiler, which
lengthens each entry into a graph, and only on a CPU: a GPU works on meanwhile. Fusion across the
break can save more. A recompile costs compile time once, and nothing in the iterations after it.
Its seconds are evidence, those of the first launch that has one: its cache is empty.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from compile_hud.db.records.findings import ONE_TIME, Exhibit, Location
from compile_hud.db.shared.text import counted, first_line, one_line, shortened
from compile_hud.runner.analysis.findings.draft import Draft, FindingKind
from compile_hud.runner.analysis.findings.locations import metric_exhibit, time_text
from compile_hud.runner.analysis.findings.result_evidence import ResultEvidence

_MAX_REASON = 160
_MAX_LISTED = 10
_EACH, _ALL = "recompile_s", "recompiles_s"
_GAPS = "graph_gaps_s"
_WHILE_SAMPLING = "recompiles-while-sampling"


def find_breaks(case: ResultEvidence) -> Iterator[Draft]:
    """Yield the graph breaks as one finding, with the line of the first."""
    breaks = case.detail("graph_breaks")
    count = case.median("graph_breaks") or len(breaks)
    if count < 1:
        return
    gap_s = break_gap_s(case)
    times = case.host_times
    yield Draft(
        text=_text(counted(round(count), "graph break"), breaks),
        where=_location(breaks),
        measured_s=gap_s,
        evidence=(
            *(() if times is None or gap_s is None else (metric_exhibit(_GAPS, times.gap_s),)),
            *_exhibits("graph_breaks", breaks),
        ),
    )


def break_gap_s(case: ResultEvidence) -> float | None:
    """Return the host's time between the graphs of an iteration, None if it is not measured.

    The operators that run eagerly there are not in it.
    """
    times = case.host_times
    if times is None or not times.num_gaps or times.gap_operators_s is None or case.is_cuda:
        return None
    return max(0.0, times.gap_s - times.gap_operators_s) or None


def break_guards_s(case: ResultEvidence) -> float:
    """Return the time of guards that is in the cost of the graph breaks, 0 without such a cost."""
    has_cost = (case.median("graph_breaks") or case.detail("graph_breaks")) and break_gap_s(case)
    return (case.host_times.gap_guards_s or 0.0) if case.host_times and has_cost else 0.0


def find_recompiles(case: ResultEvidence) -> Iterator[Draft]:
    """Yield the recompiles as one finding, with the guard that failed first."""
    recompiles = case.detail("recompiles")
    count = case.median("recompiles") or len(recompiles)
    if count < 1:
        return
    is_sampled = bool(case.warning_text(_WHILE_SAMPLING))
    when = ", some while samples were taken" if is_sampled else ""
    times_s = _recompile_times_s(case)
    each = "" if not times_s else f", {time_text(statistics.median(times_s))} each"
    yield Draft(
        text=_text(f"compiled {counted(round(count), 'time')} again{each}{when}", recompiles),
        where=_location(recompiles),
        evidence=(
            *_seconds(times_s, is_complete=len(times_s) == round(count)),
            *_exhibits("recompiles", recompiles),
        ),
    )


def _seconds(times_s: Sequence[float], *, is_complete: bool) -> Iterator[Exhibit]:
    """Yield the median of a recompilation, and their sum if none is missing."""
    if times_s:
        yield metric_exhibit(_EACH, statistics.median(times_s))
    if times_s and is_complete:
        yield Exhibit(kind=ONE_TIME, name=_ALL, value=math.fsum(times_s), unit="s")


def _recompile_times_s(case: ResultEvidence) -> Sequence[float]:
    """Return the seconds of each recompilation in the first launch that has one."""
    for launch in case.result.details.get("compilations") or ():
        times_s: dict[str, float] = {}
        for item in launch if isinstance(launch, list) else ():
            key = str(item.get("compile_id"))
            if item.get("reason") or key in times_s:
                times_s[key] = times_s.get(key, 0.0) + math.fsum(item["phases_s"].values())
        if times_s:
            return tuple(times_s.values())
    return ()


def _text(what: str, locations: Any) -> str:
    reason = one_line(first_line(str(locations[0].get("reason", "")))) if locations else ""
    return f"{what}: {shortened(reason, limit=_MAX_REASON)}" if reason else what


def _location(locations: Any) -> Location:
    return Location(line=_line(locations[0])) if locations else Location()


def _line(location: Mapping[str, Any]) -> str:
    file, line = location.get("file"), location.get("line")
    return f"{str(file).rpartition('/')[2]}:{line}" if file and line else ""


def _exhibits(name: str, locations: Any) -> tuple[Exhibit, ...]:
    return tuple(
        Exhibit(
            kind="detail",
            name=name,
            facts={"line": _line(item), "reason": str(item.get("reason", ""))},
        )
        for item in locations[:_MAX_LISTED]
    )


BREAKS = FindingKind(
    code="graph-break",
    meaning="Dynamo left the graph: nothing fuses across the break.",
    remedy="move the call out of the compiled function, or rewrite it; fullgraph=True names each",
    source="counters of the compiler, and the clock around each graph",
    rule=find_breaks,
    min_share=None,
)
RECOMPILES = FindingKind(
    code="recompiles",
    meaning="A guard failed, and Dynamo compiled the graph again.",
    remedy="keep what the guard names constant, or mark the dimension dynamic",
    source="counters of the compiler",
    rule=find_recompiles,
    min_share=None,
)
