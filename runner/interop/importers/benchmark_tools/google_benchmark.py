"""JSON of Google Benchmark (`--benchmark_out`): the benchmarks of one executable.

Repetitions of a benchmark are the samples of one launch. Aggregates are read where a file has
nothing else. The format is that of https://github.com/google/benchmark/blob/main/docs/user_guide.md.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from compile_hud.db.records.json_fields import get_list, get_mapping
from compile_hud.db.records.results import Case
from compile_hud.runner.files.stream_reader import Source
from compile_hud.runner.interop.importers.benchmark_tools.tool_case import tool_case
from compile_hud.runner.interop.importers.benchmark_tools.tool_reader import ToolReader, text_of
from compile_hud.runner.interop.importers.case_evidence import ACCURACY
from compile_hud.runner.interop.importers.history import (
    HistoryRow,
    RowOrigin,
    Settings,
)
from compile_hud.runner.interop.importers.named_counts import (
    unread_field,
    value_name,
)
from compile_hud.runner.interop.importers.record_times import date_s
from compile_hud.runner.interop.importers.vocabulary import (
    NO_NUMBER,
    UNKNOWN,
    ImportedMetric,
    as_number,
    find_metric,
)

TOOL = "google-benchmark"
# Their name -> ours. Rates follow from the time, so they are not judged like it.
METRICS: Mapping[str, str] = {
    "real_time": "latency_s",
    "cpu_time": "latency_cpu_s",
    "items_per_second": "throughput_samples_per_s",
    "bytes_per_second": "bandwidth_bytes_per_s",
    "max_bytes_used": "peak_bytes",
}
_TIMES = ("real_time", "cpu_time")
# Fields of a benchmark that are no metrics; every other one with a number is a counter.
_NO_METRICS = frozenset(
    (
        *("name", "run_name", "run_type", "family_index", "per_family_instance_index", "threads"),
        *("repetitions", "repetition_index", "iterations", "time_unit", "label"),
        *("aggregate_name", "aggregate_unit", "error_occurred", "error_message"),
        *("skipped", "skip_message", "big_o", "rms", "cpu_coefficient", "real_coefficient"),
    )
)
# Facts of the context that are read, or that say nothing about a benchmark.
_CONTEXT = frozenset(
    (
        *("date", "host_name", "executable", "num_cpus", "mhz_per_cpu", "cpu_scaling_enabled"),
        *("aslr_enabled", "caches", "load_avg", "library_version", "library_build_type"),
        "json_schema_version",
    )
)
# Names that people give to their commit and branch with `--benchmark_context`.
_REVISIONS = ("revision", "commit", "git_commit", "commit_id", "sha", "git_sha", "git_hash")
_BRANCHES = ("branch", "git_branch")
# Parts of a name: a number, `name:number`, or the clock. The first of them ends the function.
_ARGUMENT = re.compile(r"-?[\d.]+(e[+-]?\d+)?|[\w ]+:[^/]*|manual_time|real_time|process_time")
# These parts say for how long a benchmark is measured.
_LENGTHS = ("repeats", "iterations", "min_time", "min_warmup_time")
# Versions before 1.5 state an aggregate in the name alone.
_SUFFIX = re.compile(r"(.+)_(mean|median|stddev|cv|BigO|RMS)")
_AGGREGATE = "an aggregate: the repetitions count, or where a file has none their median"


@dataclass(slots=True)
class _Benchmark:
    """The entries of one benchmark: repetitions, and aggregates by name."""

    entries: list[Mapping[str, Any]] = field(default_factory=list)
    aggregates: dict[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(slots=True)
class GoogleBenchmarkReader(ToolReader):
    """Read benchmarks; `skipped` are those without a number, and single values that are none."""

    FIELDS = frozenset(("context", "benchmarks"))

    def document_rows(self, document: Mapping[str, Any], *, source: Source) -> Iterator[HistoryRow]:
        """Yield a row for each metric of a benchmark."""
        del source
        context = get_mapping(document, "context")
        origin = self._origin(context)
        at_s = date_s(context.get("date"), name="date")
        for name, benchmark in _by_name(get_list(document, "benchmarks")).items():
            yield from self._benchmark_rows(name, benchmark, origin=origin, at_s=at_s)

    def _origin(self, context: Mapping[str, Any]) -> RowOrigin:
        for name in sorted(context.keys() - _CONTEXT - {*_REVISIONS, *_BRANCHES}):
            self.unread.add(unread_field(f"context.{name}"), name=text_of(context.get(name)))
        executable = PurePath(text_of(context.get("executable")).replace("\\", "/")).name
        version = text_of(context.get("library_version"))
        return self.origin(
            suite=executable or TOOL,
            branch=_stated(context, _BRANCHES),
            revision=_stated(context, _REVISIONS),
            runner=text_of(context.get("host_name")),
            facts=_facts(context, machine=self.missing_values.machine),
            about={"format": TOOL, **({"version": version} if version else {})},
        )

    def _benchmark_rows(
        self, name: str, benchmark: _Benchmark, *, origin: RowOrigin, at_s: float | None
    ) -> Iterator[HistoryRow]:
        case, settings = _case(name)
        entries = [entry for entry in benchmark.entries if not _failure(entry)]
        failures = [text for entry in benchmark.entries if (text := _failure(entry))]
        entries += self._chosen_aggregate(benchmark, name=name)
        if failures and not entries:
            metric = find_metric(ACCURACY)
            yield HistoryRow(origin=origin, at_s=at_s, case=case, metric=metric, text=failures[0])
            return
        for text in failures:
            self.skipped.add("a repetition that failed", name=f"{name} {text}")
        label = text_of(entries[0].get("label")) if entries else ""
        numbers = self._numbers(entries, name=name)
        # Only fits of complexity stand alone under the name of a family of benchmarks.
        if not numbers and not benchmark.aggregates:
            self.skipped.add("a benchmark without a number", name=name)
        for metric, values in numbers.items():
            yield HistoryRow(
                origin=origin,
                at_s=at_s,
                case=case,
                metric=metric,
                values=self.thinned(values, name=name),
                settings=(*settings, ("label", label)) if label else settings,
            )

    def _chosen_aggregate(self, benchmark: _Benchmark, *, name: str) -> list[Mapping[str, Any]]:
        """Return the median, or else the mean, of repetitions that are not in the file."""
        kinds = [kind for kind in ("median", "mean") if kind in benchmark.aggregates]
        chosen = kinds[:1] if not benchmark.entries else []
        for kind in benchmark.aggregates:
            if kind not in chosen:
                self.unread.add(_AGGREGATE, name=f"{name} {kind}")
        return [benchmark.aggregates[kind] for kind in chosen]

    def _numbers(
        self, entries: Sequence[Mapping[str, Any]], *, name: str
    ) -> dict[ImportedMetric, list[float]]:
        """Return the values of each metric, in the order of the repetitions."""
        numbers: dict[ImportedMetric, list[float]] = defaultdict(list)
        for entry in entries:
            unit = text_of(entry.get("time_unit")) or "ns"
            for key, value in entry.items():
                is_text = isinstance(value, str | bool)
                if key in _NO_METRICS or (is_text and key not in METRICS):
                    continue
                number = as_number(value)
                if number is None:
                    self.skipped.add(NO_NUMBER, name=value_name(f"{name} {key}", value))
                else:
                    numbers[_metric(key, time_unit=unit)].append(number)
        return numbers


def _by_name(entries: Sequence[Any]) -> dict[str, _Benchmark]:
    """Return the benchmarks with their repetitions and aggregates."""
    benchmarks: dict[str, _Benchmark] = defaultdict(_Benchmark)
    for entry in entries:
        full_name = text_of(get_mapping({"benchmark": entry}, "benchmark").get("name"))
        kind = text_of(entry.get("aggregate_name"))
        name = text_of(entry.get("run_name"))
        match = _SUFFIX.fullmatch(full_name)
        if not name and match and "run_type" not in entry:
            name, kind = match[1], match[2]
        benchmark = benchmarks[name or full_name or UNKNOWN]
        if kind:
            benchmark.aggregates.setdefault(kind, entry)
        else:
            benchmark.entries.append(entry)
    return benchmarks


def _case(name: str) -> tuple[Case, Settings]:
    """Return the case of the benchmark `name`, and for how long it was measured."""
    parts = name.split("/")
    numbers = [number for number, part in enumerate(parts) if number and _ARGUMENT.fullmatch(part)]
    first = numbers[0] if numbers else len(parts)
    parameters: dict[str, str] = {}
    settings = []
    for number, part in enumerate(parts[first:]):
        key, _, value = part.rpartition(":")
        if key in _LENGTHS:
            settings.append((key, value))
        else:
            # Arguments without a name differ by their positions.
            parameters[key or " " * number] = value
    case = tool_case("/".join(parts[:first]), tool=TOOL, parameters=parameters)
    return case, tuple(settings)


def _metric(key: str, *, time_unit: str) -> ImportedMetric:
    if key in _TIMES:
        return find_metric(METRICS[key], unit=time_unit)
    return find_metric(METRICS.get(key, key))


def _failure(entry: Mapping[str, Any]) -> str:
    """Return the word and the message of a benchmark that has no number, empty if it has one."""
    if entry.get("error_occurred") is True:
        return f"fail: {text_of(entry.get('error_message')) or 'no message'}"
    if entry.get("skipped") is True:
        return f"skip: {text_of(entry.get('skip_message')) or 'no message'}"
    return ""


def _facts(context: Mapping[str, Any], *, machine: str) -> dict[str, Any]:
    """Return the facts of the environment. A file has no processor's name, but its caches."""
    count = context.get("num_cpus")
    caches = [
        f"L{item.get('level')} {item.get('type')} {item.get('size')}"
        for item in get_list(context, "caches")
        if isinstance(item, dict)
    ]
    flags: dict[str, Any] = {"caches": caches} if caches else {}
    if text_of(context.get("library_build_type")) == "debug":
        flags["library_build_type"] = "debug"
    facts = {
        "device_name": machine if machine != UNKNOWN else "",
        "num_cpus": count if isinstance(count, int) else None,
        "mhz_per_cpu": context.get("mhz_per_cpu"),
        "cpu_scaling_enabled": context.get("cpu_scaling_enabled"),
        "flags": flags,
    }
    return {name: value for name, value in facts.items() if value not in (None, "", {})}


def _stated(context: Mapping[str, Any], names: Sequence[str]) -> str:
    return next((text for name in names if (text := text_of(context.get(name)))), "")
