"""The module and the line of the model for each event of a trace that was made with stacks.

torch.profiler writes each call of Python as an event `python_function`: those of a module are named
`nn.Module: Linear_3`, those of a function `net.py(21): forward`, with the line of its `def`. An
event of the host belongs to the calls that enclose it. autograd runs backward in C++, on a thread
of its own; it names the sequence number of the forward operator instead. Profilers of other vendors
write `Module Hierarchy` and `Call stack` into the event of the operator itself.
"""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from compile_hud.runner.traces.intervals import Intervals, Whole, whole

MODULE = "nn.Module: "
# torch.compile wraps the model in a module of its own, which says nothing.
_WRAPPERS = re.compile(r"OptimizedModule_\d+")
_FUNCTION = re.compile(r"(?P<file>[^<>]+\.py)\((?P<line>\d+)\)(?:: .*)?")
_BACKWARD = "autograd::engine::evaluate_function: "
# The name of a file that Inductor generates is a hash in a folder of its own.
_GENERATED = re.compile(r"(?:^|/)torchinductor_|(?:^|/)\w{2}/c\w{50,}\.py$")
_LIBRARIES = re.compile(r"(?:^|/)(?:torch|torch_npu|triton|python\d[\d.]*)/")
# Names are short. A trace in which all differ must not fill the memory.
_MAX_NAME_CHARS = 400
_MAX_NAMES = 100_000
_MAX_PATH_CHARS = 2_000
_MAX_ALL_CHARS = 64 << 20
NOWHERE = -1


@dataclass(frozen=True, slots=True)
class FrameLocation:
    """The path of a module, `Ranker_0.Linear_3`, and a line, `net.py:21`; empty if unknown."""

    module: str = ""
    line: str = ""


UNKNOWN = FrameLocation()


@dataclass(slots=True)
class PythonFrames:
    """The calls of Python in a trace that name a module, or a line that may be the model's.

    `names` are indices of `texts`: a module without its prefix, or a line. `forward` and `backward`
    are rows of the host's events with a sequence number, `own` are locations in events themselves.
    """

    lanes: array[int] = field(default_factory=lambda: array("q"))
    starts: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q"))
    names: array[int] = field(default_factory=lambda: array("q"))
    texts: list[FrameLocation] = field(default_factory=list)
    forward: dict[int, int] = field(default_factory=dict)
    backward: dict[int, int] = field(default_factory=dict)
    own: dict[int, FrameLocation] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)

    def number_of(self, name: str) -> int:
        """Return the index in `texts` of a call's name, -1 if it says nothing about the model."""
        number = self._numbers.get(name)
        if number is not None:
            return number
        location = _location_of(name)
        if location == UNKNOWN or len(self.texts) >= _MAX_NAMES:
            return NOWHERE
        self._numbers[name] = len(self.texts)
        self.texts.append(location)
        return len(self.texts) - 1

    def add(self, number: int, *, lane: int, start_ns: int, end_ns: int) -> None:
        """Add a call of Python with its index in `texts`."""
        self.names.append(number)
        self.lanes.append(lane)
        self.starts.append(start_ns)
        self.ends.append(end_ns)

    def note_operator(self, row: int, name: str, args: Mapping[str, Any]) -> None:
        """Note the sequence number of an operator, and the location that its event has."""
        sequence = args.get("Sequence number")
        if type(sequence) is int and sequence >= 0:
            if name.startswith(_BACKWARD):
                self.backward[row] = sequence
            elif not args.get("Fwd thread id"):
                self.forward.setdefault(sequence, row)
        module, stack = args.get("Module Hierarchy"), args.get("Call stack")
        if isinstance(module, str) or isinstance(stack, str):
            location = FrameLocation(
                module=module[:_MAX_PATH_CHARS] if isinstance(module, str) else "",
                line=_line_of_stack(stack) if isinstance(stack, str) else "",
            )
            if location != UNKNOWN:
                self.own[row] = location


def _location_of(name: str) -> FrameLocation:
    if len(name) > _MAX_NAME_CHARS:
        return UNKNOWN
    if name.startswith(MODULE):
        module = name.removeprefix(MODULE)
        return UNKNOWN if _WRAPPERS.fullmatch(module) else FrameLocation(module=module)
    return FrameLocation(line=_line_of(name))


def _line_of(name: str) -> str:
    """Return `FILE:LINE` of a function that may be the user's, empty for those of libraries."""
    match = _FUNCTION.fullmatch(name[:_MAX_NAME_CHARS])
    if match is None:
        return ""
    file = match["file"].replace("\\", "/")
    top = file.lstrip("./").partition("/")[0].removesuffix(".py")
    if top in sys.stdlib_module_names or _LIBRARIES.search(file) or _GENERATED.search(file):
        return ""
    return f"{file}:{match['line']}"


