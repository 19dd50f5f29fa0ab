"""Traces of each kind that profilers write, made by chance: vendors, graphs, streams."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.records.traces import Json

NAMES = ("void gemm<float>(int)", "triton_poi_fused_add_0", "Cijk_Ailk_Bljk_SB", "reduce_kernel")
OPERATORS = ("aten::mm", "aten::add", "aten::softmax", "custom::op")


@dataclass(slots=True)
class TraceBuilder:
    """Builds the events of a trace; times are microseconds with three digits."""

    seed: int
    runtime: str = "cuda_runtime"
    launch_name: str = "cudaLaunchKernel"
    kernel_category: str = "kernel"
    host_category: str = "cpu_op"
    zero_us: float = 1000.0
    events: list[Json] = field(default_factory=list)
    next_id: int = 1
    chance: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)

    def some(self, low: float, high: float) -> float:
        """Return a number of microseconds in these bounds."""
        return round(self.chance.uniform(low, high), 3)

    def host(
        self, name: str, start: float, end: float, *, category: str, tid: Any = 1, **args: Any
    ) -> None:
        self._add(name, start, end, category=category, pid=100, tid=tid, args=args)

    def device(
        self,
        start: float,
        time: float,
        *,
        category: str = "",
        name: str = "",
        device: int = 0,
        stream: int = 7,
        **args: Any,
    ) -> None:
        """Add one work of a device."""
        self._add(
            name or self.chance.choice(NAMES),
            start,
            start + time,
            category=category or self.kernel_category,
            pid=device,
            tid=stream,
            args={"device": device, "stream": stream, **args},
        )

    def operator(
        self, at: float, *, num_kernels: int = 1, delay: float = 30.0, **args: Any
    ) -> None:
        """Add an operator of 20 us that launches kernels."""
        external = self.take_id()
        name = self.chance.choice(OPERATORS)
        ids = {"External id": external}
        self.host(name, at, at + 20, category=self.host_category, **ids)
        for number in range(num_kernels):
            correlation = self.take_id()
            launched = round(at + 2 + 5 * number, 3)
            self.host(
                self.launch_name,
                launched,
                launched + 1,
                category=self.runtime,
                correlation=correlation,
                **ids,
            )
            begin = round(launched + self.some(3, delay), 3)
            self.device(begin, self.some(1, 25), correlation=correlation, **ids, **args)

    def step(self, number: int, at: float, length: float) -> None:
        """Add the profiler's annotation of an iteration."""
        self.host(f"ProfilerStep#{number}", at, at + length, category="user_annotation")

    def take_id(self) -> int:
        self.next_id += 1
        return self.next_id

    def _add(
        self,
        name: str,
        start: float,
        end: float,
        *,
        category: str,
        pid: int,
        tid: Any,
        args: Mapping[str, Any],
    ) -> None:
        self.events.append(
            {
                "ph": "X",
                "cat": category,
                "name": name,
                "pid": pid,
                "tid": tid,
                "ts": round(self.zero_us + start, 3),
                "dur": round(end - start, 3),
                "args": dict(args),
            }
        )  # fmt: skip


def _steps(builder: TraceBuilder, *, num_steps: int = 3, **args: Any) -> list[Json]:
    for number in range(num_steps):
        at = 1000.0 * number
        builder.step(number + 4, at, 700)
        for position in range(6):
            builder.operator(at + 30 + 100 * position, num_kernels=1 + position % 3, **args)
    return builder.events


def cuda(seed: int) -> list[Json]:
    """Return launches one by one, in iterations."""
    return _steps(TraceBuilder(seed))


def rocm(seed: int) -> list[Json]:
    return _steps(TraceBuilder(seed, launch_name="hipLaunchKernel"))


def xpu(seed: int) -> list[Json]:
    return _steps(TraceBuilder(seed, runtime="xpu_runtime", launch_name="urEnqueueKernelLaunch"))


def private_use(seed: int) -> list[Json]:
    """Return the trace of an accelerator of another vendor, with text for its times."""
    events = _steps(TraceBuilder(seed, runtime="privateuse1_runtime", launch_name="Launch"))
    return [{**event, "ts": f"{event['ts']:.3f}", "dur": f"{event['dur']:.3f}"} for event in events]


def old_kineto(seed: int) -> list[Json]:
    """Return the categories of 2021, with whole microseconds since 1970."""
    builder = TraceBuilder(
        seed, runtime="Runtime", kernel_category="Kernel", host_category="Operator",
        zero_us=1_623_143_089_861_000,
    )  # fmt: skip
    events = _steps(builder)
    return [{**event, "ts": int(event["ts"]), "dur": int(event["dur"])} for event in events]


def graph_replays(seed: int) -> list[Json]:
    """Return iterations whose kernels all have the correlation of one replay."""
    builder = TraceBuilder(seed)
    for number in range(3):
        at = 1000.0 * number
        builder.step(number, at, 300)
        correlation = builder.take_id()
        builder.host(
            "cudaGraphLaunch", at + 50, at + 60, category="cuda_runtime", correlation=correlation
        )
        start = at + 90
        for _ in range(8):
            time = builder.some(2, 40)
            builder.device(start, time, correlation=correlation)
            start = round(start + time + builder.some(0, 3), 3)
    return builder.events


