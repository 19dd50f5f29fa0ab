"""The traces of all ranks of one distributed run, compared.

Clocks: each trace has the time of its zero (`baseTimeNanoseconds`), by the clock of its own
machine. The collectives give the differences of these clocks, since all ranks leave one at the same
time. `skew_s` is the median of how much later a rank left than the first rank given.

Stragglers: the rank that comes last to a collective waits for no other, so its kernel is the
shortest. The wait of the others is the difference of durations, which needs no common clock. A
collective is matched by its process group, its kernel, and its position among those.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from compile_hud.db.shared.text import counted
from compile_hud.runner.errors import TraceError
from compile_hud.runner.protocol.kernel_notes import KernelNotes
from compile_hud.runner.traces.gpu import find_on_gpu
from compile_hud.runner.traces.intervals import Intervals, joined, whole
from compile_hud.runner.traces.iteration import IterationWork
from compile_hud.runner.traces.kernel_kinds import class_of_kernel
from compile_hud.runner.traces.kernel_rows import NS_PER_S
from compile_hud.runner.traces.timeline import Call, Timeline, read_timeline

COMMUNICATION, COPY = "communication", "copy"
# A rank for which others wait this share of an iteration needs attention: the floor of alerts.
STRAGGLER_SHARE = 0.05
# Spans closer than this part of the iteration are drawn as one: a thousand fill a screen.
_SPAN_GAP_SHARE = 1e-3
# 1: first version.
SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class _Rank:
    """The facts of one trace that the report needs."""

    rank: int
    path: Path
    device: str
    base_ns: int
    world_size: int
    work: IterationWork
    collectives: Mapping[tuple[str, str], Intervals]


@dataclass(slots=True)
class _Waits:
    """The waits of one rank in collectives."""

    waited_ns: int = 0
    delay_ns: int = 0
    num_last: int = 0


def read_ranks(paths: Sequence[Path]) -> RankReport:
    """Return the comparison of the ranks of one run, one trace a rank, in any order.

    Raises TraceError for a broken trace, one without a GPU, fewer than two traces, and traces of
    different runs.
    """
    if len(paths) < 2:
        raise TraceError(
            f"got {counted(len(paths), 'trace')}, ranks are compared from 2 on. Name one trace of"
            " each rank",
            num_paths=len(paths),
        )
    ranks = _numbered([_read(path) for path in paths])
    matched, num_unmatched = _match(ranks)
    waits = _waits(ranks, matched)
    skews = {rank.rank: _skew_ns(rank, ranks[0], matched) for rank in ranks}
    starts = {
        rank.rank: rank.base_ns + int(rank.work.windows.union().starts[0]) - skews[rank.rank]
        for rank in ranks
    }
    zero_ns = min(starts.values())
    rows = [
        _row(
            rank,
            waits=waits[rank.rank],
            skew_ns=skews[rank.rank],
            start_ns=starts[rank.rank] - zero_ns,
        )
        for rank in ranks
    ]
    return RankReport(
        rows=tuple(rows),
        world_size=max(ranks[0].world_size, len(ranks)),
        num_collectives=sum(matched.values()),
        num_unmatched=num_unmatched,
    )


def _read(path: Path) -> _Rank:
    timeline = read_timeline(path, notes=KernelNotes())
    if not len(timeline.device):
        raise TraceError(
            f"{path}: the trace has no kernel of a GPU, and ranks are compared by these. Record it"
            " with ProfilerActivity.CUDA",
            path=path,
        )
    work, header = find_on_gpu(timeline), timeline.header
    if work.iteration_ns == 0:
        raise TraceError(
            f"{path}: no iteration of this trace has work of its GPU. Record it again", path=path
        )
    return _Rank(
        rank=-1 if header.rank is None else header.rank,
        path=path,
        device=header.devices[0] if header.devices else "",
        base_ns=header.base_ns,
        world_size=header.world_size or 0,
        work=work,
        collectives=_collectives(timeline, work),
    )


def _collectives(timeline: Timeline, work: IterationWork) -> dict[tuple[str, str], Intervals]:
    """Return when each collective of the iterations was, in order, by group and kernel."""
    keys = {index: _key(call) for index, call in enumerate(timeline.calls)}
    device = timeline.device.intervals
    is_inside = work.windows.holds(device.starts)
    call_indices = whole(timeline.device.calls)
    rows: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row in np.argsort(device.starts, kind="stable").tolist():
        key = keys[int(call_indices[row])]
        if key is not None and is_inside[row]:
            rows[key].append(row)
    return {
        key: Intervals(device.starts[numbers], device.ends[numbers])
        for key, numbers in rows.items()
    }


def _key(call: Call) -> tuple[str, str] | None:
    """Return the identity of a collective, None for other calls."""
    if isinstance(call.what, int):
        return None
    kind = class_of_kernel(call.name, operator="", is_triton=False).kind
    return (str(call.facts.get("group", "")), call.name) if kind == COMMUNICATION else None


def _numbered(ranks: list[_Rank]) -> list[_Rank]:
    """Return the ranks in order; raise TraceError when they are not of one run."""
    sizes = {rank.world_size for rank in ranks}
    numbers = [rank.rank for rank in ranks]
    names = ", ".join(str(rank.path) for rank in ranks)
    if len(sizes) > 1 or len(set(numbers)) < len(numbers) or min(numbers) < 0:
        raise TraceError(
            f"{names}: these traces are not one a rank of one run: they are ranks"
            f" {numbers} (-1: it does not say) of {sorted(sizes)}. Name one trace of each rank, as"
            " torch.profiler writes it after torch.distributed is initialised (distributedInfo)",
            names=names,
            numbers=numbers,
        )
    return sorted(ranks, key=lambda rank: rank.rank)


def _match(ranks: Sequence[_Rank]) -> tuple[dict[tuple[str, str], int], int]:
    """Return the number of matched collectives by key, and the number of unmatched ones."""
    counts: dict[tuple[str, str], list[int]] = defaultdict(list)
    for rank in ranks:
        for key, intervals in rank.collectives.items():
            counts[key].append(len(intervals))
    is_shared = {
        key: len(counts_by_rank) > 1 and len(set(counts_by_rank)) == 1
        for key, counts_by_rank in counts.items()
    }
    matched = {key: counts_by_rank[0] for key, counts_by_rank in counts.items() if is_shared[key]}
    return matched, sum(
        max(counts_by_rank) for key, counts_by_rank in counts.items() if not is_shared[key]
    )


def _waits(ranks: Sequence[_Rank], matched: Mapping[tuple[str, str], int]) -> dict[int, _Waits]:
    waits = {rank.rank: _Waits() for rank in ranks}
    for key in matched:
        members = [rank for rank in ranks if key in rank.collectives]
        spent = np.array(
            [rank.collectives[key].ends - rank.collectives[key].starts for rank in members]
        )
        last = spent.argmin(axis=0)
        waited = spent - spent.min(axis=0)
        for index, rank in enumerate(members):
            rank_waits = waits[rank.rank]
            rank_waits.waited_ns += int(waited[index].sum())
            rank_waits.delay_ns += int(waited.max(axis=0)[last == index].sum())
            rank_waits.num_last += int((last == index).sum())
    return waits


def _skew_ns(rank: _Rank, first: _Rank, matched: Mapping[tuple[str, str], int]) -> int:
    """Return the lead of the clock of `rank`, 0 without a common collective."""
    ahead = [
        rank.collectives[key].ends - first.collectives[key].ends
        for key in matched
        if key in rank.collectives and key in first.collectives
    ]
    if not ahead:
        return 0
    return int(np.median(np.concatenate(ahead))) + rank.base_ns - first.base_ns


def _row(rank: _Rank, *, waits: _Waits, skew_ns: int, start_ns: int) -> RankRow:
    work = rank.work
    parts = work.components()
    owners = {name: intervals.within(work.windows) for name, intervals in _groups(work).items()}
    per_iteration = work.num_iterations * NS_PER_S
    exposed_s = parts.pop(COMMUNICATION, 0.0)
    copy_s, idle_s = parts.pop(COPY, 0.0), parts.pop(work.rest)
    communication_s = owners[COMMUNICATION].covered_ns / per_iteration
    delay_s = waits.delay_ns / per_iteration
    iteration_s = work.iteration_ns / NS_PER_S
    return RankRow(
        rank=rank.rank,
        trace=rank.path.name,
        device=rank.device,
        start_s=start_ns / NS_PER_S,
        skew_s=skew_ns / NS_PER_S,
        num_iterations=work.num_iterations,
        iteration_s=iteration_s,
        busy=work.busy or 0.0,
        compute_s=sum(parts.values()),
        communication_s=communication_s,
        exposed_s=exposed_s,
        copy_s=copy_s,
        idle_s=idle_s,
        overlap=1 - exposed_s / communication_s if communication_s else None,
        waited_s=waits.waited_ns / per_iteration,
        delay_s=delay_s,
        num_last=waits.num_last,
        is_straggler=delay_s > STRAGGLER_SHARE * iteration_s,
        spans=_spans(owners, work, start_ns),
    )


def _groups(work: IterationWork) -> dict[str, Intervals]:
    """Return the times of computation, communication and copies."""
    apart = (COMMUNICATION, COPY)
    others = [intervals for kind, intervals in work.owners.items() if kind not in apart]
    nothing = Intervals.of([])
    return {
        "compute": joined(others),
        **{kind: work.owners.get(kind, nothing) for kind in apart},
    }


def _spans(owners: Mapping[str, Intervals], work: IterationWork, start_ns: int) -> tuple[Span, ...]:
    """Return the first iteration to be drawn, with short gaps closed."""
    first_ns = int(work.windows.starts.min())
    window = Intervals.of([(first_ns, first_ns + int(work.iteration_ns))])
    gap_ns = max(int(window.total_ns * _SPAN_GAP_SHARE), 1)
    spans = []
    for group, intervals in owners.items():
        inside = intervals.within(window)
        drawn = Intervals(inside.starts, inside.ends + gap_ns).union()
        for begin, end in zip(drawn.starts.tolist(), drawn.ends.tolist(), strict=True):
            zero_ns = int(window.starts[0]) - start_ns
            spans.append(
                Span(group, (begin - zero_ns) / NS_PER_S, (end - gap_ns - zero_ns) / NS_PER_S)
            )
    return tuple(spans)


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which a rank computed, communicated or copied.

    The zero is the start of the earliest rank's first iteration.
    """

    group: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRow:
    """The times of one rank, in seconds per iteration unless stated otherwise.

    `start_s` is the start of its first iteration after that of the earliest rank. `skew_s` is the
    lead of its clock over the first rank's, already subtracted. `compute_s` + `copy_s` +
    `exposed_s` + `idle_s` are the iteration. `exposed_s` is the part of `communication_s` that
    neither computation nor copies hide, `overlap` the hidden share (None without communication).
    `waited_s` is the wait for later ranks in collectives. `delay_s` is how long others waited for
    this rank, which came last to `num_last` collectives of all iterations. `spans` are of the first
    one.
    """

    rank: int
    trace: str
    device: str
    start_s: float
    skew_s: float
    num_iterations: int
    iteration_s: float
    busy: float
    compute_s: float
    communication_s: float
    exposed_s: float
    copy_s: float
    idle_s: float
    overlap: float | None
    waited_s: float
    delay_s: float
    num_last: int
    is_straggler: bool
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankReport:
    """All ranks, by number. `num_collectives` are on several ranks and were compared.

    `num_unmatched` were not: only one rank has them, or ranks have different numbers of them.
    """

    rows: tuple[RankRow, ...]
    world_size: int
    num_collectives: int
    num_unmatched: int

    def to_json(self) -> dict[str, Any]:
        """Return the report as a JSON document."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}
