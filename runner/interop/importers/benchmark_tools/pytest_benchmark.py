"""JSON of pytest-benchmark: the benchmarks of one test session with their rounds.

`--benchmark-json` writes all rounds, `--benchmark-save` only with `--benchmark-save-data`. A
benchmark that failed is in no file. The format is that of
https://pytest-benchmark.readthedocs.io/en/latest/.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from compile_hud.db.records.json_fields import get_list, get_mapping
from compile_hud.db.records.results import Case
from compile_hud.runner.files.stream_reader import Source
from compile_hud.runner.interop.importers.benchmark_tools.tool_case import (
    parameter_texts,
    tool_case,
)
from compile_hud.runner.interop.importers.benchmark_tools.tool_reader import ToolReader, text_of
from compile_hud.runner.interop.importers.history import (
    HistoryRow,
    RowOrigin,
    Settings,
)
from compile_hud.runner.interop.importers.named_counts import (
    unread_field,
)
from compile_hud.runner.interop.importers.record_times import date_s
from compile_hud.runner.interop.importers.vocabulary import (
    as_number,
    find_metric,
)

TOOL = "pytest-benchmark"
LATENCY = "latency_s"
# Without a repository, or with one that git cannot read.
_NO_COMMIT = ("", "unversioned", "unknown")
_NO_BRANCH = ("", "(unknown)", "(detached head)", "HEAD")
_BENCHMARK_FIELDS = frozenset(
    ("group", "name", "fullname", "params", "param", "extra_info", "options", "stats")
)
_WITHOUT_ROUNDS = (
    "a benchmark without its rounds: their median is its value"
    " (--benchmark-save-data or --benchmark-json keeps them)"
)


@dataclass(slots=True)
class PytestBenchmarkReader(ToolReader):
    """Read benchmarks; `skipped` are those without a number, and single values that are none."""

    FIELDS = frozenset(("machine_info", "commit_info", "benchmarks", "datetime", "version"))

    def document_rows(self, document: Mapping[str, Any], *, source: Source) -> Iterator[HistoryRow]:
        """Yield a row for each metric of a benchmark of a session."""
        del source
        origin = self._origin(document)
        at_s = date_s(document.get("datetime"), name="datetime")
        for benchmark in get_list(document, "benchmarks"):
            yield from self._benchmark_rows(benchmark, origin=origin, at_s=at_s)

    def _origin(self, session: Mapping[str, Any]) -> RowOrigin:
        machine, commit = (get_mapping(session, name) for name in ("machine_info", "commit_info"))
        revision, branch = text_of(commit.get("id")), text_of(commit.get("branch"))
        if revision in _NO_COMMIT:
            revision = ""
        elif commit.get("dirty") is True:
            revision += "+dirty"
        project = text_of(commit.get("project"))
        parts = (project, "" if branch in _NO_BRANCH else branch)
        about = {
            "format": TOOL,
            "version": text_of(session.get("version")),
            "commit_time": text_of(commit.get("time")),
        }
        return self.origin(
            suite=project or TOOL,
            branch="@".join(filter(None, parts)),
            revision=revision,
            runner=text_of(machine.get("node")),
            facts=_facts(machine),
            about={name: text for name, text in about.items() if text},
        )

    def _benchmark_rows(
        self, benchmark: Any, *, origin: RowOrigin, at_s: float | None
    ) -> Iterator[HistoryRow]:
        case = _case(benchmark)
        for name in sorted(benchmark.keys() - _BENCHMARK_FIELDS):
            self.unread.add(unread_field(name), name=case.model)
        numbers = dict(self._extra_numbers(benchmark))
        settings = _settings(benchmark)
        values = self._latencies(benchmark, name=case.model)
        if values:
            numbers = {LATENCY: values, **numbers}
        if not numbers:
            self.skipped.add("a benchmark without a number", name=case.model)
        for metric, samples in numbers.items():
            yield HistoryRow(
                origin=origin,
                at_s=at_s,
                case=case,
                metric=find_metric(metric, device=case.device),
                values=samples,
                settings=settings,
            )

    def _latencies(self, benchmark: Mapping[str, Any], *, name: str) -> tuple[float, ...]:
        """Return the seconds of each round, else their median."""
        stats = get_mapping(benchmark, "stats")
        rounds = get_list(stats, "data")
        if not rounds:
            median = as_number(stats.get("median"))
            if median is not None:
                self.unread.add(_WITHOUT_ROUNDS, name=name)
            return () if median is None else (median,)
        return self.samples(rounds, name=name)

    def _extra_numbers(
        self, benchmark: Mapping[str, Any]
    ) -> Iterator[tuple[str, tuple[float, ...]]]:
        """Yield the numbers that a test attached to its benchmark, by their names."""
        for name, value in get_mapping(benchmark, "extra_info").items():
            number = as_number(value)
            if number is not None and name.strip():
                yield name.strip(), (number,)


def _facts(machine: Mapping[str, Any]) -> dict[str, Any]:
    """Return the facts of the environment, by our names."""
    cpu = get_mapping(machine, "cpu")
    python = text_of(machine.get("python_version"))
    implementation = text_of(machine.get("python_implementation"))
    facts: dict[str, Any] = {
        "cpu_model": text_of(cpu.get("brand_raw")) or text_of(machine.get("processor")),
        "num_cpus": cpu.get("count") if isinstance(cpu.get("count"), int) else None,
        "python_minor": ".".join(python.split(".")[:2]),
        "platform": " ".join(
            filter(None, (text_of(machine.get(key)) for key in ("system", "machine")))
        ),
    }
    if implementation not in ("", "CPython"):
        facts["flags"] = {"python_implementation": implementation}
    return {name: value for name, value in facts.items() if value}


def _case(benchmark: Any) -> Case:
    name = text_of(get_mapping({"benchmark": benchmark}, "benchmark").get("fullname"))
    name = name or text_of(benchmark.get("name"))
    param = text_of(benchmark.get("param"))
    parameters = benchmark.get("params")
    is_plain = isinstance(parameters, dict) and not any(
        isinstance(value, dict | list) for value in parameters.values()
    )
    if param:
        name = name.removesuffix(f"[{param}]")
    # pytest's id of a parametrised test is short where the parameters themselves are objects.
    texts = parameter_texts(parameters) if is_plain and parameters else {"": param} if param else {}
    return tool_case(name, tool=TOOL, parameters=texts)


def _settings(benchmark: Mapping[str, Any]) -> Settings:
    """Return the texts of a benchmark that are no part of its case."""
    extra = get_mapping(benchmark, "extra_info").items()
    texts = {f"extra_info.{name}": value for name, value in extra if isinstance(value, str)}
    timer = get_mapping(benchmark, "options").get("timer")
    return tuple(
        (name, text_of(value)) for name, value in {**texts, "timer": timer}.items() if value
    )
