"""The CPU's work in the iterations of a trace: each operator by its own time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from compile_hud.db.records.kernels import CACHE_LOOKUP
from compile_hud.runner.protocol.kernel_notes import KernelNotes
from compile_hud.runner.protocol.operator_costs import Work, shapes_text
from compile_hud.runner.traces.intervals import Intervals, joined, whole
from compile_hud.runner.traces.iteration import IterationWork, Piece, longest, median_iteration
from compile_hud.runner.traces.kernel_kinds import Class, class_of_operator, own_name
from compile_hud.runner.traces.kernel_rows import Tally, work_of_call
from compile_hud.runner.traces.operator_stack import OperatorNesting, nest
from compile_hud.runner.traces.timeline import MODULE_PREFIX, OPERATOR, Call, Timeline

DISPATCH = "dispatch"
# Inductor's C++ templates of products begin with this line
# (torch/_inductor/codegen/cpp_gemm_template.py); their names do not reveal them.
_GEMM = "int64_t Mr_blocks = "
# Every nanosecond of an iteration in which no thread was in an operator.
REST = "python"
# torch's ranges of a call of compiled code, and of a graph in it (torch/_inductor/output_code.py).
_REGION = "Torch-Compiled Region"
_GRAPH = "## Call CompiledFxGraph"


def find_on_cpu(timeline: Timeline, *, notes: KernelNotes) -> IterationWork:
    """Return the rows of all operators and the share of each kind in the iterations.

    The time of an operator excludes the operators that it calls. An operator that only calls
    others, or has no kernel, has one row a name, of kind `dispatch`.
    """
    nesting = nest(timeline)
    windows = Intervals.of(timeline.iterations or [timeline.whole_ns])
    classes = _classes(timeline, nesting, notes)
    passing, locations = _passing(timeline, nesting, classes), timeline.locations()
    tallies: dict[tuple[str, str], Tally] = {}
    tallies_by_call: dict[int, Tally] = {}
    rows = np.flatnonzero(windows.holds(whole(timeline.host.starts)))
    calls = whole(timeline.host.calls)
    for row, call_index in zip(rows.tolist(), calls[rows].tolist(), strict=True):
        if call_index not in classes:
            continue
        if call_index not in tallies_by_call:
            tally = _tally(timeline.calls[call_index], classes[call_index], notes, tallies)
            tally.has_own_work = tally.has_own_work and call_index not in passing
            tallies_by_call[call_index] = tally
        module, location = int(nesting.modules[row]), locations.of(row)
        name = timeline.calls[module].name.removeprefix(MODULE_PREFIX) if module >= 0 else ""
        tallies_by_call[call_index].add(
            int(nesting.self_ns[row]), module=name or location.module, line=location.line
        )
    owners, gaps = _owners(timeline, nesting, classes), _gaps(timeline)
    work = joined(pieces for kind, pieces in owners.items() if kind != DISPATCH)
    return IterationWork(
        tallies=tuple(tallies.values()),
        owners=owners,
        rest=REST,
        windows=windows,
        num_iterations=max(len(timeline.iterations), 1),
        overlap_ns=_overlap_ns(timeline, nesting, windows),
        timeline=_timeline_pieces(timeline, nesting, windows, tallies_by_call),
        gap_operators_ns=_in_iterations(work, timeline, gaps),
        gap_guards_ns=_in_iterations(_ranges(timeline, CACHE_LOOKUP), timeline, gaps),
    )


def _gaps(timeline: Timeline) -> Intervals:
    """Return the times between two graphs of one call of compiled code."""
    graphs, regions = _ranges(timeline, _GRAPH).union(), _ranges(timeline, _REGION).union()
    starts, ends = graphs.ends[:-1], graphs.starts[1:]
    # A call of the model ends between graphs of different regions.
    index = np.searchsorted(regions.starts, starts, side="right") - 1
    is_inside = index >= 0
    is_inside[is_inside] = ends[is_inside] <= regions.ends[index[is_inside]]
    return Intervals(starts[is_inside], ends[is_inside])


def _ranges(timeline: Timeline, prefix: str) -> Intervals:
    """Return the events of the host whose names begin with `prefix`."""
    chosen = np.array([call.name.startswith(prefix) for call in timeline.calls], dtype=np.bool_)
    calls, times = whole(timeline.host.calls), timeline.host.intervals
    rows = np.flatnonzero(chosen[calls]) if len(calls) else calls
    return Intervals(times.starts[rows], times.ends[rows])


def _in_iterations(work: Intervals, timeline: Timeline, gaps: Intervals) -> tuple[int, ...]:
    """Return the time of `work` in the gaps of each iteration; nothing without gaps."""
    if not len(gaps):
        return ()
    inside = work.within(gaps)
    return tuple(
        inside.within(Intervals.of([window])).covered_ns for window in sorted(timeline.iterations)
    )


def _classes(timeline: Timeline, nesting: OperatorNesting, notes: KernelNotes) -> dict[int, Class]:
    """Return the class of every call that is an operator, the same for all calls of a name."""
    calls = whole(timeline.host.calls)
    callers = set(calls[nesting.has_children == 1].tolist())
    calling = {timeline.calls[index].name for index in callers}
    return {
        index: _class_of(call.name, notes=notes, has_children=call.name in calling)
        for index, call in enumerate(timeline.calls)
        if call.what == OPERATOR
    }


def _passing(
    timeline: Timeline, nesting: OperatorNesting, classes: Mapping[int, Class]
) -> set[int]:
    """Return the calls that delegate their computation to an operator of their own kind.

    `aten::mv` calls `aten::addmv_`, whose work must not count for both. A call for another purpose,
    such as the copy of the bias in `aten::addmm`, is of another kind.
    """
    calls = whole(timeline.host.calls)
    called = np.flatnonzero(nesting.callers >= 0)
    if not len(called):
        return set()
    pairs = np.stack([calls[nesting.callers[called]], calls[called]])
    return {
        caller
        for caller, index in np.unique(pairs, axis=1).T.tolist()
        if caller in classes
        and classes[caller].kind == classes[index].kind != DISPATCH
        and work_of_call(timeline.calls[index]) != Work()
    }


def _class_of(name: str, *, notes: KernelNotes, has_children: bool) -> Class:
    if name not in notes.kernels:
        return class_of_operator(name, has_children=has_children)
    return Class("gemm" if _GEMM in notes.kernels[name].source else "fused", "inductor-cpp")


def _tally(
    call: Call, kernel_class: Class, notes: KernelNotes, tallies: dict[tuple[str, str], Tally]
) -> Tally:
    name = call.name if call.name in notes.kernels else own_name(call.name)
    is_dispatch = kernel_class.kind == DISPATCH
    shapes = "" if is_dispatch else shapes_text(call.dims, call.types, call.values)
    tally = tallies.setdefault(
        (name, shapes),
        Tally(
            name=name,
            shapes=shapes,
            kernel_class=kernel_class,
            operator=call,
            has_own_work=not is_dispatch,
        ),
    )
    if not is_dispatch and tally.operator is not call:
        tally.others.append(call)
    return tally


def _timeline_pieces(
    timeline: Timeline,
    nesting: OperatorNesting,
    windows: Intervals,
    tallies_by_call: Mapping[int, Tally],
) -> tuple[Piece, ...]:
    """Return the longest stretches of own time in the median iteration."""
    iteration = median_iteration(windows)
    begin, end = windows.starts[iteration], windows.ends[iteration]
    starts = np.clip(nesting.piece_starts, begin, end)
    ends = np.clip(nesting.piece_ends, begin, end)
    calls = whole(timeline.host.calls)[nesting.piece_rows]
    known = np.flatnonzero(np.isin(calls, list(tallies_by_call)) & (ends > starts))
    lanes = whole(timeline.host.lanes)[nesting.piece_rows]
    numbers = {lane: number for number, lane in enumerate(np.unique(lanes[known]).tolist())}
    return tuple(
        Piece(
            start_ns=int(starts[row] - begin),
            duration_ns=int(ends[row] - starts[row]),
            lane=numbers[int(lanes[row])],
            tally=tallies_by_call[int(calls[row])],
        )
        for row in known[longest(starts[known], ends[known])].tolist()
    )


def _overlap_ns(timeline: Timeline, nesting: OperatorNesting, windows: Intervals) -> int:
    """Return the time in which threads were in operators simultaneously, each counted."""
    lanes = whole(timeline.host.lanes)[nesting.piece_rows]
    of_each = [
        Intervals(nesting.piece_starts[lanes == lane], nesting.piece_ends[lanes == lane])
        for lane in np.unique(lanes).tolist()
    ]
    inside = joined([pieces.within(windows) for pieces in of_each])
    return inside.total_ns - inside.covered_ns


def _owners(
    timeline: Timeline, nesting: OperatorNesting, classes: Mapping[int, Class]
) -> dict[str, Intervals]:
    calls = whole(timeline.host.calls)
    kinds = [classes[index].kind for index in calls[nesting.piece_rows].tolist()]
    names = np.array(kinds, dtype=object)
    return {
        kind: Intervals(nesting.piece_starts[names == kind], nesting.piece_ends[names == kind])
        for kind in dict.fromkeys(kinds)
    }
