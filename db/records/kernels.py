"""The kernels of one case result, their generated code, and their JSON form.

Only the standard library is needed, on Python 3.10 or newer. Times are seconds of one iteration
under the profiler, and so include its cost. They show where the time goes, not how long an
iteration lasts (`Profile` has both).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, TypeGuard

from compile_hud.db.errors import RecordError
from compile_hud.db.records.codec import JSON_NAME, JsonRecord, Quantity
from compile_hud.db.records.run_warning import RunWarning
from compile_hud.db.shared.text import quoted

# torch's range of the look-up of compiled code, in which all guards of a frame are checked.
CACHE_LOOKUP = "TorchDynamo Cache Lookup"
# The kind of work of a kernel. `dispatch` is the time of operators outside their kernels.
KINDS = (
    "gemm",
    "convolution",
    "attention",
    "fused",
    "elementwise",
    "reduction",
    "copy",
    "communication",
    "dispatch",
    "other",
)
# The origin of the code: Inductor's two, those that vendors ship, ATen's own, and any other.
LIBRARIES = (
    "triton",
    "inductor-cpp",
    "aten",
    "onednn",
    "mkl",
    "cublas",
    "cutlass",
    "cudnn",
    "flash-attention",
    "nccl",
    "cuda",
    "other",
)
_NS_PER_S = 1e9
# The time in which a GPU had nothing to do: gaps between launches, and waiting for the host.
IDLE = "idle"
# A share of the latency. Ten iterations differ from the median of the samples by as much without
# cause.
_SAME_TIME = 0.03
# The key of modules in `Kernel.launch`.
MODULES = "modules"
# Seconds of an iteration in which the GPU had no work after a copy that the host waited for.
IDLE_AFTER_WAIT = "idle_after_wait_s"
# The user's line of the calls in each module, `FILE:LINE` by the path of the module.
CALL_LINES = "call_lines"
# The vector instructions that C++ code was compiled for, by Inductor's name; "" for none.
VECTOR_ISA = "vector_isa"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin(JsonRecord):
    """One node of the FX graph that a kernel computes, with the user's line it came from.

    `target` is the ATen operator, `module` the path of the `nn.Module`. `file`, `line` and `code`
    are the user's line that calls it. Unknown fields are empty (0).
    """

    node: str
    target: str = ""
    module: str = ""
    file: str = ""
    line: int = 0
    code: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel(JsonRecord):
    """All calls of one kernel in one iteration: a row of the table of kernels.

    - `name`: the name in the trace. Equal names with different shapes have separate rows.
    - `label`: the name without numbers that the compiler gives by order.
    - `kind`, `library`: the kind of work (KINDS) and the origin of the code (LIBRARIES).
    - `count`, `total_s`: calls per iteration, and their time per iteration.
    - `mean_s`, `min_s`: the time of one call.
    - `share`: the part of an iteration.
    - `num_bytes`, `flops`: those of one call, None if unknown.
    - `roofline`: the part of the device's measured limit, None if unknown.
    - `operators`, `module`: the computed ATen operators and (the common path of) their `nn.Module`.
    - `shapes`: the inputs of the call as text.
    - `source_hash`: the hash of its KernelSource.
    - `config`: the choice of the autotuner (`num_warps`, block sizes).
    - `launch`: JSON values. They are launch parameters (`grid`, `block`, `registers`,
      `shared_bytes`, `occupancy`, `spills`, `streams`), `arguments` of the first call, `counters`
      of other profilers, `modules` if there are several, IDLE_AFTER_WAIT and VECTOR_ISA.
    """

    name: str
    label: str
    kind: str
    library: str
    device: str
    count: Quantity
    total_s: Quantity
    mean_s: Quantity
    min_s: Quantity
    share: Quantity
    num_bytes: Quantity | None = None
    flops: Quantity | None = None
    roofline: Quantity | None = None
    operators: tuple[str, ...] = ()
    module: str = ""
    shapes: str = ""
    source_hash: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    launch: Mapping[str, Any] = field(default_factory=dict)
    origins: tuple[Origin, ...] = ()

    def __post_init__(self) -> None:
        """Check that every number is finite and none below 0."""
        numbers = (self.count, self.total_s, self.mean_s, self.min_s, self.share)
        maybe = (self.num_bytes, self.flops, self.roofline)
        known = [*numbers, *(number for number in maybe if number is not None)]
        if not all(math.isfinite(number) and number >= 0 for number in known):
            raise RecordError(
                f"kernel {quoted(self.name)} has a number that is negative or not finite",
                kernel=self.name,
                problem="number",
            )

    @property
    def is_dispatch(self) -> bool:
        """Return whether the row is the time of an operator outside of its kernels."""
        return self.kind == "dispatch"

    @property
    def bytes_per_s(self) -> float | None:
        """Return the achieved bandwidth in bytes/s, None if it is not known."""
        if self.num_bytes is None or self.mean_s == 0:
            return None
        return self.num_bytes / self.mean_s

    @property
    def flops_per_s(self) -> float | None:
        """Return the achieved operations per second, None if they are not known."""
        if self.flops is None or self.mean_s == 0:
            return None
        return self.flops / self.mean_s


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelTotals:
    """The sums over the kernels of a result, per iteration, and its longest kernel."""

    num_kernels: int
    num_calls: float
    total_s: float
    longest: str
    longest_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSource(JsonRecord):
    """Generated code, stored once for all kernels that have it.

    `hash` is the SHA-256 over `text` without the kernel's own name, so that renumbering a kernel
    does not change it. `language` is `triton` or `cpp`, or `model` for a model's files in JSON.
    """

    hash: str
    language: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineSpan:
    """One span of work in an iteration, in whole nanoseconds.

    `start_s` counts from the beginning of the iteration. `lane` is the number of a thread, or of a
    stream of a GPU. `kernel` is the index of the kernel among those of the result, the longest
    first.
    """

    start_s: float
    duration_s: float
    lane: int
    kernel: int

    def to_json(self) -> list[int]:
        """Return start and duration in nanoseconds, lane and kernel."""
        start_ns, duration_ns = round(self.start_s * _NS_PER_S), round(self.duration_s * _NS_PER_S)
        return [start_ns, duration_ns, self.lane, self.kernel]

    @classmethod
    def from_json(cls, document: Any) -> TimelineSpan:
        """Return the span that `document` describes; raise RecordError for an invalid one."""
        is_row = isinstance(document, list) and len(document) == 4
        if not is_row or not all(type(number) is int and number >= 0 for number in document):
            raise RecordError(
                f"a slice must be four whole numbers from 0 on, got {quoted(document)}",
                expected="four whole numbers",
                got=document,
            )
        start_ns, duration_ns, lane, kernel = document
        return cls(
            start_s=start_ns / _NS_PER_S,
            duration_s=duration_ns / _NS_PER_S,
            lane=lane,
            kernel=kernel,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile(JsonRecord):
    """The time breakdown of one iteration, as the profiler saw it.

    `iteration_s` is one iteration under the profiler. `latency_s` is the median of the samples,
    which were taken without it. `components` are seconds per iteration that add up to
    `iteration_s`. They are compute by kind (KINDS) and the time without a kernel: `idle` on a GPU
    (launch gaps), `python` on a CPU. Time in which several kernels ran at once is counted once in
    `components`; `overlap_s` is the rest. `busy` is the share of an iteration in which a GPU had
    work, None on a CPU. `trace` is the name of the stored Chrome trace, empty without one.
    `timeline` has the longest spans of the median iteration by start; results of old versions have
    none. In JSON, `components` is `parts` and `timeline` is `strip`.
    """

    num_iterations: int
    iteration_s: float
    latency_s: float | None
    components: Mapping[str, float] = field(metadata={JSON_NAME: "parts"})
    busy: float | None = None
    is_graph_replay: bool = False
    overlap_s: float = 0.0
    trace: str = ""
    timeline: tuple[TimelineSpan, ...] = field(default=(), metadata={JSON_NAME: "strip"})

    @property
    def latency_components(self) -> Mapping[str, float]:
        """Return the components; gaps of a GPU are cut to the room that the latency has for them.

        Recording slows the host and no kernel. If the device waits for the host, the extra time
        under the profiler is gaps.
        """
        gaps_s = self.components.get(IDLE, 0.0)
        if self.latency_s is None or not gaps_s:
            return self.components
        cost_s = max(0.0, math.fsum(self.components.values()) - self.latency_s)
        return {**self.components, IDLE: max(0.0, gaps_s - cost_s)}

    @property
    def is_slowed(self) -> bool:
        """Return whether recording made the gaps of a GPU longer than the latency has room for."""
        if self.latency_s is None or not self.components.get(IDLE):
            return False
        return math.fsum(self.components.values()) > (1 + _SAME_TIME) * self.latency_s

    @property
    def components_without_profiler(self) -> Mapping[str, float]:
        """Return the components to show: `latency_components` if recording slowed the host."""
        return self.latency_components if self.is_slowed else self.components

    @property
    def busy_without_profiler(self) -> float | None:
        """Return `busy` to show, by `components_without_profiler`; None on a CPU."""
        whole_s = math.fsum(self.components_without_profiler.values())
        if self.busy is None or not self.is_slowed or not whole_s:
            return self.busy
        return 1.0 - self.components_without_profiler[IDLE] / whole_s

    @property
    def remainder_s(self) -> float | None:
        """Return the latency less all components: negative by the cost of the profiler."""
        return (
            None if self.latency_s is None else self.latency_s - math.fsum(self.components.values())
        )

    def whole_times(self) -> list[tuple[str, float]]:
        """Return the rows below the components: an iteration with and without the profiler."""
        profiled = ("profiled iteration", self.iteration_s)
        if self.latency_s is None or self.remainder_s is None:
            return [profiled]
        latency, remainder = (
            ("latency without profiler", self.latency_s),
            ("remainder", self.remainder_s),
        )
        if self.is_slowed:
            return [latency, profiled, (f"{IDLE}, profiled", self.components[IDLE]), remainder]
        return [profiled, latency, remainder]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfiledResult:
    """The kernels of a case result with their code, its details and its latency.

    `details` has the profile (`profile_of`); `latency_s` is the median of `samples`, None without
    samples.
    """

    kernels: tuple[Kernel, ...]
    sources: tuple[KernelSource, ...]
    details: Mapping[str, Any]
    latency_s: float | None
    samples: tuple[float, ...] = ()
    warnings: tuple[RunWarning, ...] = ()


def with_latency_shares(kernels: Iterable[Kernel], profile: Profile | None) -> tuple[Kernel, ...]:
    """Return `kernels` with their shares of `components_without_profiler`."""
    if profile is None or not profile.is_slowed:
        return tuple(kernels)
    whole_s = math.fsum(profile.components_without_profiler.values())
    factor = math.fsum(profile.components.values()) / whole_s if whole_s else 1.0
    return tuple(replace(kernel, share=factor * kernel.share) for kernel in kernels)


def profile_of(details: Mapping[str, Any]) -> Profile | None:
    """Return the profile among the `details` of a case result, None without; raise RecordError."""
    document = details.get("profile")
    return None if document is None else Profile.from_json(document)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleTime(JsonRecord):
    """The calls and seconds per iteration that a kernel spends in the module `path`."""

    path: str
    count: float
    total_s: float


def modules_of(kernel: Kernel) -> tuple[ModuleTime, ...]:
    """Return the modules of `kernel`, the longest first; none if it has one or its module is
    unknown.

    Damaged entries are left out.
    """
    listed = kernel.launch.get(MODULES)
    return tuple(
        ModuleTime(path=item["path"], count=item["count"], total_s=item["total_s"])
        for item in (listed if isinstance(listed, list) else [])
        if isinstance(item, dict)
        and isinstance(item.get("path"), str)
        and _is_amount(item.get("count"))
        and _is_amount(item.get("total_s"))
    )


def call_lines_of(kernel: Kernel) -> dict[str, str]:
    """Return the user's line of the calls of `kernel` by the path of the module; none if unknown.

    Damaged entries are left out.
    """
    listed = kernel.launch.get(CALL_LINES)
    return {
        path: line
        for path, line in (listed.items() if isinstance(listed, dict) else ())
        if isinstance(path, str) and isinstance(line, str)
    }


def _is_amount(value: Any) -> TypeGuard[float]:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= value < math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelPoint:
    """One kernel in one run: all its rows of the result together, in seconds per iteration.

    `num_sources` is the number of different generated codes, 0 for a kernel of a library.
    """

    run_id: str
    result_id: str
    at: datetime
    revision: str
    machine: str
    toolchain: str
    fingerprint: str
    count: float
    total_s: float
    min_s: float
    share: float
    num_sources: int

    @property
    def mean_s(self) -> float:
        """Return the time of one call; that of an iteration if calls are not known."""
        return self.total_s / self.count if self.count else self.total_s


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRun:
    """A run that has kernels of some case."""

    run_id: str
    at: datetime
    machine: str
    toolchain: str
