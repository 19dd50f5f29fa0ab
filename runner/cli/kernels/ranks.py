"""hud kernels ranks: the traces of all ranks of a distributed run, side by side."""

from __future__ import annotations

from pathlib import Path

import click

from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.output import json_option, print_json, with_workspace
from compile_hud.runner.cli.tables import Column, print_table
from compile_hud.runner.format import quantity
from compile_hud.runner.traces.ranks import RankReport, RankRow, read_ranks
from compile_hud.runner.workspace import Workspace

_COLUMNS = (
    Column(name="rank", is_number=True),
    *(
        Column(name=name, is_number=True)
        for name in (
            "iteration", "busy", "compute", "copy", "communication", "hidden", "not hidden", "idle",
            "waits", "delays others", "last to",
        )
    ),
    Column(name="note", is_prose=True),
)  # fmt: skip
_SPARE = ("copy", "busy", "hidden", "last to", "communication")


@click.command(
    "ranks",
    cls=ExampleCommand,
    examples=("hud kernels ranks rank0.json.gz rank1.json.gz",),
)
@click.argument(
    "traces", metavar="TRACE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@json_option
@with_workspace
def ranks_command(_workspace: Workspace, *, traces: tuple[Path, ...], as_json: bool) -> None:
    """Show the time of each rank, and the rank that delays others.

    Each TRACE is the torch.profiler trace of one rank, recorded on a GPU.
    """
    report = read_ranks(traces)
    if as_json:
        print_json(report.to_json())
        return
    print_table(_COLUMNS, rows=[_cells(row) for row in report.rows], spare=_SPARE)
    echo(_summary(report))


def _cells(row: RankRow) -> list[str]:
    return [
        str(row.rank),
        quantity(row.iteration_s, unit="s"),
        quantity(row.busy, unit="share"),
        quantity(row.compute_s, unit="s"),
        quantity(row.copy_s, unit="s"),
        quantity(row.communication_s, unit="s"),
        quantity(row.overlap, unit="share"),
        quantity(row.exposed_s, unit="s"),
        quantity(row.idle_s, unit="s"),
        quantity(row.waited_s, unit="s"),
        quantity(row.delay_s, unit="s"),
        str(row.num_last),
        "straggler" if row.is_straggler else "",
    ]


def _summary(report: RankReport) -> str:
    shown = f"{len(report.rows)} of {report.world_size} ranks; "
    compared = f"{report.num_collectives} collectives compared"
    unmatched = f", {report.num_unmatched} not: ranks have different numbers of them"
    return shown + compared + (unmatched if report.num_unmatched else "")
