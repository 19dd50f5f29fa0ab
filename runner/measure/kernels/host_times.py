"""The host's time between compiled graphs and in fallbacks, on a CPU.

The profiler lengthens each call by a multiple, so both times come from iterations without it. The
clock is read twice a call. The functions are internals of torch; without them nothing is reported.

- A gap lasts from the end of a compiled graph until the first kernel of the next one in the same
  forward or backward. It has the exit from the first, the entry into the second, and the guards and
  bytecode of the frame that resumes. Operators that run eagerly between them are in it too. Without
  a graph break none exists.
- A fallback is an operator without generated code: the generated code calls it in ATen. Its time is
  that of the call, dispatch included.
"""

from __future__ import annotations

import functools
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch

from compile_hud.db.records.graphs.host_times import HOST_TIMES
from compile_hud.db.records.results import Phase
from compile_hud.runner.measure.compile.compiler import is_uncompiled
from compile_hud.runner.measure.context import Context, Forward
from compile_hud.runner.measure.device import Device
from compile_hud.runner.measure.kernels.generated_code import generated_modules, replaced, wrapped
from compile_hud.runner.measure.kernels.library_calls import LIBRARIES
from compile_hud.runner.measure.latency.timing import garbage_collection_paused

MIN_ITERATIONS, MAX_ITERATIONS = 5, 30
BUDGET_S = 0.3
# The first iterations fill the caches that the steps before have emptied.
NUM_WARMUPS = 2


@dataclass(slots=True)
class HostCalls:
    """The calls of one iteration: graphs by forward and backward, and fallbacks by operator."""

    # First kernel and end of each graph in ns, a list for each forward and each backward.
    graphs: list[list[tuple[int, int]]] = field(default_factory=lambda: [[]])
    # Nanoseconds of each call, by the operator and whether it has complex numbers.
    fallbacks: dict[tuple[str, bool], list[int]] = field(default_factory=dict)

    @property
    def gaps_ns(self) -> list[int]:
        """Return the time between each graph and the next one."""
        return [after[0] - before[1] for group in self.graphs for before, after in pairwise(group)]


