"""The metric table: the only source of a number's unit, direction and meaning.

`relevance_floor` is the relative change below which a significant change is not worth a person's
time. Metrics with `is_exact` are counts: they have no noise, so any change is significant. A metric
with an `ideal` is judged by its distance from it; a distance below `resolution` is rounding. Levels
of 0 or below are judged by their absolute change if the metric `has_zero_level`; values of the
others are always above 0, or have no meaning. Counts of compilations of the same code may differ by
`compilation_spread`; a larger difference is a change.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from compile_hud.db.records.string_enum import StrEnum

# The method of a metric has this for the clock of a thread, which other processes do not stretch.
CPU_TIME = "CPU time"
# The compile cache of a new process is empty or filled; each has a metric of its own.
CACHES = COLD, WARM = ("cold", "warm")
# The caches of compiled graphs, by their name in metrics, and the results of a look-up.
COMPILE_CACHES = {"fxgraph": "Inductor's graph cache", "aotautograd": "AOTAutograd's cache"}
CACHE_EVENTS = ("hits", "misses", "bypasses")
# The largest number of calls per process against which a compile time is weighed.
MAX_EXPECTED_CALLS = 10**11
# The method has this if each iteration began with a flushed cache of the GPU.
FLUSHED = "evicts the L2 cache"
# The metrics of the trends of the modes. `trend_results` has columns of each.
MODE_METRICS = ("speedup", "compile_cold_s", "compile_warm_s", "peak_bytes", "energy_j")
# Words in names of quantities that grow as the code gets faster.
RATE_WORDS = (
    r"speedup|throughput|bandwidth|flops|_per_s|per_sec|/s\b|(?<![a-z])(tps|qps|fps)(?![a-z])"
)
_RATE = re.compile(RATE_WORDS, re.IGNORECASE)
# Time and memory are costs, unless the name means something good.
_TIMES = ("s", "sec", "second", "seconds", "ms", "us", "ns")
_SIZES = ("b", "bytes", "kb", "kib", "mb", "mib", "gb", "gib")
_GOOD = re.compile(r"free|avail|saved|saving|headroom|capacity|limit|uptime|reduc", re.IGNORECASE)


class Direction(StrEnum):
    """The better direction of a metric."""

    LOWER_IS_BETTER = "lower_is_better"
    HIGHER_IS_BETTER = "higher_is_better"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One named quantity."""

    name: str
    unit: str
    direction: Direction
    description: str
    relevance_floor: float = 0.05
    # A judged metric can raise an alert; the others only explain.
    is_judged: bool = True
    is_exact: bool = False
    ideal: float | None = None
    resolution: float = 0.0
    compilation_spread: float = 0.0
    has_zero_level: bool = False

    @property
    def is_count(self) -> bool:
        """Return whether values are whole numbers without noise of measuring."""
        return self.is_exact or self.compilation_spread > 0


LOWER = Direction.LOWER_IS_BETTER
HIGHER = Direction.HIGHER_IS_BETTER

