"""The measurements of one case result as a table, group by group. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from compile_hud.app.ui.format import quantity, scale_for
from compile_hud.app.ui.html import Cell, HtmlColumn, Note, interval_cell, table
from compile_hud.app.ui.urls import run_url, series_url
from compile_hud.db.records.metrics import (
    CACHE_EVENTS,
    CACHES,
    COMPILE_CACHES,
    METRICS,
    cache_metric,
    metric_label,
    speedup_latencies,
)
from compile_hud.db.records.results import Run
from compile_hud.db.records.summaries import MeasurementSummary, ResultSummary
from compile_hud.db.shared.text import own_eager_text

_COLUMNS = (
    HtmlColumn(label=""),
    HtmlColumn(label="metric"),
    HtmlColumn(label="median", is_number=True),
    HtmlColumn(label="95 % interval", is_number=True),
    HtmlColumn(label="samples", title="a click shows them, launch by launch", is_number=True),
    HtmlColumn(label="how"),
)
# These parts of a result's details have the reasons why something was not measured.
_MISSING = "missing"
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
        "first_token_s",
        "token_p50_s",
        "token_p99_s",
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
        "compile_instructions",
        "compile_peak_host_bytes",
        "compile_peak_compilers_bytes",
        "compile_peak_device_bytes",
        "break_even_calls",
        "break_even_warm_calls",
    ),
    "graphs": (
        "graphs",
        "graph_breaks",
        "recompiles",
        "sweep_recompiles",
        "guards",
        "guard_s",
        "num_kernels",
        "kernel_s",
    ),
    "memory": (
        "peak_bytes",
        "eager_peak_bytes",
        "compression_ratio",
        "peak_reserved_bytes",
        "cudagraph_pool_bytes",
    ),
    "compile caches": tuple(
        cache_metric(cache, state=state, event=event)
        for cache in COMPILE_CACHES
        for state in CACHES
        for event in CACHE_EVENTS
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


def measurement_table(result: ResultSummary, *, run: Run, own_eager_s: float | None = None) -> str:
    """Return every measurement with its interval, a link to its series and one to its samples.

    `own_eager_s` is the time of eager's own process, if that of this case differs.
    """
    rows = []
    for name, metrics in grouped(result.measurements):
        for index, metric in enumerate(metrics):
            group = Cell(text=name if index == 0 else "", style="quiet")
            cells = _cells(result.measurements[metric], result=result, run=run)
            if own_eager_s is not None and metric == _eager_latency(result):
                own = Note(text=own_eager_text(quantity(own_eager_s, "s")))
                cells = (*cells[:-1], dataclasses.replace(cells[-1], notes=(own,)))
            rows.append((group, *cells))
    return table(_COLUMNS, rows, label="measurements")


def _eager_latency(result: ResultSummary) -> str:
    """Return the latency of eager on the clock of the speedup."""
    speedup = result.measurements.get("speedup")
    return speedup_latencies([] if speedup is None else [speedup.method])[0]


def in_groups(result: ResultSummary, names: Collection[str]) -> ResultSummary:
    """Return `result` with the measurements of these groups."""
    metrics = {metric for name in names for metric in GROUPS[name]}
    measured = {name: item for name, item in result.measurements.items() if name in metrics}
    return dataclasses.replace(result, measurements=measured)


def missing_reasons(details: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the metrics that were not measured, by the reason that the launches gave."""
    names_by_reason: dict[str, list[str]] = {}
    for name, value in details.items():
        for part in value if isinstance(value, list) else [value]:
            reasons = part.get(_MISSING) if isinstance(part, dict) else None
            if isinstance(reasons, dict):
                for metric, reason in reasons.items():
                    _add(names_by_reason, str(reason), metric_label(str(metric)))
            elif reasons:
                _add(names_by_reason, str(reasons), name)
    return [(", ".join(names), reason) for reason, names in names_by_reason.items()]


def missing_table(details: Mapping[str, Any]) -> str:
    """Return the missing metrics with their reasons as a table; "" without any."""
    reasons = missing_reasons(details)
    columns = (HtmlColumn(label="not measured"), HtmlColumn(label="because"))
    rows = [
        (Cell(text=names, style="prose"), Cell(text=reason, style="prose"))
        for names, reason in reasons
    ]
    return table(columns, rows, label="what is missing") if rows else ""


def _add(names_by_reason: dict[str, list[str]], reason: str, name: str) -> None:
    names = names_by_reason.setdefault(reason, [])
    if name not in names:
        names.append(name)


def _cells(item: MeasurementSummary, *, result: ResultSummary, run: Run) -> Sequence[Cell]:
    scale = scale_for(item.unit, [item.median])
    series = series_url(
        result.case.key,
        metric=item.metric,
        machine=run.machine,
        toolchain=run.toolchain,
        result=result.id,
    )
    known = METRICS.get(item.metric)
    return (
        Cell(
            text=metric_label(item.metric),
            href=series,
            title=f"{item.metric}: {known.description if known else 'not in the metric table'}",
        ),
        Cell(text=scale.text(item.median)),
        interval_cell(item.low, item.high, scale=scale, num_samples=item.num_samples),
        Cell(
            text=str(item.num_samples),
            href=run_url(run.id, case_key=result.case.key, samples=item.metric),
        ),
        Cell(text=item.method, style="prose quiet"),
    )


def grouped(metrics: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Return the groups that have any of `metrics`, each with its metrics, both in their order."""
    present = set(metrics)
    groups = [
        (name, [item for item in listed if item in present]) for name, listed in GROUPS.items()
    ]
    listed = {item for _, items in groups for item in items}
    known = [name for name in METRICS if name in present and name not in listed]
    groups.append((OTHER, known + sorted(present - listed - set(known))))
    return [(name, items) for name, items in groups if items]
