"""hud compiles: the compilations in logs of TORCH_TRACE."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import click

from compile_hud.db.shared.compilations import GUARDS_TITLE
from compile_hud.db.shared.text import counted
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.output import json_option, print_json, with_workspace
from compile_hud.runner.cli.tables import Column, print_table
from compile_hud.runner.errors import TraceError
from compile_hud.runner.format import quantity
from compile_hud.runner.traces.compile_log import (
    RESULTS,
    SCHEMA_VERSION,
    Compilation,
    CompileLog,
    read_log,
)
from compile_hud.runner.workspace import Workspace

_LOG_COLUMNS = (
    Column(name="rank", is_number=True),
    Column(name="log", is_whole=True),
    *(
        Column(name=name, is_number=True)
        for name in ("compilations", "time", "breaks", "recompiles", "fx cache", "aot cache")
    ),
    Column(name="note", is_prose=True),
)
_COLUMNS = (
    Column(name="id"),
    Column(name="function"),
    *(
        Column(name=name, is_number=True)
        for name in ("time", "backend", "inductor", "backward", "ops", GUARDS_TITLE, "attempts")
    ),
    Column(name="fx cache"),
    Column(name="aot cache"),
    Column(name="location"),
    Column(name="note", is_prose=True),
)
_SPARE = (GUARDS_TITLE, "attempts", "location", "backend")
# More rows than fit on a few screens show nothing at a glance.
_MAX_ROWS = 60
_ENDINGS = (".log", ".log.gz")


@click.command(
    "compiles",
    cls=ExampleCommand,
    examples=(
        "hud compiles /tmp/trace",
        "hud compiles dedicated_log_torch_trace_rank_0.log --json",
    ),
)
@click.argument("logs", metavar="LOG...", nargs=-1, required=True, type=click.Path(path_type=Path))
@json_option
@with_workspace
def compiles(_workspace: Workspace, *, logs: tuple[Path, ...], as_json: bool) -> None:
    """Show compile times and graph breaks of TORCH_TRACE logs.

    Recompiles and cache results are shown as well. LOG is a file that torch wrote to the folder in
    TORCH_TRACE, or that folder, with a log for each rank. Of several logs the one with the longest
    time is shown in full.
    """
    read = [read_log(path) for path in _files(logs)]
    read.sort(key=lambda log: (log.rank is None, log.rank or 0, str(log.path)))
    if as_json:
        print_json({"schema_version": SCHEMA_VERSION, "logs": [log.to_json() for log in read]})
        return
    if len(read) > 1:
        print_table(_LOG_COLUMNS, rows=[_log_cells(log) for log in read], spare=("log",))
        _print_differences(read)
        echo()
    _print_log(max(read, key=lambda log: log.total_s))


def _files(paths: Iterable[Path]) -> list[Path]:
    """Return the logs at `paths`; raise TraceError for a folder without one."""
    files: list[Path] = []
    for path in paths:
        here = [path]
        if path.is_dir():
            here = sorted(item for item in path.iterdir() if item.name.endswith(_ENDINGS))
        if not here:
            raise TraceError(
                f"there is no log in the folder {path}: set TORCH_TRACE={path} where the program"
                " runs",
                path=path,
            )
        files += here
    return files


def _print_differences(logs: Sequence[CompileLog]) -> None:
    counts = Counter(len(log.compilations) for log in logs)
    if len(counts) > 1:
        numbers = ", ".join(map(str, sorted(counts)))
        echo(f"the logs have different numbers of compilations: {numbers}")


def _print_log(log: CompileLog) -> None:
    rank = "" if log.rank is None else f", rank {log.rank}"
    version = f", torch {log.torch_version}" if log.torch_version else ""
    echo(f"{log.path}{rank}{version}")
    num = counted(len(log.compilations), "compilation")
    echo(
        f"{num} in {quantity(log.total_s, unit='s')};"
        f" {counted(len(log.graph_breaks), 'graph break')},"
        f" {counted(_num_recompiles(log), 'recompile')};"
        f" FX graph cache: {_results(log.cache_results('fx_cache'))};"
        f" AOTAutograd cache: {_results(log.cache_results('aot_cache'))}"
    )
    if note := _note(log):
        echo(note)
    if log.compilations:
        echo()
        shown = _longest(log.compilations)
        print_table(_COLUMNS, rows=[_cells(item) for item in shown], spare=_SPARE)
        if num_more := len(log.compilations) - len(shown):
            echo(f"{num_more} more, each shorter than these; --json has all")
    _print_reasons(log)


def _longest(compilations: Sequence[Compilation]) -> list[Compilation]:
    """Return the compilations with the longest times, and those without an end, in their order."""
    by_time = sorted(compilations, key=lambda item: (item.is_finished, -item.total_s))
    shown = set(map(id, by_time[:_MAX_ROWS]))
    return [item for item in compilations if id(item) in shown]


def _print_reasons(log: CompileLog) -> None:
    breaks: dict[tuple[str, str], list[str]] = {}
    for graph_break in log.graph_breaks:
        key = (graph_break.location, graph_break.reason)
        breaks.setdefault(key, []).append(graph_break.compile_id)
    if breaks:
        echo("\ngraph breaks")
    for (location, reason), ids in breaks.items():
        at = f"{location}: " if location else ""
        echo(f"  {at}{reason} ({', '.join(dict.fromkeys(ids))})")
    if log.recompiles:
        echo("\nrecompiles")
    for recompile in log.recompiles:
        echo(f"  {recompile.compile_id}: {recompile.reason}")
    for item in log.compilations:
        for reason in dict.fromkeys(item.bypass_reasons):
            echo(f"cache bypassed by {item.compile_id}: {reason}")


def _num_recompiles(log: CompileLog) -> int:
    return sum(item.is_recompile for item in log.compilations)


def _note(log: CompileLog) -> str:
    notes = []
    if log.is_cut:
        notes.append("the log is cut off in its last entry")
    if log.num_unfinished:
        notes.append(f"{counted(log.num_unfinished, 'compilation')} without an end in the log")
    if log.num_broken:
        notes.append(f"{counted(log.num_broken, 'line')} not read: broken JSON")
    return "; ".join(notes)


def _log_cells(log: CompileLog) -> list[str]:
    return [
        "-" if log.rank is None else str(log.rank),
        log.path.name,
        str(len(log.compilations)),
        quantity(log.total_s, unit="s"),
        str(len(log.graph_breaks)),
        str(_num_recompiles(log)),
        _results(log.cache_results("fx_cache")),
        _results(log.cache_results("aot_cache")),
        _note(log),
    ]


def _cells(item: Compilation) -> list[str]:
    note = item.failure or ("" if item.is_finished else "no end in the log")
    return [
        item.compile_id,
        item.function,
        *(
            quantity(value, unit="s")
            for value in (item.duration_s, item.backend_s, item.inductor_s, item.backward_s)
        ),
        *("-" if count is None else str(count) for count in (item.num_ops, item.num_guards)),
        str(item.num_attempts),
        _results(item.fx_cache),
        _results(item.aot_cache),
        item.location,
        note,
    ]


def _results(counts: Counter[str]) -> str:
    """Return the results of a cache, such as `2 hit, 1 miss`."""
    shown = [f"{counts[name]} {name}" for name in RESULTS if counts[name]]
    return ", ".join(shown) or "-"