_ROWS = (
    Metric(
        name="latency_s",
        unit="s",
        direction=LOWER,
        description="Wall time of one iteration, synchronised inside the timer.",
    ),
    Metric(
        name="latency_cpu_s",
        unit="s",
        direction=LOWER,
        description="Thread CPU time of one iteration; on a CPU it is immune to being preempted.",
    ),
    Metric(
        name="eager_latency_s",
        unit="s",
        direction=LOWER,
        description="Wall time of one eager iteration, interleaved with the variant's iterations.",
        is_judged=False,
    ),
    Metric(
        name="eager_latency_cpu_s",
        unit="s",
        direction=LOWER,
        description="Thread CPU time of one eager iteration, interleaved with the variant's.",
        is_judged=False,
    ),
    Metric(
        name="speedup",
        unit="x",
        direction=HIGHER,
        description="Eager over variant latency, round by round in the same process.",
    ),
    Metric(
        name="pace_s",
        unit="s",
        direction=LOWER,
        description="CPU time of a fixed piece of work between the samples: the machine's pace.",
        is_judged=False,
    ),
    Metric(
        name="throughput_samples_per_s",
        unit="samples/s",
        direction=HIGHER,
        description="Samples of the batch divided by the latency.",
        is_judged=False,
    ),
    Metric(
        name="throughput_tokens_per_s",
        unit="tokens/s",
        direction=HIGHER,
        description="Tokens of the batch divided by the latency; token models only.",
        is_judged=False,
    ),
    Metric(
        name="first_token_s",
        unit="s",
        direction=LOWER,
        description="Wall time from the call to the first token of a generated text.",
        is_judged=False,
    ),
    Metric(
        name="token_p50_s",
        unit="s",
        direction=LOWER,
        description="Median wall time between two tokens of a generated text.",
        is_judged=False,
    ),
    Metric(
        name="token_p99_s",
        unit="s",
        direction=LOWER,
        description="99th percentile of the wall time between two tokens of a generated text.",
        is_judged=False,
    ),
    Metric(
        name="compile_cold_s",
        unit="s",
        direction=LOWER,
        description="First three calls minus three later ones, with an empty compile cache.",
        # Compile time depends on the C++ compiler, the disk and every neighbour of the machine.
        relevance_floor=0.15,
    ),
    Metric(
        name="compile_cold_cpu_s",
        unit="s",
        direction=LOWER,
        description="CPU time of the cold compile, C++ compiler included; neighbours move it less.",
        relevance_floor=0.15,
    ),
    Metric(
        name="compile_warm_s",
        unit="s",
        direction=LOWER,
        description="As cold, but in a fresh process that finds the compile cache filled.",
        relevance_floor=0.15,
    ),
    Metric(
        name="compile_artifacts_s",
        unit="s",
        direction=LOWER,
        description="As warm, but from saved cache artifacts that are loaded into an empty cache.",
        is_judged=False,
    ),
    Metric(
        name="compile_dynamo_s",
        unit="s",
        direction=LOWER,
        description="Cold compile: Dynamo tracing bytecode and building guards.",
        is_judged=False,
    ),
    Metric(
        name="compile_aot_s",
        unit="s",
        direction=LOWER,
        description="Cold compile: AOTAutograd, between Dynamo and Inductor.",
        is_judged=False,
    ),
    Metric(
        name="compile_inductor_s",
        unit="s",
        direction=LOWER,
        description="Cold compile: Inductor's passes, scheduling and code generation.",
        is_judged=False,
    ),
    Metric(
        name="compile_backend_s",
        unit="s",
        direction=LOWER,
        description="Cold compile: waiting for Triton or the C++ compiler.",
        is_judged=False,
    ),
    Metric(
        name="compile_instructions",
        unit="1",
        direction=LOWER,
        description="Instructions of the cold compile in user code, with those of its compilers.",
    ),
    Metric(
        name="compile_peak_host_bytes",
        unit="B",
        direction=LOWER,
        description="Cold compile: highest resident memory of the process beyond that before it.",
        relevance_floor=0.1,
    ),
    Metric(
        name="compile_peak_compilers_bytes",
        unit="B",
        direction=LOWER,
        description="Cold compile: highest memory of the C++ compilers and Triton's workers.",
        # A sample misses the last moments before a compiler ends.
        is_judged=False,
    ),
    Metric(
        name="compile_peak_device_bytes",
        unit="B",
        direction=LOWER,
        description="Cold compile: highest memory in tensors on CUDA beyond that before it.",
    ),
    Metric(
        name="break_even_calls",
        unit="calls",
        direction=LOWER,
        description="Calls after which what they save has paid for the cold compile.",
        is_judged=False,
    ),
    Metric(
        name="break_even_warm_calls",
        unit="calls",
        direction=LOWER,
        description="Calls after which what they save has paid for the warm compile.",
        is_judged=False,
    ),
    Metric(
        name="peak_bytes",
        unit="B",
        direction=LOWER,
        description="Highest number of bytes held by tensors during one iteration.",
    ),
    Metric(
        name="eager_peak_bytes",
        unit="B",
        direction=LOWER,
        description="Peak memory of one eager iteration, in the same process as the variant.",
        is_judged=False,
    ),
    Metric(
        name="compression_ratio",
        unit="x",
        direction=HIGHER,
        description="Eager over variant peak memory; above 1 the variant needs less.",
        is_judged=False,
    ),
    Metric(
        name="peak_reserved_bytes",
        unit="B",
        direction=LOWER,
        description="Highest number of bytes that CUDA's allocator took from the device.",
        is_judged=False,
    ),
    Metric(
        name="cudagraph_pool_bytes",
        unit="B",
        direction=LOWER,
        description="Bytes that CUDA graphs keep in memory pools of their own.",
        is_judged=False,
    ),
    Metric(
        name="flops",
        unit="FLOP",
        direction=Direction.NEITHER,
        description="Floating-point operations of one eager iteration; a multiply-add is two.",
        is_judged=False,
        is_exact=True,
        relevance_floor=0.0,
    ),
    Metric(
        name="compulsory_bytes",
        unit="B",
        direction=Direction.NEITHER,
        description="Bytes that one iteration has to move whatever the code: weights, inputs,"
        " outputs, in training gradients and optimizer state.",
        is_judged=False,
        is_exact=True,
        relevance_floor=0.0,
    ),
    Metric(
        name="num_parameters",
        unit="1",
        direction=Direction.NEITHER,
        description="Parameters of the model as it was built, one that is shared counted once.",
        is_judged=False,
        is_exact=True,
        relevance_floor=0.0,
    ),
    Metric(
        name="data_s",
        unit="s",
        direction=LOWER,
        description="Training: a fresh batch, copied to the device.",
        is_judged=False,
    ),
    Metric(
        name="forward_s",
        unit="s",
        direction=LOWER,
        description="Training: forward and loss of one iteration.",
        is_judged=False,
    ),
    Metric(
        name="backward_s",
        unit="s",
        direction=LOWER,
        description="Training: backward of one iteration.",
        is_judged=False,
    ),
    Metric(
        name="optimizer_s",
        unit="s",
        direction=LOWER,
        description="Training: optimizer step of one iteration, gradient scaler included.",
        is_judged=False,
    ),
    Metric(
        name="instructions",
        unit="1",
        direction=LOWER,
        description="Instructions of one iteration in user code; CPU with counters, one thread.",
        is_judged=False,
    ),
    Metric(
        name="cycles",
        unit="1",
        direction=LOWER,
        description="Clock cycles of one iteration in user code; CPU with counters, one thread.",
        is_judged=False,
    ),
    Metric(
        name="cache_misses",
        unit="1",
        direction=LOWER,
        description="Misses of the last cache in one iteration; CPU with counters, one thread.",
        is_judged=False,
    ),
    Metric(
        name="page_faults",
        unit="1",
        direction=LOWER,
        description="Page faults of one iteration; CPU, one thread.",
        is_judged=False,
    ),
    Metric(
        name="mfu",
        unit="share",
        direction=HIGHER,
        description="Model FLOP utilisation: flops over latency, as a share of the measured peak.",
        is_judged=False,
    ),
    Metric(
        name="bandwidth_bytes_per_s",
        unit="B/s",
        direction=HIGHER,
        description="Compulsory bytes over latency; real traffic is at least this.",
        is_judged=False,
    ),
    Metric(
        name="bandwidth_share",
        unit="share",
        direction=HIGHER,
        description="Bandwidth as a share of that of a measured copy; above 1 out of caches.",
        is_judged=False,
    ),
    Metric(
        name="energy_j",
        unit="J",
        direction=LOWER,
        description="Energy of one iteration: of the GPU's board, or of all CPU packages.",
        is_judged=False,
    ),
    Metric(
        name="power_w",
        unit="W",
        direction=Direction.NEITHER,
        description="Mean power while the iterations of energy_j ran back to back.",
        is_judged=False,
    ),
    Metric(
        name="graphs",
        unit="1",
        direction=LOWER,
        description="Graphs that Dynamo captured.",
        is_exact=True,
        relevance_floor=0.0,
    ),
    Metric(
        name="graph_breaks",
        unit="1",
        direction=LOWER,
        description="Places where Dynamo left the graph; the result's details have the reasons.",
        is_exact=True,
        relevance_floor=0.0,
    ),
    Metric(
        name="recompiles",
        unit="1",
        direction=LOWER,
        description="Graphs compiled again because a guard failed.",
        is_exact=True,
        relevance_floor=0.0,
    ),
    Metric(
        name="sweep_recompiles",
        unit="1",
        direction=LOWER,
        description="Graphs compiled again while other shapes went through the compiled model.",
        is_exact=True,
        relevance_floor=0.0,
    ),
    Metric(
        name="sweep_speedup",
        unit="x",
        direction=HIGHER,
        description="Eager over variant latency, geometric mean over a sweep of shapes.",
        # One launch has it, and launches differ from each other more than their samples do.
        relevance_floor=0.1,
    ),
    Metric(
        name="guards",
        unit="1",
        direction=LOWER,
        description="Guard checks of a call before compiled code: leaves of Dynamo's guard trees.",
        is_judged=False,
        is_exact=True,
    ),
    Metric(
        name="guard_s",
        unit="s",
        direction=LOWER,
        description="Time of one iteration in which Dynamo checks guards to find compiled code.",
        # A few microseconds of a profiled iteration move with every neighbour.
        is_judged=False,
    ),
    Metric(
        name="kernel_s",
        unit="s",
        direction=LOWER,
        description="Time of a kernel in a profiled iteration; its floor is one of the latency.",
        # A share of the latency; on an H100 less is within the noise of the longest kernels.
        relevance_floor=0.01,
        # Kernels are judged case by case (analysis/kernel_series), not as one series.
        is_judged=False,
    ),
    Metric(
        name="num_kernels",
        unit="1",
        direction=LOWER,
        # No exact count: Inductor fuses the same graph into 34 kernels tonight and 35 tomorrow.
        description="Kernels that one iteration calls, as its trace shows them.",
        compilation_spread=1.0,
    ),
    Metric(
        name="max_abs_error",
        unit="1",
        direction=LOWER,
        description="Largest absolute difference from the fp64 eager oracle.",
        # Sums in another order move errors by some tens of percent; a factor of two is another
        # algorithm.
        relevance_floor=1.0,
    ),
    Metric(
        name="rmse_ratio",
        unit="1",
        direction=LOWER,
        description="RMS error against the fp64 oracle over the RMS error of eager.",
        relevance_floor=1.0,
    ),
    Metric(
        name="cosine_similarity",
        unit="1",
        direction=HIGHER,
        description="Cosine between the output and the fp64 eager oracle.",
        relevance_floor=1.0,
        ideal=1.0,
        # The difference of fp32 outputs that rounding alone causes.
        resolution=1e-6,
    ),
)


