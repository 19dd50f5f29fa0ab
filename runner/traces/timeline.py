"""A trace in memory: every call in a few numbers, and each distinct call once."""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compile_hud.runner.errors import TraceError
from compile_hud.runner.protocol.kernel_notes import KernelNotes
from compile_hud.runner.protocol.operator_costs import spreading
from compile_hud.runner.traces.chrome_trace import COMPLETE, Header, TraceEvent, TraceReader
from compile_hud.runner.traces.intervals import Intervals, whole
from compile_hud.runner.traces.kernel_kinds import GENERATED
from compile_hud.runner.traces.python_frames import (
    NOWHERE,
    HostLocations,
    PythonFrames,
    locate,
)

ITERATION = "hud/iteration"
MODULE_PREFIX = "hud/module:"
_STEP = re.compile(r"ProfilerStep#\d+")
# Names and shapes of distinct calls stay in memory. A trace of 110,000 events has 0.5 MB of them; a
# trace in which all differ must not fill the memory.
MAX_CALL_CHARS = 128 << 20
# A busy server has a thousandth of this.
MAX_LANES = 1_000_000
OPERATOR, ANNOTATION, LAUNCH = 0, 1, 2
# The names with capitals are those of Kineto in 2022 and before.
_HOST = {
    "cpu_op": OPERATOR,
    "Operator": OPERATOR,
    "user_annotation": ANNOTATION,
    "cuda_runtime": LAUNCH,
    "cuda_driver": LAUNCH,
    "xpu_runtime": LAUNCH,
    "xpu_driver": LAUNCH,
    "mtia_runtime": LAUNCH,
    "privateuse1_runtime": LAUNCH,
    "privateuse1_driver": LAUNCH,
    "Runtime": LAUNCH,
}
_PYTHON = "python_function"
_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"})
_LAUNCH_ARGS = {
    "grid": "grid",
    "block": "block",
    "registers per thread": "registers",
    "shared memory": "shared_bytes",
    "est. achieved occupancy %": "occupancy",
    "Collective name": "collective",
    "Process Group Name": "group",
}
_CONFIG_ARGS = (
    "kernel_hash",
    "kernel_kwargs",
    "kernel_backend",
    "num_warps",
    "num_stages",
    "kernel_num_gb",
    "kernel_flop",
)
_ABSENT = -1


@dataclass(frozen=True, slots=True)
class Call:
    """The common values of all calls of one name with the same inputs.

    `dims`, `types` and `values` are the inputs as in the trace; `strides` too if an input is
    expanded (stride 0), else empty. `facts` are its other values: the launch on a GPU,
    configuration and work of a Triton kernel, bytes of a copy.
    """

    name: str
    what: int | str
    dims: list[Any]
    types: list[Any]
    values: list[Any]
    facts: Mapping[str, Any]
    strides: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class Columns:
    """Events of one side, a row each: the index of its Call, its lane, and its times.

    A lane is a thread of the host or a stream of a device.
    """

    calls: array[int] = field(default_factory=lambda: array("q"))
    lanes: array[int] = field(default_factory=lambda: array("q"))
    starts: array[int] = field(default_factory=lambda: array("q"))
    ends: array[int] = field(default_factory=lambda: array("q"))
    # Correlations link a launch on the host to its work on the device; externals link its operator.
    correlations: array[int] = field(default_factory=lambda: array("q"))
    externals: array[int] = field(default_factory=lambda: array("q"))

    def __len__(self) -> int:
        return len(self.calls)

    @property
    def intervals(self) -> Intervals:
        """Return when each event was."""
        return Intervals(whole(self.starts), whole(self.ends))


@dataclass(slots=True)
class Timeline:
    """A whole trace: the events of the host and of the GPU, and the times of the iterations.

    `iterations` are those of `hud/iteration`, else the profiler's own steps, else none.
    """

    path: Path
    header: Header = field(default_factory=Header)
    host: Columns = field(default_factory=Columns)
    device: Columns = field(default_factory=Columns)
    calls: list[Call] = field(default_factory=list)
    # Threads and streams, as (process, thread).
    lanes: list[tuple[int | str, int | str]] = field(default_factory=list)
    iterations: list[tuple[int, int]] = field(default_factory=list)
    frames: PythonFrames = field(default_factory=PythonFrames)

    def locations(self) -> HostLocations:
        """Return the module and the line of each event of the host, where the trace has stacks."""
        host = self.host
        return locate(self.frames, lanes=whole(host.lanes), times=host.intervals)

    @property
    def whole_ns(self) -> tuple[int, int]:
        """Return when the first event began and the last one ended."""
        sides = [side for side in (self.host, self.device) if len(side)]
        return min(min(side.starts) for side in sides), max(max(side.ends) for side in sides)


def read_timeline(path: Path, *, notes: KernelNotes) -> Timeline:
    """Return the trace at `path`; raise TraceError if it is broken or empty."""
    reader = TraceReader(path)
    collector = _Collector(Timeline(path), notes=notes)
    try:
        for event in reader.events():
            if event.phase == COMPLETE:
                collector.add(event)
    except RecursionError as error:
        raise TraceError(
            f"{path}: the inputs of an event are nested too deeply. Record the trace again",
            path=path,
        ) from error
    timeline = collector.timeline
    timeline.header = reader.header
    timeline.iterations = collector.own or collector.steps
    if not len(timeline.host) and not len(timeline.device):
        raise TraceError(
            f"{path}: the trace has no operator and no kernel. Record it with"
            " torch.profiler.profile(activities=[ProfilerActivity.CPU, ...], record_shapes=True)",
            path=path,
        )
    return timeline


