"""The tables of `hud show`: findings, compile time, graph breaks, other shapes of a case."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from compile_hud.db.records.findings import Finding
from compile_hud.db.records.memory.peak import memory_peak_of
from compile_hud.db.records.metrics import CACHE_EVENTS
from compile_hud.db.records.results import CaseResult, RunDocument
from compile_hud.db.shared.compilations import (
    GUARDS_TITLE,
    PHASE_TITLES,
    compilations_of,
    phases_in,
)
from compile_hud.db.shared.compile_caches import cache_lookups
from compile_hud.db.shared.text import counted, first_line
from compile_hud.runner.analysis.stats.estimates import estimate
from compile_hud.runner.analysis.stats.rounds import speedups
from compile_hud.runner.cli.tables import Column, print_table, stdout
from compile_hud.runner.format import metric, mode_text, quantity

# More than these of a result are in `--json` and on its page.
MAX_LOCATIONS = 5
_COLUMNS = (
    ("cold", "compile_cold_s"),
    ("dynamo", "compile_dynamo_s"),
    ("aot", "compile_aot_s"),
    ("inductor", "compile_inductor_s"),
    ("triton or C++", "compile_backend_s"),
    ("warm", "compile_warm_s"),
    ("artifacts", "compile_artifacts_s"),
    ("break-even", "break_even_calls"),
    ("guard checks", "guards"),
    ("guard time", "guard_s"),
)
_SPARE = ("guard checks", "guard time", "artifacts", "aot", "dynamo", "inductor", "triton or C++")
_FINDING_COLUMNS = (
    Column(name="finding", is_whole=True),
    Column(name="cost", is_number=True),
    *(Column(name=name, is_prose=True) for name in ("reason", "where", "remedy")),
)
_MEMORY_COLUMNS = (
    *(Column(name=name, is_number=True) for name in ("memory", "share", "allocations")),
    *(Column(name=name) for name in ("holder", "module", "line")),
)
# A model that recompiles often has more; the longest say most.
MAX_COMPILATIONS = 12
_LOCATION_LISTS = (("graph_breaks", "graph break"), ("recompiles", "recompile"))


def print_compile(document: RunDocument) -> None:
    """Print a row for each result that was compiled, then graph breaks and recompiles."""
    compiled = [result for result in document.results if result.measurement("graphs") is not None]
    if not compiled:
        return
    console = stdout()
    console.print("\ncompile", markup=False)
    names = ("model", "mode", "phase", "shape", "dtype")
    rows = [
        (
            result.case.model,
            mode_text(result),
            str(result.case.phase),
            result.case.shape,
            str(result.case.dtype),
            *(metric(result, name) for _, name in _COLUMNS),
        )
        for result in compiled
    ]
    axes = ("phase", "shape", "dtype")
    # An axis that all rows share says least on a narrow terminal.
    same = [name for name in axes if len({row[names.index(name)] for row in rows}) == 1]
    columns = [
        *(Column(name=name, is_whole=name == "mode") for name in names),
        *(Column(name=title, is_number=True) for title, _ in _COLUMNS),
    ]
    print_table(columns, rows=rows, spare=(*same, *_SPARE, *axes), console=console)
    for result in compiled:
        for line in location_lines(result):
            console.print(line, markup=False, soft_wrap=True)


def location_lines(result: CaseResult) -> Iterator[str]:
    """Yield a line for each graph break and recompile of `result`, with its line and reason."""
    for name, title in _LOCATION_LISTS:
        locations = result.details.get(name) or []
        for location in locations[:MAX_LOCATIONS]:
            reason = first_line(str(location["reason"]))
            yield f"{result.case.key}: {title}{_at(location)}: {reason}"
        if len(locations) > MAX_LOCATIONS:
            num_more = len(locations) - MAX_LOCATIONS
            yield f"{result.case.key}: {num_more} more of these; see `hud show RUN --json`"


def _at(location: Mapping[str, Any]) -> str:
    if location.get("file") is None:
        return ""
    return f" at {Path(location['file']).name}:{location['line']} in {location['function']}"


def print_findings(findings: Sequence[Finding]) -> None:
    """Print a row for each finding of a case; nothing without any."""
    if not findings:
        return
    console = stdout()
    console.print("\nfindings", markup=False)
    rows = [
        (
            item.code,
            item.missing_cost_text if item.cost_s is None else quantity(item.cost_s, unit="s"),
            item.text,
            item.where.text or "-",
            item.remedy,
        )
        for item in findings
    ]
    print_table(_FINDING_COLUMNS, rows=rows, console=console)


def findings_summary(findings: Iterable[Sequence[Finding]]) -> str:
    """Return the findings of a run by code, the most expensive first; `none` without any.

    Each code has the number of its cases and the largest cost of one iteration.
    """
    by_code: dict[str, list[float]] = {}
    cases = [case for case in findings if case]
    for finding in (item for case in cases for item in case):
        by_code.setdefault(finding.code, []).append(finding.cost_s or 0.0)
    if not by_code:
        return "none"
    ranked = sorted(by_code.items(), key=lambda item: (-max(item[1]), item[0]))
    texts = [
        f"{code} ({len(costs)}{f', {_most(costs)}' if max(costs) else ''})"
        for code, costs in ranked
    ]
    number = sum(map(len, by_code.values()))
    return f"{number} in {counted(len(cases), 'case')}: {', '.join(texts)}"


def _most(costs_s: Sequence[float]) -> str:
    longest = quantity(max(costs_s), unit="s")
    return longest if len(costs_s) == 1 else f"up to {longest}"


def print_compilations(result: CaseResult) -> None:
    """Print the phases of each compilation of the first launch; nothing without any."""
    compilations = compilations_of(result.details)
    if not compilations:
        return
    phases = phases_in(compilations)
    console = stdout()
    console.print("\ncompilations of the first launch", markup=False)
    columns = (
        Column(name="id", is_whole=True),
        *(Column(name=PHASE_TITLES.get(name, name), is_number=True) for name in phases),
        Column(name="total", is_number=True),
        Column(name="ops", is_number=True),
        Column(name=GUARDS_TITLE, is_number=True),
        Column(name="function"),
        Column(name="because", is_prose=True),
    )
    longest = sorted(compilations, key=lambda item: -item.total_s)[:MAX_COMPILATIONS]
    rows = [
        (
            item.title,
            *(_seconds(item.phases_s.get(name)) for name in phases),
            _seconds(item.total_s),
            _number(item.num_ops),
            _number(item.num_guards),
            item.location or "-",
            first_line(item.reason) if item.reason else "-",
        )
        for item in compilations
        if item in longest
    ]
    print_table(columns, rows=rows, spare=(GUARDS_TITLE, "ops"), console=console)
    if len(compilations) > len(rows):
        num_more = len(compilations) - len(rows)
        console.print(f"{num_more} shorter ones; see `hud show RUN --json`", markup=False)


def print_compiler_log(result: CaseResult) -> None:
    """Print the command that shows the stored log of the compiler, and the path of its report."""
    paths = result.details.get("compile_trace")
    if not isinstance(paths, Mapping):
        return
    lines = [f"\nlog of the compiler: hud compiles {paths['folder']}"]
    if report := paths.get("tlparse"):
        lines.append(f"report of tlparse: {report}")
    console = stdout()
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


def _seconds(time_s: float | None) -> str:
    return "-" if time_s is None else quantity(time_s, unit="s")


def _number(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"


def print_caches(result: CaseResult) -> None:
    """Print the look-ups of each launch in the compile caches, and the reasons of misses."""
    lookups = cache_lookups(result.details)
    if not lookups:
        return
    console = stdout()
    console.print("\ncompile caches", markup=False)
    columns = (
        Column(name="launch", is_whole=True),
        Column(name="cache", is_whole=True),
        *(Column(name=name, is_number=True) for name in CACHE_EVENTS),
        Column(name="reason", is_prose=True),
    )
    rows = [
        (
            f"{item.launch} {item.state}",
            item.title,
            str(item.num_hits),
            str(item.num_misses),
            str(item.num_bypasses),
            item.reasons_text or "-",
        )
        for item in lookups
    ]
    print_table(columns, rows=rows, console=console)


def print_memory(result: CaseResult) -> None:
    """Print a row for each holder of memory at the peak; nothing without any."""
    peak = memory_peak_of(result.details)
    if peak is None:
        return
    console = stdout()
    console.print(f"\nmemory at the peak: {quantity(peak.num_bytes, unit='B')}", markup=False)
    rows = [
        (
            quantity(item.num_bytes, unit="B"),
            f"{100 * peak.share(item):.1f} %",
            f"{item.count:,}" if item.is_counted else "-",
            item.label,
            item.module or "-",
            item.short_line or "-",
        )
        for item in peak.holders
    ]
    print_table(_MEMORY_COLUMNS, rows=rows, spare=("allocations",), console=console)


def print_sweep(result: CaseResult) -> None:
    """Print a row for each shape that went through the compiled model; nothing without any."""
    swept = result.details.get("shapes") or {}
    if not swept.get("rows"):
        return
    console = stdout()
    console.print("\nother shapes", markup=False)
    columns = (
        Column(name=swept["axis"], is_number=True),
        *(Column(name=name, is_number=True) for name in ("eager", result.case.variant, "speedup")),
        Column(name="compiled again", is_whole=True),
        Column(name="guard that failed", is_prose=True),
        Column(name="result", is_prose=True),
    )
    print_table(columns, rows=[sweep_row(row) for row in swept["rows"]], console=console)


def sweep_row(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of one shape."""
    again = "-"
    if row["num_recompiles"]:
        again = f"{row['num_recompiles']}: {quantity(row['compile_s'], unit='s')}"
    return (
        str(row["value"]),
        _median(row["eager_s"], unit="s"),
        _median(row["variant_s"], unit="s"),
        _median(speedups(row), unit="x"),
        again,
        "; ".join(recompile["reason"] for recompile in row["recompiles"]) or "-",
        f"inaccurate: {row['reason']}" if row["reason"] else "right",
    )


def _median(samples: Sequence[float], *, unit: str) -> str:
    return quantity(estimate(samples).value, unit=unit)
