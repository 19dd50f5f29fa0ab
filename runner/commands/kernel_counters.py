"""hud kernels counters: what NVIDIA's profilers measured, beside the kernels of a case."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from db.counters import keep_counters
from db.records import CaseResult
from db.text import printable
from runner.commands.common import json_option, print_json, with_workplace
from runner.commands.kernels import find_kernels, names_text
from runner.errors import ImportFailed
from runner.interop.nsight import Reading, match_names, read_counters
from runner.wiring import Workplace


@dataclass(frozen=True, slots=True, kw_only=True)
class CounterReport:
    """What became of a file: how many kernels got counters, and those of it that are not there."""

    path: Path
    num_counters: int
    num_kernels: int
    unknown: tuple[str, ...]


@click.command("counters")
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
@with_workplace
def counters_command(
    workplace: Workplace, *, run_name: str, case_name: str, files: tuple[Path, ...], as_json: bool
) -> None:
    """Keep what CSV FILEs of nsys or ncu say of each kernel beside the kernels of a case.

    RUN and CASE are those of `hud kernels show`; the run must be in the store.
    """
    store = workplace.store()
    if Path(run_name).is_file():
        raise click.UsageError(f"{run_name} is a file; counters go to a run in the store")
    _run, result = find_kernels(run_name, case_name, store=store)
    # All are read before the first is kept: a file that is wrong leaves nothing behind.
    found = [(path, read_counters(path)) for path in files]
    matches = [_matched(path, kernels, result=result) for path, kernels in found]
    reports = []
    for (path, kernels), names in zip(found, matches, strict=True):
        counters = {
            name: {counter: asdict(reading) for counter, reading in kernels[there].items()}
            for name, there in names.items()
        }
        reports.append(
            CounterReport(
                path=path,
                num_counters=len({name for some in counters.values() for name in some}),
                num_kernels=keep_counters(store, result.id, counters),
                unknown=tuple(sorted(set(kernels) - set(names.values()))),
            )
        )
    if as_json:
        print_json({"result_id": result.id, "files": [_json(report) for report in reports]})
        return
    for report in reports:
        _print_report(report, num_kernels=len(result.kernels))


def _matched(
    path: Path, kernels: Mapping[str, Mapping[str, Reading]], *, result: CaseResult
) -> dict[str, str]:
    """Return the kernels of `result` with their names in the file; raise ImportFailed for none."""
    known = [kernel.name for kernel in result.kernels]
    names = match_names(kernels, known=known)
    if not names:
        raise ImportFailed(
            f"{path}: none of its kernels ({names_text(list(kernels))}) is one of"
            f" {result.case.key} ({names_text(known)}). Give the file of this case"
        )
    return names


def _json(report: CounterReport) -> dict[str, object]:
    return {**asdict(report), "path": str(report.path)}


def _print_report(report: CounterReport, *, num_kernels: int) -> None:
    click.echo(
        f"{printable(str(report.path))}: {report.num_counters} counters for {report.num_kernels} of"
        f" {num_kernels} kernels"
    )
    if report.unknown:
        click.echo(f"  no such kernel in this case: {names_text(report.unknown)}", err=True)
