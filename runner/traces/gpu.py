"""The work of a GPU in the iterations of a trace."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from compile_hud.db.records.kernels import IDLE
from compile_hud.runner.protocol.operator_costs import shapes_text
from compile_hud.runner.traces.intervals import Intervals, Whole, whole
from compile_hud.runner.traces.iteration import IterationWork, Piece, longest, median_iteration
from compile_hud.runner.traces.kernel_kinds import Class, class_of_kernel, class_of_operator
from compile_hud.runner.traces.kernel_rows import Tally
from compile_hud.runner.traces.operator_stack import OperatorNesting, nest
from compile_hud.runner.traces.timeline import (
    LAUNCH,
    MODULE_PREFIX,
    OPERATOR,
    Call,
    Timeline,
)

_GRAPH_LAUNCH = re.compile(r"(cuda|hip|cu)GraphLaunch")
_WAIT = re.compile(r"(cuda|hip|cu)\w*Synchronize|(cuda|hip)Memcpy$")
_TO_HOST = "Memcpy DtoH"
_NO_ROW = -1
_BEFORE = np.int64(-1)


@dataclass(frozen=True, slots=True)
class _Launches:
    """For each work of the device: the row of its launch, of its operator and its iteration.

    -1 means none: a trace of the device alone, a replayed graph, work between iterations.
    """

    launches: Whole
    operators: Whole
    iterations: Whole
    # The call that names the module.
    modules: Whole
    # The event of the host that tells where in the model the work comes from.
    origins: Whole


def find_on_gpu(timeline: Timeline) -> IterationWork:
    """Return the rows of all work of the device and the share of each kind in the iterations.

    Work belongs to the iteration that launched it. An iteration lasts until its work has ended,
    which on a GPU is after the host has continued. Work launched outside of all iterations, or
    before the recording began, belongs to none.
    """
    nesting = nest(timeline)
    launches = _launches(timeline, nesting)
    windows = _windows(timeline, launches)
    is_inside = launches.iterations != _NO_ROW
    rows = np.flatnonzero(is_inside)
    classes = _device_classes(timeline, launches)
    tallies = _tallies(timeline, launches, rows, classes)
    device = timeline.device.intervals
    inside = Intervals(device.starts[rows], device.ends[rows])
    kinds = np.array([kernel_class.kind for kernel_class in classes], dtype=object)[rows]
    return IterationWork(
        tallies=tuple(tallies.values()),
        owners={
            kind: Intervals(inside.starts[kinds == kind], inside.ends[kinds == kind])
            for kind in dict.fromkeys(kinds.tolist())
        },
        rest=IDLE,
        windows=windows,
        num_iterations=max(len(timeline.iterations), 1),
        overlap_ns=inside.total_ns - inside.covered_ns,
        busy=inside.covered_ns / windows.covered_ns if windows.covered_ns else 0.0,
        is_graph_replay=_is_graph_replay(timeline, launches, rows),
        timeline=_timeline_pieces(timeline, launches, windows, tallies),
    )


def _launches(timeline: Timeline, nesting: OperatorNesting) -> _Launches:
    """Return the launch, the operator and the iteration of each work of the device."""
    host, device = timeline.host, timeline.device
    by_correlation: dict[int, int] = {}
    by_external: dict[int, int] = {}
    launches_only = [call.what == LAUNCH for call in timeline.calls]
    operators_only = [call.what == OPERATOR for call in timeline.calls]
    rows = zip(host.calls, host.correlations, host.externals, strict=True)
    for row, (call_index, correlation, external) in enumerate(rows):
        # A damaged trace may have several events with one id; the first counts.
        if launches_only[call_index] and correlation != _NO_ROW:
            by_correlation.setdefault(correlation, row)
        elif operators_only[call_index] and external != _NO_ROW:
            by_external.setdefault(external, row)
    launches = np.array([by_correlation.get(item, _NO_ROW) for item in device.correlations], int)
    named = np.array([by_external.get(item, _NO_ROW) for item in device.externals], int)
    operators_of_launches = _at(nesting.operators, launches)
    is_replay = _at(_are_graph_launches(timeline), launches) == 1
    operators = np.where(launches == _NO_ROW, named, operators_of_launches)
    operators[is_replay] = _NO_ROW
    # If launches were recorded, work without one was launched before the recording began.
    unlaunched = np.full(len(launches), _BEFORE) if by_correlation else whole(device.starts)
    begun = np.where(launches == _NO_ROW, unlaunched, _at(whole(host.starts), launches))
    return _Launches(
        launches=launches,
        operators=operators,
        iterations=_iterations(timeline, begun),
        modules=np.where(is_replay, _NO_ROW, _at(nesting.modules, launches)),
        origins=np.where(is_replay, _NO_ROW, np.where(operators < 0, launches, operators)),
    )


def _at(numbers: Whole, rows: Whole) -> Whole:
    """Return the number at each row, -1 where there is no row."""
    if not len(numbers):
        return np.full(len(rows), _NO_ROW, dtype=np.int64)
    values: Whole = np.where(rows == _NO_ROW, _NO_ROW, numbers[rows])
    return values


def _are_graph_launches(timeline: Timeline) -> Whole:
    """Return 1 for each event of the host that replays a CUDA graph, else 0."""
    are = [call.what == LAUNCH and _GRAPH_LAUNCH.search(call.name) for call in timeline.calls]
    flags = np.array([1 if is_graph else 0 for is_graph in are], dtype=np.int64)
    return flags[whole(timeline.host.calls)]


def _iterations(timeline: Timeline, begun: Whole) -> Whole:
    """Return the iteration in which each moment lies, -1 for none; 0 where there are none."""
    if not timeline.iterations:
        return np.zeros(len(begun), dtype=np.int64)
    bounds = np.array(sorted(timeline.iterations), dtype=np.int64)
    index = np.searchsorted(bounds[:, 0], begun, side="right") - 1
    is_inside = (index >= 0) & (begun < bounds[np.maximum(index, 0), 1])
    return np.where(is_inside, index, _NO_ROW)


def _windows(timeline: Timeline, launches: _Launches) -> Intervals:
    """Return the iterations, each from its beginning on the host until its work has ended.

    The time in which the device did nothing but work of no iteration is left out.
    """
    bounds = np.array(sorted(timeline.iterations) or [timeline.whole_ns], dtype=np.int64)
    starts, ends = bounds[:, 0].copy(), bounds[:, 1].copy()
    rows = np.flatnonzero(launches.iterations != _NO_ROW)
    device = timeline.device.intervals
    # The clocks of host and GPU differ by some microseconds: work may seem to begin too early.
    np.minimum.at(starts, launches.iterations[rows], device.starts[rows])
    np.maximum.at(ends, launches.iterations[rows], device.ends[rows])
    others = np.flatnonzero(launches.iterations == _NO_ROW)
    if not len(others):
        return Intervals(starts, ends)
    own = Intervals(device.starts[rows], device.ends[rows])
    alone = Intervals(device.starts[others], device.ends[others]).within(own.complement())
    return Intervals(starts, ends).within(alone.complement())


def _device_classes(timeline: Timeline, launches: _Launches) -> list[Class]:
    """Return the class of each work of the device."""
    known: dict[tuple[int, int], Class] = {}
    operators = _at(whole(timeline.host.calls), launches.operators).tolist()
    classes = []
    for index, operator in zip(timeline.device.calls, operators, strict=True):
        if (index, operator) not in known:
            by = timeline.calls[operator] if operator >= 0 else None
            known[index, operator] = class_of_kernel(
                timeline.calls[index].name,
                operator=by.name if by else "",
                is_triton=by is not None and "kernel_kwargs" in by.facts,
            )
        classes.append(known[index, operator])
    return classes


def _tallies(
    timeline: Timeline, launches: _Launches, rows: Whole, classes: list[Class]
) -> dict[tuple[str, str], Tally]:
    alone, locations = _own_work(timeline, launches, classes), timeline.locations()
    idle_ns = _idle_after_waits(timeline, launches)
    host_calls, device = whole(timeline.host.calls), timeline.device
    tallies: dict[tuple[str, str], Tally] = {}
    tallies_by_calls: dict[tuple[int, int], Tally] = {}
    for row in rows.tolist():
        call_index, operator_row = device.calls[row], int(launches.operators[row])
        operator_index = int(host_calls[operator_row]) if operator_row >= 0 else _NO_ROW
        key = (call_index, operator_index)
        if key not in tallies_by_calls:
            operator = timeline.calls[operator_index] if operator_index >= 0 else None
            tallies_by_calls[key] = _tally(
                timeline.calls[call_index], operator, classes[row], tallies
            )
        tally = tallies_by_calls[key]
        tally.has_own_work = tally.has_own_work and row in alone
        tally.streams.add(timeline.lanes[device.lanes[row]][1])
        module = int(launches.modules[row])
        name = timeline.calls[module].name.removeprefix(MODULE_PREFIX) if module >= 0 else ""
        location = locations.of(int(launches.origins[row]))
        duration_ns = device.ends[row] - device.starts[row]
        tally.add(duration_ns, module=name or location.module, line=location.line)
        tally.idle_after_wait_ns += idle_ns.get(row, 0)
    return tallies


def _idle_after_waits(timeline: Timeline, launches: _Launches) -> dict[int, int]:
    """Return the time without work after each copy to the host that the host waited for, by row.

    The host waits if it calls a synchronisation after the launch of the copy, or by that launch
    itself, and before the next launch. Both are on the clock of the host. The idle time lasts until
    the next work of the iteration; after the last one the host waits for no launch.
    """
    device, host = timeline.device, timeline.host
    calls = timeline.calls
    copies = [row for row, at in enumerate(device.calls) if calls[at].name.startswith(_TO_HOST)]
    if not copies:
        return {}
    starts, ends = whole(device.starts), whole(device.ends)
    begun = _at(whole(host.starts), launches.launches)
    is_wait = np.array([call.what == LAUNCH and bool(_WAIT.match(call.name)) for call in calls])
    waits = np.sort(whole(host.starts)[is_wait[whole(host.calls)]])
    idle_ns: dict[int, int] = {}
    for row in copies:
        same = launches.iterations == launches.iterations[row]
        later = np.flatnonzero(same & (begun > begun[row]))
        if launches.launches[row] == _NO_ROW or not len(later):
            continue
        until_ns = int(begun[later].min())
        position = np.searchsorted(waits, begun[row])
        if position == len(waits) or waits[position] >= until_ns:
            continue
        busy_until_ns = int(ends[same & (starts <= ends[row])].max())
        idle_ns[row] = max(0, int(starts[later].min()) - busy_until_ns)
    return idle_ns


def _tally(
    call: Call, operator: Call | None, kernel_class: Class, tallies: dict[tuple[str, str], Tally]
) -> Tally:
    shapes = shapes_text(operator.dims, operator.types, operator.values) if operator else ""
    tally = tallies.setdefault(
        (call.name, shapes),
        Tally(
            name=call.name,
            shapes=shapes,
            kernel_class=kernel_class,
            operator=operator,
            has_own_work=True,
        ),
    )
    if operator is not None and tally.operator is not operator:
        tally.others.append(operator)
    tally.launches.append(call.facts)
    return tally


def _timeline_pieces(
    timeline: Timeline,
    launches: _Launches,
    windows: Intervals,
    tallies: Mapping[tuple[str, str], Tally],
) -> tuple[Piece, ...]:
    """Return the longest works of the median iteration; nothing if no iteration has any."""
    if not len(windows.starts):
        return ()
    iteration = median_iteration(windows)
    begin = int(windows.starts[iteration])
    rows = np.flatnonzero(launches.iterations == iteration)
    device, host_calls = timeline.device, whole(timeline.host.calls)
    starts, ends = whole(device.starts), whole(device.ends)
    pieces = []
    for row in rows[longest(starts[rows], ends[rows])].tolist():
        operator = int(launches.operators[row])
        call = timeline.calls[int(host_calls[operator])] if operator >= 0 else None
        shapes = shapes_text(call.dims, call.types, call.values) if call else ""
        stream = timeline.lanes[device.lanes[row]][1]
        pieces.append(
            Piece(
                start_ns=int(starts[row]) - begin,
                duration_ns=int(ends[row] - starts[row]),
                lane=stream if isinstance(stream, int) and stream >= 0 else device.lanes[row],
                tally=tallies[timeline.calls[device.calls[row]].name, shapes],
            )
        )
    return tuple(pieces)


def _own_work(timeline: Timeline, launches: _Launches, classes: list[Class]) -> set[int]:
    """Return the works that are the only computation of their operator.

    An operator may launch several kernels. Its bytes and operations belong to the kernel of the
    operator's own kind. With several kernels of that kind they belong to none.
    """
    host_calls = whole(timeline.host.calls)
    kinds: dict[int, str] = {}
    candidates: list[tuple[int, int]] = []
    for row, operator in enumerate(launches.operators.tolist()):
        if operator < 0:
            continue
        call_index = int(host_calls[operator])
        if call_index not in kinds:
            name = timeline.calls[call_index].name
            kinds[call_index] = class_of_operator(name, has_children=False).kind
        if classes[row].kind == kinds[call_index]:
            candidates.append((row, operator))
    times = Counter(operator for _, operator in candidates)
    return {row for row, operator in candidates if times[operator] == 1}


def _is_graph_replay(timeline: Timeline, launches: _Launches, rows: Whole) -> bool:
    of_rows = launches.launches[rows]
    return bool((_at(_are_graph_launches(timeline), of_rows) == 1).any())