class _Collector:
    """Collects events into a timeline, each distinct call once."""

    def __init__(self, timeline: Timeline, *, notes: KernelNotes) -> None:
        self.timeline = timeline
        self.notes = notes
        self.own: list[tuple[int, int]] = []
        self.steps: list[tuple[int, int]] = []
        self._indices: dict[tuple[str, ...], int] = {}
        self._lanes: dict[tuple[int | str, int | str], int] = {}
        self._num_chars = 0

    def add(self, event: TraceEvent) -> None:
        """Add one complete event if it is relevant."""
        what = _HOST.get(event.category)
        if what is not None:
            self._add_host(event, what)
        elif event.category in _DEVICE:
            self._append(self.timeline.device, event, self._device_call(event))
        elif event.category == _PYTHON:
            frames = self.timeline.frames
            number = frames.number_of(event.name)
            if number != NOWHERE:
                lane = self._lane(event)
                frames.add(number, lane=lane, start_ns=event.start_ns, end_ns=event.end_ns)

    def _add_host(self, event: TraceEvent, what: int) -> None:
        if what == ANNOTATION:
            if self._is_generated(event.name):
                what = OPERATOR
            else:
                self._note_iteration(event)
        elif what == OPERATOR:
            row = len(self.timeline.host)
            self.timeline.frames.note_operator(row, event.name, event.args)
        self._append(self.timeline.host, event, self._host_call(event, what))

    def _is_generated(self, name: str) -> bool:
        return name in self.notes.kernels or GENERATED.fullmatch(name) is not None

    def _note_iteration(self, event: TraceEvent) -> None:
        if event.name == ITERATION:
            self.own.append((event.start_ns, event.end_ns))
        elif _STEP.fullmatch(event.name):
            self.steps.append((event.start_ns, event.end_ns))

    def _append(self, columns: Columns, event: TraceEvent, index: int) -> None:
        columns.calls.append(index)
        columns.lanes.append(self._lane(event))
        columns.starts.append(event.start_ns)
        columns.ends.append(event.start_ns + event.duration_ns)
        columns.correlations.append(_id(event.args.get("correlation")))
        external = event.args.get("External id", event.args.get("external id"))
        columns.externals.append(_id(external))

    def _lane(self, event: TraceEvent) -> int:
        key = (event.process, event.thread)
        lane = self._lanes.get(key)
        if lane is None:
            if len(self.timeline.lanes) >= MAX_LANES:
                raise TraceError(
                    f"{self.timeline.path}: the trace has more than {MAX_LANES} threads and"
                    " streams, more than any profiler writes. Record it again",
                    path=self.timeline.path,
                )
            lane = self._lanes[key] = len(self.timeline.lanes)
            self.timeline.lanes.append(key)
        return lane

    def _host_call(self, event: TraceEvent, what: int) -> int:
        args = event.args
        if what != OPERATOR:
            return self._add_call((str(what), event.name), Call(event.name, what, [], [], [], {}))
        dims = _list(args.get("Input Dims", args.get("Input dims")))
        types = _list(args.get("Input type"))
        values = _list(args.get("Concrete Inputs")) if "conv" in event.name else []
        facts = {name: args[name] for name in _CONFIG_ARGS if name in args}
        strides = spreading(args.get("Input Strides"))
        notes = (repr(facts) if facts else "", repr(strides) if strides else "")
        key = (event.name, repr(dims), repr(types), repr(values), *notes)
        index = self._indices.get(key)
        if index is not None:
            return index
        return self._add_call(key, Call(event.name, what, dims, types, values, facts, strides))

    def _device_call(self, event: TraceEvent) -> int:
        args = event.args
        facts = {name: args[key] for key, name in _LAUNCH_ARGS.items() if key in args}
        if facts.get("occupancy") == 0:
            # The profiler writes 0 for a kernel that requests more than the usual shared memory.
            del facts["occupancy"]
        if "bytes" in args:
            facts["bytes"] = args["bytes"]
        key = (event.category, event.name, repr(facts))
        index = self._indices.get(key)
        if index is not None:
            return index
        return self._add_call(key, Call(event.name, event.category, [], [], [], facts))

    def _add_call(self, key: tuple[str, ...], call: Call) -> int:
        index = self._indices.get(key)
        if index is None:
            self._check(call)
            self._num_chars += sum(map(len, key))
            if self._num_chars > MAX_CALL_CHARS:
                raise TraceError(
                    f"{self.timeline.path}: the names and shapes of its calls differ so much that"
                    f" they take more than {MAX_CALL_CHARS} characters. Record fewer iterations",
                    path=self.timeline.path,
                )
            index = self._indices[key] = len(self.timeline.calls)
            self.timeline.calls.append(call)
        return index

    def _check(self, call: Call) -> None:
        try:
            json.dumps(call.facts, allow_nan=False)
        except ValueError as error:
            raise TraceError(
                f"{self.timeline.path}: a call of {call.name[:100]!r} has a number that is not"
                " finite. Record the trace again",
                path=self.timeline.path,
            ) from error


def _id(value: Any) -> int:
    return value if type(value) is int and 0 <= value < 2**63 else _ABSENT


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
