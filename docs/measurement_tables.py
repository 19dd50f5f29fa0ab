"""Tables of the constants of measurement, modes and kernels, read from the text of the modules."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from detection_tables import table

from compile_hud.db.records.results import MEASURED_DTYPES, Dtype

ROOT = Path(__file__).resolve().parents[1]
OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Div: operator.truediv,
    ast.LShift: operator.lshift,
    ast.Mult: operator.mul,
    ast.Pow: operator.pow,
}
SIZES = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))
# Module of the runner -> constants of the measurement: name, unit and meaning.
MEASUREMENT_CONSTANTS: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "execution/launch_aggregation.py": (
        ("SPARE_TIME", "x", "time left for one more launch, over the slowest launch"),
    ),
    "execution/run_plan.py": (
        ("REFERENCE_BUDGET_S", "s", "sampling time of a launch of a reference case"),
    ),
    "execution/retries.py": (("MAX_ATTEMPTS", "", "attempts at a case that something else ended"),),
    "analysis/stats/launch_noise.py": (
        ("PRIOR_DEGREES", "", "launches that the spread of the other cases counts for"),
    ),
    "measure/latency/timing.py": (
        ("SAMPLE_S", "s", "duration of one sample"),
        ("CALIBRATION_TRIES", "", "tries that set k; the shortest one counts"),
        ("CALIBRATION_TOLERANCE", "x", "error of k after which it is set again"),
        ("MIN_ROUNDS", "", "minimum of rounds per launch"),
        ("MIN_CALLS", "", "minimum of calls of each side before a launch stops early"),
        ("WITHIN_LAUNCH_SHARE", "%", "interval of one launch that stops it, of the target"),
        ("MAX_WARMUP_ROUNDS", "", "maximum of warm-up rounds before sampling"),
        ("MAX_LEVEL_DROPS", "", "maximum of drops before `unsettled`"),
    ),
    "measure/latency/steady_state.py": (
        ("STEADY_ROUNDS", "", "rounds of each compared median"),
        ("STEADY_SPREAD", "%", "maximum difference of the two medians"),
        ("MIN_DROP_ROUNDS", "", "minimum of rounds on each side of a drop"),
        ("MIN_LEVEL_DROP", "%", "minimum size of a drop"),
        ("MIN_DROP_SUPERIORITY", "%", "minimum share of pairs of rounds that drop"),
    ),
    "measure/latency/machine_speed.py": (
        ("WIDTH", "", "rows and columns of the probe's matrices"),
        ("CHAIN_LENGTH", "", "additions of the probe"),
    ),
    "measure/device.py": (("FLUSH_FACTOR", "x", "written bytes over the size of the L2 cache"),),
    "measure/compile/compiler.py": (
        ("NUM_COMPILE_CALLS", "", "first calls that make up a compile time"),
    ),
    "measure/compile/compiler_warnings.py": (
        ("MAX_TEXTS", "", "maximum of texts with the code `compiler-warning`"),
    ),
    "measure/compile/peak_memory.py": (
        ("MIN_INTERVAL_S", "s", "interval of reading the compilers' memory"),
        ("MAX_SHARE", "%", "maximum share of a core for it"),
    ),
    "measure/resources/memory_growth.py": (
        ("NUM_ITERATIONS", "", "iterations of each stretch that must not grow"),
        ("MIN_BYTES", "B", "growth per iteration that warns"),
    ),
    "db/records/memory/peak.py": (
        ("MAX_HOLDERS", "", "operators with a row of memory; the others share one"),
    ),
    "measure/resources/device_peaks.py": (
        ("CACHE_FACTOR", "x", "buffer of the measured copy over the last cache"),
    ),
    "measure/resources/counters_step.py": (
        ("NUM_SAMPLES", "", "maximum of samples of the CPU's counters"),
        ("BUDGET_S", "s", "duration of all of them"),
    ),
    "measure/resources/telemetry.py": (("MIN_INTERVAL_S", "s", "interval of reading NVML"),),
    "measure/resources/energy.py": (
        ("NVML_S", "s", "minimum duration of the loop on a GPU"),
        ("NVML_SETTLE_S", "s", "duration before it, in which the power settles"),
        ("RAPL_S", "s", "minimum duration of the loop on a CPU"),
        ("BATCH_S", "s", "duration of a batch of iterations"),
    ),
    "measure/accuracy/metrics.py": (
        ("RMSE_FACTOR", "x", "maximum RMS error over that of eager"),
        ("DISCRETE_SHARE", "%", "maximum share of integers that differ"),
        ("MIN_EAGER_COSINE", "", "minimum cosine of two eager runs"),
    ),
    "measure/accuracy/oracle_cache.py": (
        ("MAX_SHARED_BYTES", "B", "maximum size of weights or results of a shared oracle"),
    ),
    "measure/shape_sweep.py": (
        ("NUM_ROUNDS", "", "maximum of rounds of a sweep"),
        ("MIN_ROUNDS", "", "minimum of rounds of a sweep"),
        ("BUDGET_S", "s", "duration of its rounds"),
        ("TIME_SHARE", "%", "maximum share of the case's time for a sweep"),
    ),
    "execution/ahead/phases.py": (
        ("LANES_PER_PROCESS", "", "launches that wait for each compiling process"),
    ),
    "execution/ahead/cases.py": (("BYTES_PER_LANE", "B", "minimum memory of each of them"),),
    "analysis/stats/quality_checks.py": (
        ("FEW_SAMPLES", "", "minimum of rounds with a 95 % interval"),
        ("MIN_CPU_SHARE", "%", "minimum CPU time over wall time"),
        ("MAX_STEAL_SHARE", "%", "maximum share of CPU time that the hypervisor takes"),
        ("MAX_GPU_CLOCK_CHANGE", "%", "maximum change of the GPU's clock"),
        ("MAX_CPU_CLOCK_CHANGE", "%", "maximum change of the CPU's clock"),
        ("MAX_LAUNCH_SPREAD", "%", "maximum standard deviation between launches"),
        ("MAX_ENERGY_STRETCH", "x", "maximum time in the energy loop over the latency"),
        ("MIN_ENERGY_STRETCH", "x", "minimum time in the energy loop over the latency"),
    ),
    "analysis/stats/sample_checks.py": (
        ("MIN_DRIFT_Z", "", "minimum z of Mann-Kendall"),
        ("MIN_DRIFT", "%", "minimum change from the first round to the last"),
        ("MIN_MODE_SAMPLES", "", "minimum of samples per launch for two modes"),
        ("MIN_MODE_CHANGE", "%", "minimum difference of the modes"),
        ("MIN_MODE_DISTANCE", "", "minimum of Ashman's D"),
        ("MIN_MODE_SHARE", "%", "minimum share of the smaller mode"),
    ),
}


ACCURACY = "measure/accuracy/metrics.py"
ACCURACY_LIMITS = {
    "MIN_COSINE": "minimum cosine of an output",
    "GRADIENT_MIN_COSINE": "minimum cosine of the gradients",
    "ROUNDING_RMSE": "relative RMS error of rounding",
}
KERNEL_CONSTANTS: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "measure/kernels/profile_step.py": (
        ("MAX_ITERATIONS", "", "maximum of profiled iterations"),
        ("BUDGET_S", "s", "duration of all of them"),
    ),
    "traces/chrome_trace.py": (
        ("MAX_UNPACKED_BYTES", "B", "maximum size of an unpacked trace"),
        ("MAX_EVENT_BYTES", "B", "maximum size of an event"),
        ("MAX_EVENTS", "", "maximum of events"),
    ),
    "analysis/kernels/matching.py": (
        ("MAX_COMPARED", "", "kernels of a side that a rule compares, the longest ones"),
        ("MAX_PAIRS", "", "maximum of compared pairs"),
        ("MIN_LIKENESS", "%", "minimum likeness of two versions of a kernel"),
    ),
    "analysis/kernels/fusion.py": (
        ("MIN_SHARED", "%", "minimum work that both sides of a fusion share"),
        ("MAX_REGROUPED", "", "maximum of kernels of a fusion"),
    ),
    "analysis/kernels/noise.py": (
        ("TOLERANCE_ERRORS", "", "standard errors by which two means differ"),
        ("MAX_DEVIATIONS", "", "standard deviations of the samples that both differ by"),
        ("MAX_COST_S", "s", "maximum cost of recording a call"),
        ("MAX_APART", "%", "maximum difference of iterations and latencies, of the latency"),
    ),
    "analysis/kernels/diff.py": (
        ("MIN_PART", "%", "minimum share of a component behind an alert"),
    ),
}
MODE_CONSTANTS: Mapping[str, tuple[tuple[str, str, str], ...]] = {
    "analysis/stats/cohort.py": (
        ("MIN_SHARE", "%", "models with a number below which a mode is not compared"),
    ),
    "analysis/modes/choice.py": (("LONG_LIVED_CALLS", "", "calls of a process without a setting"),),
    "analysis/trends/trends.py": (("MIN_NIGHTS", "", "nights that show the spread of a trend"),),
}


def constant_of(path: Path, name: str) -> Any:
    """Return the value of a constant from the text of its module, which may import torch."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    assigned = {
        node.targets[0].id: node.value
        for node in body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }

    def value_of(node: ast.expr | None) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=other):
                return value_of(assigned[other])
            case ast.Attribute(value=ast.Name(id="Dtype"), attr=dtype):
                return Dtype[dtype]
            case ast.BinOp(left=left, op=sign, right=right):
                return OPERATORS[type(sign)](value_of(left), value_of(right))
            case ast.Dict(keys=keys, values=values):
                return dict(zip(map(value_of, keys), map(value_of, values), strict=True))
        raise ValueError(f"{path}: {name} is no number")

    return value_of(assigned[name])