class _CallRecorder:
    """Records the calls of graphs, and of operators inside of graphs, the outermost alone."""

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self._clock_ns = clock_ns
        self.calls = HostCalls()
        self._is_in_graph = self._is_in_operator = False
        self._first_ns: int | None = None

    def begin_kernel(self) -> None:
        """Note the start of a kernel: the first one of a graph ends a gap."""
        if self._first_ns is None:
            self._first_ns = self._clock_ns()

    def split(self) -> None:
        """Let no gap reach from the graphs so far to those that follow."""
        self.calls.graphs.append([])

    def around_graph(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def timed(*arguments: Any, **options: Any) -> Any:
            if self._is_in_graph:
                return call(*arguments, **options)
            self._is_in_graph, self._first_ns = True, None
            try:
                return call(*arguments, **options)
            finally:
                end_ns = self._clock_ns()
                first_ns = end_ns if self._first_ns is None else self._first_ns
                self.calls.graphs[-1].append((first_ns, end_ns))
                self._is_in_graph = False

        return timed

    def around_operator(self, call: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(call)
        def timed(operator: Any, /, *arguments: Any, **options: Any) -> Any:
            if self._is_in_operator or not self._is_in_graph:
                return call(operator, *arguments, **options)
            self._is_in_operator = True
            self.begin_kernel()
            start_ns = self._clock_ns()
            try:
                output = call(operator, *arguments, **options)
                duration_ns = self._clock_ns() - start_ns
            finally:
                self._is_in_operator = False
            key = (_name_of(operator), _is_complex((*arguments, output)))
            self.calls.fallbacks.setdefault(key, []).append(duration_ns)
            return output

        return timed


def _name_of(operator: Any) -> str:
    """Return the name of an operator in a trace: `aten::sort`, without its overload."""
    name = getattr(operator, "_qualified_op_name", "") or str(getattr(operator, "_name", ""))
    return name.partition(".")[0]


def _is_complex(values: tuple[Any, ...]) -> bool:
    return any(isinstance(value, torch.Tensor) and value.is_complex() for value in values)


@contextmanager
def _recorded(recorder: _CallRecorder) -> Iterator[None]:
    """Record the calls of graphs and of operators during the block."""
    from torch._inductor import output_code
    from torch._ops import OpOverload, OpOverloadPacket

    with ExitStack() as stack:
        graph = getattr(output_code, "CompiledFxGraph", None)
        if graph is not None:
            stack.enter_context(wrapped(graph, "__call__", recorder.around_graph))
        for operator in (OpOverload, OpOverloadPacket):
            stack.enter_context(wrapped(operator, "__call__", recorder.around_operator))
        stack.enter_context(noted_kernels(recorder.begin_kernel))
        yield


@contextmanager
def noted_kernels(begin: Callable[[], None]) -> Iterator[None]:
    """Call `begin` before each generated C++ kernel and each call of a library in the block.

    The ranges of `visible_kernels` would take longer than what is measured here.
    """
    with ExitStack() as stack:
        for module in generated_modules():
            for name, function in list(vars(module).items()):
                if name == LIBRARIES:
                    stack.enter_context(replaced(module, name, _NotedLibraries(function, begin)))
                elif name.startswith("cpp_") and callable(function):
                    stack.enter_context(replaced(module, name, _noted(function, begin)))
        yield


def _noted(function: Callable[..., Any], begin: Callable[[], None]) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        begin()
        return function(*arguments)

    return call


class _NotedLibraries:
    """Replaces `extern_kernels`: generated code looks a function up only to call it."""

    def __init__(self, hidden: Any, begin: Callable[[], None]) -> None:
        self._hidden, self._begin = hidden, begin

    def __getattr__(self, name: str) -> Any:
        self._begin()
        return getattr(self._hidden, name)


def report_host_times(context: Context, forward: Forward) -> None:
    """Record gaps and fallbacks of each iteration through `forward`, if it has any of them."""
    device, case = context.device, context.request.case
    if device.is_cuda or is_uncompiled(case) or case.backend != "inductor":
        return
    clock = "thread_time" if device.num_threads == 1 else "perf_counter"
    iterations = _iterations(context, forward, clock_ns=getattr(time, f"{clock}_ns"))
    if not iterations:
        return
    num_gaps = statistics.median_low([len(calls.gaps_ns) for calls in iterations])
    names = sorted({name for calls in iterations for name in calls.fallbacks})
    context.findings.details[HOST_TIMES] = {
        "clock": clock,
        "num_gaps": num_gaps,
        "gaps_s": [sum(calls.gaps_ns) / 1e9 for calls in iterations],
        "fallbacks": [
            {
                "operator": name[0],
                "is_complex": name[1],
                "count": statistics.median_low(
                    [len(calls.fallbacks.get(name, ())) for calls in iterations]
                ),
                "samples_s": [sum(calls.fallbacks.get(name, ())) / 1e9 for calls in iterations],
            }
            for name in names
        ],
    }


def _iterations(
    context: Context, forward: Forward, *, clock_ns: Callable[[], int]
) -> list[HostCalls]:
    latency_s = statistics.median(context.findings.metrics["latency_s"].samples)
    num_iterations = min(MAX_ITERATIONS, max(MIN_ITERATIONS, int(BUDGET_S / latency_s)))
    recorder = _CallRecorder(clock_ns)
    step = _split_step(context, forward, split=recorder.split)
    iterations = []
    with _ready(context.device), _recorded(recorder):
        for _ in range(NUM_WARMUPS + num_iterations):
            recorder.calls = HostCalls()
            step()
            iterations.append(recorder.calls)
            if not recorder.calls.gaps_ns and not recorder.calls.fallbacks:
                # Most cases have neither, and one iteration says so.
                return []
    return iterations[NUM_WARMUPS:]


@contextmanager
def _ready(device: Device) -> Iterator[None]:
    with device.pinned(), garbage_collection_paused():
        yield


def _split_step(
    context: Context, forward: Forward, *, split: Callable[[], None]
) -> Callable[[], object]:
    """Return an iteration that calls `split` between forward and backward."""
    subject = context.subject_of(forward)
    if subject.phase is Phase.INFERENCE:
        return context.step(forward)

    def train() -> None:
        subject.zero_grad()
        _, loss = subject.forward_loss(forward, inputs=subject.inputs)
        split()
        subject.backward(loss)
        split()
        subject.optimize()

    return train