def cache_metric(cache: str, *, state: str, event: str) -> str:
    """Return the name of the metric that counts this event of a compile cache."""
    return f"{cache}_{state}_{event}"


# The counts of a case are shown as a table of its launches, each with the reasons.
CACHE_METRICS = frozenset(
    cache_metric(cache, state=state, event=event)
    for cache in COMPILE_CACHES
    for state in CACHES
    for event in CACHE_EVENTS
)


def _cache_rows() -> Iterator[Metric]:
    """Yield the metrics of the look-ups in the compile caches, cold and warm."""
    for cache, title in COMPILE_CACHES.items():
        for state in CACHES:
            for event in CACHE_EVENTS:
                yield Metric(
                    name=cache_metric(cache, state=state, event=event),
                    unit="1",
                    direction=HIGHER if event == "hits" else LOWER,
                    description=f"{state.capitalize()} compile: {event} of {title}.",
                    # An empty cache misses every graph, and the graphs are judged already.
                    is_judged=state == WARM and event != "hits",
                    is_exact=True,
                    relevance_floor=0.0,
                )


METRICS: dict[str, Metric] = {row.name: row for row in (*_ROWS, *_cache_rows())}
_LABELS = {
    "latency_s": "latency",
    "latency_cpu_s": "latency (CPU time)",
    "eager_latency_s": "eager latency",
    "sweep_speedup": "speedup over shapes",
    "sweep_recompiles": "recompiles over shapes",
    "eager_latency_cpu_s": "eager latency (CPU time)",
    "compile_cold_s": "cold compile",
    "compile_cold_cpu_s": "cold compile (CPU time)",
    "compile_warm_s": "warm compile",
    "compile_artifacts_s": "warm compile (artifacts)",
    "compile_dynamo_s": "cold: Dynamo",
    "compile_aot_s": "cold: AOTAutograd",
    "compile_inductor_s": "cold: Inductor",
    "compile_backend_s": "cold: Triton or C++ compiler",
    "compile_instructions": "cold: instructions",
    "compile_peak_host_bytes": "cold: memory of the process",
    "compile_peak_compilers_bytes": "cold: memory of the compilers",
    "compile_peak_device_bytes": "cold: memory of the GPU",
    "break_even_calls": "break-even, cold",
    "break_even_warm_calls": "break-even, warm",
    "peak_bytes": "peak memory",
    "eager_peak_bytes": "eager peak memory",
    "compression_ratio": "memory compression",
    "peak_reserved_bytes": "peak memory (reserved)",
    "cudagraph_pool_bytes": "memory of CUDA graphs",
    "flops": "operations (FLOP)",
    "compulsory_bytes": "compulsory traffic",
    "mfu": "MFU",
    "bandwidth_bytes_per_s": "bandwidth",
    "bandwidth_share": "share of bandwidth",
    "energy_j": "energy",
    "power_w": "power",
    "throughput_samples_per_s": "throughput (samples)",
    "throughput_tokens_per_s": "throughput (tokens)",
    "guards": "guard checks",
    "guard_s": "time of guard checks",
    "num_kernels": "kernels",
    "num_parameters": "parameters",
    "max_abs_error": "largest error",
    "rmse_ratio": "RMSE ratio",
}
# The unit stands next to the number, so the label of a metric drops this suffix.
_UNIT_ENDS = {"s": "_s", "B": "_bytes", "B/s": "_bytes_per_s", "J": "_j", "W": "_w"}