def _shown(value: Any, unit: str) -> str:
    """Return a constant with its unit: `5 ms`, `97 %`, `256 MiB`, or a number for each dtype."""
    if unit == "s" and value < 1e-3:
        return f"{value * 1e6:g} us"
    if unit == "s" and value < 1:
        return f"{value * 1e3:g} ms"
    if unit == "%":
        return f"{value:.4%}".rstrip("0%").rstrip(".") + " %"
    if unit == "B":
        size, unit = next(row for row in SIZES if value >= row[0])
        return f"{value / size:g} {unit}"
    number = f"{value:,.0f}" if value >= 1e5 else f"{value:g}"
    return f"{number} {unit}".strip()


def table_of_constants(modules: Mapping[str, tuple[tuple[str, str, str], ...]]) -> str:
    """Return the table of some constants, module by module."""
    rows = []
    for module, constants in modules.items():
        folder = ROOT if module.startswith("db/") else ROOT / "runner"
        for name, unit, meaning in constants:
            value = _shown(constant_of(folder / module, name), unit)
            rows.append((f"`{name}`", value, meaning))
    return table(("constant", "value", "meaning"), rows)


def accuracy_limits() -> str:
    """Return the table of the limits of accuracy of each dtype."""
    path = ROOT / "runner" / ACCURACY
    limits = [constant_of(path, name) for name in ACCURACY_LIMITS]
    return table(
        ("dtype", *ACCURACY_LIMITS.values()),
        ((f"`{dtype}`", *(f"{limit[dtype]:g}" for limit in limits)) for dtype in MEASURED_DTYPES),
    )