def several_devices(seed: int) -> list[Json]:
    """Return two devices with streams whose work overlaps, copies and collectives included."""
    builder = TraceBuilder(seed)
    for number in range(2):
        at = 2000.0 * number
        builder.step(number, at, 900)
        for position in range(5):
            builder.operator(at + 20 + 150 * position, device=position % 2, stream=7)
            builder.operator(at + 60 + 150 * position, device=position % 2, stream=20, delay=90)
        copy = builder.take_id()
        builder.host(
            "cudaMemcpyAsync", at + 800, at + 803, category="cuda_runtime", correlation=copy
        )
        builder.device(
            at + 810,
            builder.some(20, 60),
            category="gpu_memcpy",
            stream=22,
            name="Memcpy HtoD (Pinned -> Device)",
            correlation=copy,
            bytes=4096,
        )
    return builder.events  # fmt: skip


def late_work(seed: int) -> list[Json]:
    """Return kernels that end after their iteration, and some that were launched before any."""
    builder = TraceBuilder(seed)
    builder.device(5, 40, correlation=builder.take_id())
    for number in range(3):
        at = 500.0 * number
        builder.step(number, at + 100, 200)
        for position in range(4):
            builder.operator(at + 110 + 40 * position, delay=150)
        # Work between the iterations belongs to none.
        builder.operator(at + 380, delay=60)
    return builder.events


def device_alone(seed: int) -> list[Json]:
    """Return a trace without any event of the host."""
    builder = TraceBuilder(seed)
    start = 0.0
    for _ in range(20):
        time = builder.some(1, 30)
        builder.device(start, time, stream=builder.chance.choice((7, 13)))
        start = round(start + builder.some(0, 40), 3)
    return builder.events


def external_ids(seed: int) -> list[Json]:
    """Return kernels that are linked to their operators by external ids, without launches."""
    builder = TraceBuilder(seed, runtime="overhead")
    events = _steps(builder)
    for event in events:
        event["args"].pop("correlation", None)
    return events


def flows_and_counters(seed: int) -> list[Json]:
    """Return events of all phases among the complete ones, some of these without a duration."""
    builder = TraceBuilder(seed)
    events = _steps(builder)
    others: list[Json] = [
        {"ph": "M", "name": "process_name", "pid": 0, "args": {"name": "python"}},
        {"ph": "i", "s": "g", "name": "Iteration Start", "pid": 1, "tid": 1, "ts": 4.5},
        {"ph": "C", "name": "memory", "pid": 1, "ts": 7, "args": {"bytes": 12}},
        {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 3, "pid": 1, "tid": 1, "ts": 9},
        {"ph": "f", "bp": "e", "cat": "ac2g", "name": "ac2g", "id": 3, "pid": 0, "tid": 7, "ts": 9},
    ]
    kernels = [event for event in events if event["cat"] == "kernel"]
    for event in kernels[::4]:
        del event["dur"]
    return [event for pair in zip(events, others * len(events), strict=False) for event in pair]


def with_stacks(seed: int) -> list[Json]:
    """Return calls of Python, and annotations of the device and of the user."""
    builder = TraceBuilder(seed)
    _steps(builder)
    for number in range(3):
        at = 1000.0 * number
        builder.host("train.py(3): main", at - 50, at + 900, category="python_function")
        builder.host("nn.Module: Net_0", at + 10, at + 690, category="python_function")
        builder.host("## forward ##", at + 15, at + 650, category="user_annotation")
        builder.host("inner", at + 20, at + 640, category="user_annotation")
        builder.device(at + 20, 600, category="gpu_user_annotation", name="## forward ##")
    return builder.events


def _nested(builder: TraceBuilder, at: float, length: float, *, depth: int, tid: int) -> None:
    name = builder.chance.choice(OPERATORS)
    builder.host(name, at, at + length, category="cpu_op", tid=tid)
    if depth == 0 or length < 8:
        return
    start = at + builder.some(0, 2)
    for _ in range(builder.chance.randint(0, 3)):
        time = builder.some(1, length / 3)
        if start + time > at + length:
            return
        _nested(builder, round(start, 3), time, depth=depth - 1, tid=tid)
        start += time + builder.some(0, 2)


def cpu(seed: int) -> list[Json]:
    """Return operators within operators."""
    builder = TraceBuilder(seed)
    for number in range(3):
        at = 1000.0 * number
        builder.step(number, at, 800)
        for position in range(5):
            _nested(builder, at + 10 + 150 * position, builder.some(20, 120), depth=3, tid=1)
    return builder.events


def cpu_threads(seed: int) -> list[Json]:
    """Return a thread of autograd next to the first one, annotated, and operators outside."""
    builder = TraceBuilder(seed)
    _nested(builder, -300, 100, depth=2, tid=1)
    for number in range(2):
        at = 1500.0 * number
        builder.step(number, at, 1200)
        builder.host("forward", at + 5, at + 590, category="user_annotation")
        for position in range(4):
            _nested(builder, at + 10 + 140 * position, builder.some(20, 120), depth=2, tid=1)
            _nested(builder, at + 400 + 140 * position, builder.some(20, 120), depth=3, tid=2)
    return builder.events


KINDS: Mapping[str, Callable[[int], list[Json]]] = {
    function.__name__: function
    for function in (
        cuda, rocm, xpu, private_use, old_kineto, graph_replays, several_devices, late_work,
        device_alone, external_ids, flows_and_counters, with_stacks, cpu, cpu_threads,
    )
}  # fmt: skip