def metric_label(name: str) -> str:
    """Return the label of a metric; unknown metrics keep their names."""
    if name not in METRICS:
        return name
    words = name.removesuffix(_UNIT_ENDS.get(METRICS[name].unit, ""))
    return _LABELS.get(name, words.replace("_", " "))


# Of the variant and of eager, by the wall clock and in CPU time.
LATENCIES = ("latency_s", "latency_cpu_s", "eager_latency_s", "eager_latency_cpu_s")


def speedup_name(methods: Iterable[str]) -> str:
    """Return `speedup`, with its clock if that is not the clock of the latency.

    `methods` are those of the speedups.
    """
    of_cpu = [CPU_TIME in method for method in methods]
    if not any(of_cpu):
        return "speedup"
    return f"speedup ({CPU_TIME})" if all(of_cpu) else f"speedup (some in {CPU_TIME})"


def speedup_latencies(methods: Iterable[str]) -> tuple[str, str]:
    """Return the metrics of eager and of the variant that speedups are the ratios of.

    `methods` are those of the speedups; the wall clock unless all are of CPU time.
    """
    of_cpu = [CPU_TIME in method for method in methods]
    clock = "_cpu" if of_cpu and all(of_cpu) else ""
    return f"eager_latency{clock}_s", f"latency{clock}_s"