def _line_of_stack(stack: str) -> str:
    """Return the innermost line of the user; such a text begins with the innermost function."""
    lines = (_line_of(part.strip()) for part in stack.split(";"))
    return next((line for line in lines if line), "")


@dataclass(frozen=True, slots=True)
class HostLocations:
    """The locations of the host's events: `numbers` has the index of each row, -1 for none."""

    numbers: Whole
    locations: list[FrameLocation]

    def of(self, row: int) -> FrameLocation:
        """Return the location of an event, an unknown one for row -1."""
        number = int(self.numbers[row]) if row >= 0 else NOWHERE
        return UNKNOWN if number < 0 else self.locations[number]


def locate(frames: PythonFrames, *, lanes: Whole, times: Intervals) -> HostLocations:
    """Return the locations of the events of the host, given their lanes and times."""
    walk = _Walk(frames)
    numbers = np.full(len(lanes), NOWHERE, dtype=np.int64)
    if not frames.names and not frames.own:
        return HostLocations(numbers, [])
    order = np.lexsort((times.starts, lanes))
    bounds = np.flatnonzero(np.diff(lanes[order])) + 1
    by_lane = {int(lanes[rows[0]]): rows for rows in np.split(order, bounds) if len(rows)}
    for lane, rows in by_lane.items():
        walk.run(lane, rows=rows, starts=times.starts, numbers=numbers)
    for row, location in frames.own.items():
        numbers[row] = walk.number_of(location)
    for row, sequence in frames.backward.items():
        forward = int(numbers[frames.forward.get(sequence, row)])
        if forward == NOWHERE:
            continue
        rows = by_lane[int(lanes[row])]
        first, last = np.searchsorted(times.starts[rows], [times.starts[row], times.ends[row]])
        numbers[rows[first:last]] = forward
    return HostLocations(numbers, walk.locations)


class _Walk:
    """Walks over the calls of Python of a thread, with those open on a stack."""

    def __init__(self, frames: PythonFrames) -> None:
        self.frames = frames
        self.locations: list[FrameLocation] = []
        self._known: dict[FrameLocation, int] = {}
        self._within: dict[tuple[int, int], int] = {}
        self._num_chars = 0
        lanes, starts, ends = whole(frames.lanes), whole(frames.starts), whole(frames.ends)
        order = np.lexsort((-ends, starts, lanes))
        parts = np.split(order, np.flatnonzero(np.diff(lanes[order])) + 1)
        self._calls = {int(lanes[part[0]]): part.tolist() for part in parts if len(part)}

    def number_of(self, location: FrameLocation) -> int:
        """Return the index of `location`, -1 where there are too many."""
        number = self._known.get(location)
        if number is None:
            self._num_chars += len(location.module) + len(location.line)
            if self._num_chars > _MAX_ALL_CHARS or len(location.module) > _MAX_PATH_CHARS:
                return NOWHERE
            number = self._known[location] = len(self.locations)
            self.locations.append(location)
        return number

    def run(self, lane: int, *, rows: Whole, starts: Whole, numbers: Whole) -> None:
        """Set the location in `numbers` of each of `rows`, which are in the order of time."""
        frames, calls, index = self.frames, self._calls.get(lane, []), 0
        stack: list[tuple[int, int]] = []
        for row, moment in zip(rows.tolist(), starts[rows].tolist(), strict=True):
            while index < len(calls) and frames.starts[calls[index]] <= moment:
                call = calls[index]
                _close(stack, frames.starts[call])
                outer = stack[-1][1] if stack else NOWHERE
                stack.append((frames.ends[call], self._inside(outer, frames.names[call])))
                index += 1
            _close(stack, moment)
            if stack:
                numbers[row] = stack[-1][1]

    def _inside(self, outer: int, name: int) -> int:
        """Return the location of a call with the text `name` within another location."""
        number = self._within.get((outer, name))
        if number is None:
            context = UNKNOWN if outer == NOWHERE else self.locations[outer]
            own = self.frames.texts[name]
            module = ".".join(filter(None, (context.module, own.module)))
            number = self.number_of(FrameLocation(module=module, line=own.line or context.line))
            self._within[outer, name] = number
        return number


def _close(stack: list[tuple[int, int]], moment: int) -> None:
    while stack and stack[-1][0] <= moment:
        stack.pop()
