"""hud kernels: where the time of an iteration goes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path

import click
from rich.console import Console

from compile_hud.db.errors import NotFoundError
from compile_hud.db.queries.results import load_result
from compile_hud.db.records.kernel_counters import SHARES, counted, counter_names
from compile_hud.db.records.kernels import (
    Kernel,
    KernelSource,
    Profile,
    profile_of,
    with_latency_shares,
)
from compile_hud.db.records.results import CaseResult, Run
from compile_hud.db.shared import text
from compile_hud.db.shared.text import one_line
from compile_hud.db.store import Store
from compile_hud.runner.analysis.kernels.standalone_script import script_of, title_of
from compile_hud.runner.cli.compare.command import find_document
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.kernels.counter_files import (
    CounterReport,
    import_counters,
    names_text,
    print_report,
)
from compile_hud.runner.cli.kernels.trace_files import (
    check_file_name,
    device_of,
    is_result_file,
    read_trace,
)
from compile_hud.runner.cli.output import json_option, print_json, with_workspace
from compile_hud.runner.cli.results.case_text import warning_text
from compile_hud.runner.cli.tables import Column, print_table, stdout
from compile_hud.runner.documents.cases import case_glob, find_case
from compile_hud.runner.documents.kernels import (
    kernel_json,
    kernels_json,
    longest_first,
    no_kernels_text,
    profile_json,
)
from compile_hud.runner.format import quantity
from compile_hud.runner.workspace import Workspace

_COLUMNS = (
    Column(name="kernel"),
    Column(name="kind"),
    Column(name="library"),
    *(
        Column(name=name, is_number=True)
        for name in ("calls", "time", "share", "GB/s", "TFLOP/s", "roofline")
    ),
    Column(name="operators", is_prose=True),
    Column(name="shapes", is_prose=True),
)
# A narrow terminal omits these columns, the first one first.
_SPARE = ("shapes", "roofline", "TFLOP/s", "GB/s", "operators", "library")
_PART_COLUMNS = (
    Column(name="part"),
    Column(name="time", is_number=True),
    Column(name="share", is_number=True),
)


@click.command(
    "show",
    cls=ExampleCommand,
    examples=(
        "hud kernels latest bert",
        "hud kernels trace.json.gz",
        "hud kernels show latest bert --source 'triton_*'",
    ),
)
@click.argument("run_name", metavar="RUN")
@click.argument("case_name", metavar="[CASE]", required=False)
@click.option("--source", "kernel_name", metavar="KERNEL", help="Print the code of KERNEL instead.")
@click.option(
    "--repro",
    "repro_name",
    metavar="KERNEL",
    help="Print a script that runs and times KERNEL alone instead.",
)
@json_option
@with_workspace
def show_kernels(
    workspace: Workspace,
    *,
    run_name: str,
    case_name: str | None,
    kernel_name: str | None,
    repro_name: str | None,
    as_json: bool,
) -> None:
    """Show the kernels of a case or a trace, the longest first.

    A breakdown of the time follows. RUN is an id, the start of one, `latest`, a result file or a
    revision; CASE is a case's key, a part of it, or a glob; KERNEL is the name of a kernel, a part
    of it, or a glob. A Chrome trace of torch.profiler has no CASE.
    """
    if kernel_name is not None and repro_name is not None:
        raise click.UsageError("--source and --repro print one thing each; give one of them")
    path = Path(run_name)
    if path.is_file() and not is_result_file(path):
        if repro_name is not None:
            raise click.UsageError(f"--repro needs the inputs of a result; {run_name} is a trace")
        if case_name is not None:
            raise click.UsageError(
                f"{run_name} is a trace, which has only one case: leave out {case_name}"
            )
        _show_trace(path, kernel_name=kernel_name, as_json=as_json)
        return
    check_file_name(run_name)
    if case_name is None:
        raise click.UsageError(
            f"Missing argument 'CASE': {run_name} is no trace, so name one of its cases"
        )
    run, result = find_kernels(run_name, case_name, store=workspace.store())
    if repro_name is not None:
        script = find_script(result, repro_name, run=run)
        if as_json:
            print_json({"script": script})
        else:
            echo(script, nl=False)
        return
    if kernel_name is not None:
        _print_source(find_source(result, kernel_name), as_json=as_json)
        return
    if as_json:
        print_json(kernels_json(run, result))
    else:
        _print_kernels(run, result, trace=workspace.traces().find(result.id))


def _show_trace(path: Path, *, kernel_name: str | None, as_json: bool) -> None:
    """Print the kernels of a trace without a result, or the code of one of them."""
    report = read_trace(path)
    if kernel_name is not None:
        source = _find_source(report.kernels, report.sources, kernel_name, title=str(path))
        _print_source(source, as_json=as_json)
        return
    kernels = longest_first(report.kernels)
    if as_json:
        print_json(
            {
                "trace": str(path),
                "device": device_of(report) or None,
                "profile": profile_json(report.profile),
                "kernels": [kernel_json(kernel) for kernel in kernels],
            }
        )
        return
    device = device_of(report)
    facts = [
        ("trace", str(path)),
        *([("gpu", device)] if report.devices else []),
        *_facts(kernels, report.profile),
    ]
    _print_table(kernels, report.profile, facts=facts)


def _print_source(source: KernelSource, *, as_json: bool) -> None:
    if as_json:
        print_json(source.to_json())
    else:
        echo(source.text)


def find_kernels(run_name: str, case_name: str, *, store: Store) -> tuple[Run, CaseResult]:
    """Return a run and the result of one of its cases with its kernels; raise NotFoundError."""
    document = find_document(run_name, store=store)
    result = find_case(document.results, case_name, run=document.run.id)
    if not Path(run_name).is_file():
        result = load_result(store, result.id)
    if not result.kernels:
        raise NotFoundError(no_kernels_text(result, run=document.run))
    return document.run, result


def find_source(result: CaseResult, name: str) -> KernelSource:
    """Return the code of the kernel of `result` that `name` stands for; raise NotFoundError."""
    return _find_source(result.kernels, result.sources, name, title=result.case.key)


def _find_source(
    all_kernels: Sequence[Kernel], all_sources: Sequence[KernelSource], name: str, *, title: str
) -> KernelSource:
    kernels = [kernel for kernel in all_kernels if name in (kernel.name, kernel.label)]
    pattern = case_glob(name)
    kernels = kernels or [item for item in all_kernels if fnmatchcase(item.name, pattern)]
    if not kernels:
        has = _names(all_kernels)
        raise NotFoundError(
            f"{title} runs no kernel {name!r}. It runs {has}",
            case=title,
            name=name,
        )
    generated = {item.source_hash: item for item in kernels if item.source_hash}
    if not generated:
        libraries = ", ".join(sorted({item.library for item in kernels}))
        raise NotFoundError(
            f"{_names(kernels)} is a library kernel ({libraries}): only kernels that torch.compile"
            " generated have a source"
        )
    if len(generated) > 1:
        raise NotFoundError(
            f"more than one code fits {name!r}: {_names([*generated.values()])}. Name one whole",
            name=name,
        )
    sources = {source.hash: source for source in all_sources}
    (source_hash,) = generated
    if source_hash not in sources:
        raise NotFoundError(f"the code of {_names(kernels)} did not come with the result")
    return sources[source_hash]


def find_script(result: CaseResult, name: str, *, run: Run) -> str:
    """Return a script that runs one kernel alone; raise NotFoundError or NoKernelScript."""
    source = find_source(result, name)
    same = [kernel for kernel in result.kernels if kernel.source_hash == source.hash]
    # One code may have several names; a complete name is exact.
    kernel = next((item for item in same if item.name == name), same[0])
    return script_of(kernel, source, title=title_of(kernel, run=run, case=result.case))


def _names(kernels: Sequence[Kernel]) -> str:
    return names_text([kernel.name for kernel in kernels])


def _print_kernels(run: Run, result: CaseResult, *, trace: Path | None) -> None:
    profile = profile_of(result.details)
    kernels = with_latency_shares(longest_first(result.kernels), profile)
    facts = [
        ("case", result.case.key),
        ("run", f"{run.id}, {run.started_at:%Y-%m-%d %H:%M} UTC, {run.revision}"),
        *_facts(kernels, profile),
        *([] if profile is None else [("trace", "not kept" if trace is None else str(trace))]),
        *(("warning", warning_text(warning)) for warning in result.warnings),
    ]
    _print_table(kernels, profile, facts=facts)


def _print_table(
    kernels: Sequence[Kernel], profile: Profile | None, *, facts: Sequence[tuple[str, str]]
) -> None:
    """Print the facts, a line for each kernel, and the parts of an iteration."""
    console = stdout()
    for name, value in facts:
        console.print(f"{name:10} {value}", markup=False, soft_wrap=True)
    console.print()
    shares = [name for name in counter_names(kernels) if name in SHARES]
    print_table(
        [*_COLUMNS, *(Column(name=SHARES[name], is_number=True) for name in shares)],
        rows=[(*_row(kernel), *(_counter(kernel, name) for name in shares)) for kernel in kernels],
        spare=_SPARE,
        console=console,
    )
    if profile is not None:
        _print_parts(profile, console=console)


def _facts(kernels: Sequence[Kernel], profile: Profile | None) -> list[tuple[str, str]]:
    # The remaining time of operators outside of kernels has rows, but is no kernel.
    counts = [kernel.count for kernel in kernels if not kernel.is_dispatch]
    facts = [("kernels", f"{len(counts)}, {text.plain(sum(counts))} calls an iteration")]
    if profile is None:
        return facts
    facts.append(("profiled", text.counted(profile.num_iterations, "iteration")))
    if profile.busy is not None:
        facts.append(("device", _device_text(profile)))
    if profile.overlap_s:
        facts.append(
            ("overlap", f"{quantity(profile.overlap_s, unit='s')} parallel to other kernels")
        )
    return facts


def _device_text(profile: Profile) -> str:
    replay = "replayed as a CUDA graph" if profile.is_graph_replay else "launched one by one"
    busy = quantity(profile.busy_without_profiler, unit="share")
    recorded = quantity(profile.busy, unit="share")
    under = f" ({recorded} under the profiler)" if profile.is_slowed else ""
    return f"busy {busy}{under}, {replay}"


def _row(kernel: Kernel) -> tuple[str, ...]:
    return (
        one_line(kernel.label),
        one_line(kernel.kind),
        one_line(kernel.library),
        text.plain(kernel.count),
        quantity(kernel.total_s, unit="s"),
        quantity(kernel.share, unit="share"),
        _scaled(kernel.bytes_per_s, scale=1e9),
        _scaled(kernel.flops_per_s, scale=1e12),
        _roofline(kernel.roofline),
        one_line(", ".join(kernel.operators)),
        one_line(kernel.shapes),
    )


def _counter(kernel: Kernel, name: str) -> str:
    """Return a counter in percent, `-` where the kernel has none of this name."""
    reading = counted(kernel).get(name)
    return "-" if reading is None else quantity(reading[0] / 100, unit="share")


def _scaled(number: float | None, *, scale: float) -> str:
    return quantity(None if number is None else number / scale, unit="1")


def _print_parts(profile: Profile, *, console: Console) -> None:
    """Print the components of an iteration, and the difference of their sum to the latency."""
    components = profile.components_without_profiler
    parts = sorted(components.items(), key=lambda part: part[1], reverse=True)
    whole_s = math.fsum(components.values())
    rows = [
        (one_line(name), quantity(part_s, unit="s"), _share(part_s, whole_s=whole_s))
        for name, part_s in parts
    ]
    rows += [(name, quantity(time_s, unit="s"), "") for name, time_s in profile.whole_times()]
    console.print()
    print_table(_PART_COLUMNS, rows=rows, console=console)


def _share(part_s: float, *, whole_s: float) -> str:
    return quantity(part_s / whole_s if whole_s else None, unit="share")


@click.command(
    "counters",
    cls=ExampleCommand,
    examples=("hud kernels counters latest bert ncu.csv",),
)
@click.argument("run_name", metavar="RUN")
@click.argument("case_name", metavar="CASE")
@click.argument(
    "files",
    nargs=-1,
    required=True,
    metavar="FILE...",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@json_option
@with_workspace
def counters_command(
    workspace: Workspace, *, run_name: str, case_name: str, files: tuple[Path, ...], as_json: bool
) -> None:
    """Store counters of nsys or ncu with the kernels of a case.

    Each FILE is a CSV file. RUN and CASE are those of `hud kernels show`; the run must be in the
    store.
    """
    store = workspace.store()
    if Path(run_name).is_file():
        raise click.UsageError(f"{run_name} is a file; counters go to a run in the store")
    _run, result = find_kernels(run_name, case_name, store=store)
    reports = import_counters(files, result=result, store=store)
    if as_json:
        print_json({"result_id": result.id, "files": [_report_json(report) for report in reports]})
        return
    for report in reports:
        print_report(report)


def _report_json(report: CounterReport) -> dict[str, object]:
    return {**asdict(report), "path": str(report.path)}


def _roofline(share: float | None) -> str:
    # Beyond the measured peak of the memory, the data came from a cache.
    return "in cache" if share is not None and share > 1 else quantity(share, unit="share")