def result_latencies(measured: Collection[str], *, speedup_method: str = "") -> tuple[str, str]:
    """Return the metrics of eager and of the variant to show of one result: `measured` has its own.

    They are on the clock of its speedup; without one the CPU time, where that was measured.
    """
    if speedup_method:
        eager, latency = speedup_latencies([speedup_method])
        # A result with several threads has the wall time alone.
        return eager, latency if latency in measured else "latency_s"
    clock = "_cpu" if "latency_cpu_s" in measured else ""
    return f"eager_latency{clock}_s", f"latency{clock}_s"


def column_latencies(
    measured: Iterable[Collection[str]], *, methods: Collection[str]
) -> tuple[str, str]:
    """Return the metrics of eager and of the variant for a table with one clock.

    `measured` has the metrics of each result, and `methods` are those of the speedups. Without a
    speedup the clock is CPU time, which later speedups will have.
    """
    if methods:
        return speedup_latencies(methods)
    return result_latencies({name for names in measured for name in names})


def latency_name(latencies: Iterable[str]) -> str:
    """Return the heading of these metrics of a latency: `latency`, with its clock if not wall."""
    of_cpu = [name == "latency_cpu_s" for name in latencies]
    if not any(of_cpu):
        return "latency"
    return f"latency ({CPU_TIME})" if all(of_cpu) else f"latency (some in {CPU_TIME})"


def metric_of(name: str, *, unit: str, stated: Direction | None = None) -> Metric | None:
    """Return the row of `name`; for an imported metric, one with its `stated` direction.

    Without one, its unit and the words of its name give the direction. None if these give no
    direction or contradict each other, and for a metric without one.
    """
    if name in METRICS:
        return METRICS[name]
    direction = stated or _direction_by_words(name, unit)
    if direction in (None, Direction.NEITHER):
        return None
    return Metric(
        name=name,
        unit=unit,
        direction=direction,
        description="Measured by others.",
        has_zero_level=True,
    )


def _direction_by_words(name: str, unit: str) -> Direction | None:
    is_rate = bool(_RATE.search(name)) or unit.lower().endswith(("/s", "/sec"))
    is_cost = unit.lower() in (*_TIMES, *_SIZES)
    if is_rate == is_cost or (is_cost and _GOOD.search(name)):
        return None
    return HIGHER if is_rate else LOWER
