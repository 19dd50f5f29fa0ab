"""hud kernels counters: what NVIDIA's profilers measured, beside the kernels of a case."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from compile_hud.runner.cli.kernels.commands import find_kernels
from compile_hud.runner.cli.kernels.counter_files import (
    CounterReport,
    import_counters,
    print_report,
)
from compile_hud.runner.cli.output import json_option, print_json, with_workplace
from compile_hud.runner.workspace import Workplace


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
    reports = import_counters(files, result=result, store=store)
    if as_json:
        print_json({"result_id": result.id, "files": [_json(report) for report in reports]})
        return
    for report in reports:
        print_report(report)


def _json(report: CounterReport) -> dict[str, object]:
    return {**asdict(report), "path": str(report.path)}
