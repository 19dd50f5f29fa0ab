"""The innermost operator of a thread at each moment, from nested events."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from compile_hud.runner.traces.intervals import Whole, whole
from compile_hud.runner.traces.timeline import ANNOTATION, LAUNCH, MODULE_PREFIX, Timeline

_NO_ROW = -1


@dataclass(frozen=True, slots=True)
class OperatorNesting:
    """For each event of the host: its own time, its parents, and pieces of its own time.

    `self_ns` is the duration without the events within. `operators` is the row of the innermost
    enclosing operator (or of the event itself if it is one), -1 without one. `modules` is the index
    of the call that names the innermost module, -1 likewise. `callers` is the row of the operator
    that called an operator, -1 for none and for other events. `has_children` says whether it called
    others. A piece is a time in which `piece_rows` was the innermost operator.
    """

    self_ns: Whole
    operators: Whole
    modules: Whole
    has_children: Whole
    callers: Whole
    piece_rows: Whole
    piece_starts: Whole
    piece_ends: Whole


def nest(timeline: Timeline) -> OperatorNesting:
    """Return the nesting of the events of each thread.

    Annotations and launches are transparent: their own time belongs to the enclosing operator. An
    event that outlasts its parent is cut off at the parent's end; no profiler writes one.
    """
    sweep = _StackWalk(timeline)
    for rows in _by_lane(timeline):
        sweep.run(rows)
    return sweep.result()


def _by_lane(timeline: Timeline) -> Iterator[list[int]]:
    """Yield the rows of each thread, outer events before those in them."""
    host = timeline.host
    lanes, starts, ends = whole(host.lanes), whole(host.starts), whole(host.ends)
    order = np.lexsort((-ends, starts, lanes))
    bounds = np.flatnonzero(np.diff(lanes[order])) + 1
    for rows in np.split(order, bounds):
        yield rows.tolist()


class _StackWalk:
    """Walks over the events of one thread after the other, with those open on a stack."""

    def __init__(self, timeline: Timeline) -> None:
        host, calls = timeline.host, timeline.calls
        self.starts, self.ends = host.starts, host.ends[:]
        self.is_operator = [call.what not in (ANNOTATION, LAUNCH) for call in calls]
        self.is_module = [
            call.what == ANNOTATION and call.name.startswith(MODULE_PREFIX) for call in calls
        ]
        self.calls = host.calls
        num = len(self.calls)
        # Arrays, not lists: a trace may have millions of events.
        self.self_ns, self.has_children = _filled(0, num), _filled(0, num)
        self.operators, self.modules = _filled(_NO_ROW, num), _filled(_NO_ROW, num)
        self.callers = _filled(_NO_ROW, num)
        self.pieces = (array("q"), array("q"), array("q"))
        self.stack: list[int] = []
        self.cursor_ns = 0

    def run(self, rows: list[int]) -> None:
        for row in rows:
            start = self.starts[row]
            while self.stack and self.ends[self.stack[-1]] <= start:
                self.close()
            parent = self.stack[-1] if self.stack else _NO_ROW
            if parent != _NO_ROW:
                self.spend(start)
                self.ends[row] = min(self.ends[row], self.ends[parent])
            self.open(row, parent)
        while self.stack:
            self.close()

    def open(self, row: int, parent: int) -> None:
        call = self.calls[row]
        operator = self.operators[parent] if parent != _NO_ROW else _NO_ROW
        if self.is_operator[call]:
            if operator != _NO_ROW:
                self.has_children[operator] = 1
            self.callers[row] = operator
            operator = row
        self.operators[row] = operator
        if self.is_module[call]:
            self.modules[row] = call
        elif parent != _NO_ROW:
            self.modules[row] = self.modules[parent]
        self.cursor_ns = self.starts[row]
        self.stack.append(row)

    def close(self) -> None:
        self.spend(self.ends[self.stack[-1]])
        self.stack.pop()

    def spend(self, until_ns: int) -> None:
        """Add the time since the last change to the innermost operator."""
        operator = self.operators[self.stack[-1]]
        if until_ns > self.cursor_ns and operator != _NO_ROW:
            self.self_ns[operator] += until_ns - self.cursor_ns
            for column, number in zip(
                self.pieces, (operator, self.cursor_ns, until_ns), strict=True
            ):
                column.append(number)
        self.cursor_ns = until_ns

    def result(self) -> OperatorNesting:
        columns = (self.self_ns, self.operators, self.modules, self.has_children, self.callers)
        return OperatorNesting(*(whole(column) for column in (*columns, *self.pieces)))


def _filled(number: int, num: int) -> array[int]:
    return array("q", [number]) * num
