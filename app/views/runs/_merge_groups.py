"""Which metrics belong together on the page of a case. Pure.

A metric that no group names is shown under OTHER, so that a new one is seen before anybody files
it; a test asks for its group.
"""

from __future__ import annotations

from collections.abc import Iterable

from compile_hud.db.records.metrics import METRICS

OTHER = "other"
GROUPS: dict[str, tuple[str, ...]] = {
    "speed": (
        "speedup",
        "sweep_speedup",
        "latency_s",
        "eager_latency_s",
        "latency_cpu_s",
        "eager_latency_cpu_s",
        "throughput_samples_per_s",
        "throughput_tokens_per_s",
        "pace_s",
    ),
    "compilation": (
        "compile_cold_s",
        "compile_cold_cpu_s",
        "compile_dynamo_s",
        "compile_aot_s",
        "compile_inductor_s",
        "compile_backend_s",
        "compile_warm_s",
        "compile_artifacts_s",
        "break_even_calls",
        "break_even_warm_calls",
    ),
    "graphs": (
        "graphs",
        "graph_breaks",
        "recompiles",
        "sweep_recompiles",
        "guards",
        "num_kernels",
    ),
    "memory": (
        "peak_bytes",
        "eager_peak_bytes",
        "compression_ratio",
        "peak_reserved_bytes",
        "cudagraph_pool_bytes",
    ),
    "training step": ("data_s", "forward_s", "backward_s", "optimizer_s"),
    "accuracy": ("cosine_similarity", "max_abs_error", "rmse_ratio"),
    "work": (
        "flops",
        "mfu",
        "compulsory_bytes",
        "num_parameters",
        "bandwidth_bytes_per_s",
        "bandwidth_share",
    ),
    "energy": ("energy_j", "power_w"),
    "counters": (
        "instructions",
        "cycles",
        "cache_misses",
        "page_faults",
    ),
}


def grouped(metrics: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Return the groups that have any of `metrics`, each with those it has, both in their order."""
    present = set(metrics)
    found = [
        (name, [item for item in listed if item in present]) for name, listed in GROUPS.items()
    ]
    listed = {item for _, items in found for item in items}
    known = [name for name in METRICS if name in present and name not in listed]
    found.append((OTHER, known + sorted(present - listed - set(known))))
    return [(name, items) for name, items in found if items]
