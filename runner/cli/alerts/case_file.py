"""hud alerts export and verify: one archive about an alert, and its verdict computed again."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from compile_hud.db.shared.text import counted
from compile_hud.runner.alerting.case_file import read_case_file, write_case_file
from compile_hud.runner.alerting.verification import as_json as number_json
from compile_hud.runner.alerting.verification import recompute
from compile_hud.runner.cli.alerts.selection import find_alert
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.output import json_option, print_json, with_workspace
from compile_hud.runner.release.scripts import script_of_alert
from compile_hud.runner.workspace import Workspace


@click.command(
    "export",
    cls=ExampleCommand,
    examples=("hud alerts export 3f2a --output slow-gemm.zip --script",),
)
@click.argument("alert_id", metavar="ID")
@click.option(
    "--output",
    "-o",
    "path",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The archive. Default: alert-ID.zip.",
)
@click.option(
    "--script",
    "has_script",
    is_flag=True,
    help="With a script of both runs that needs torch alone; the model is built for it.",
)
@with_workspace
def export_alert(
    workspace: Workspace, *, alert_id: str, path: Path | None, has_script: bool
) -> None:
    """Write all that is known about an alert into one archive.

    It has the samples, the numbers of the verdict, both environments, the kernels with their code,
    and findings. A prefix of the id is enough.
    """
    alert = find_alert(workspace.store(), alert_id)
    target = path or Path(f"alert-{alert.id[:12]}.zip")
    script = script_of_alert(alert, workspace=workspace) if has_script else None
    write_case_file(alert, path=target, workspace=workspace, script=script)
    echo(f"wrote {target}; `hud alerts verify {target}` computes the verdict again", err=True)
    for note in () if script is None else script.notes:
        echo(f"script.py: {note}", err=True)


@click.command(
    "verify",
    cls=ExampleCommand,
    exit_codes={
        1: "A number differs.",
    },
    examples=("hud alerts verify slow-gemm.zip",),
)
@click.argument("path", metavar="FILE", type=click.Path(exists=True, path_type=Path))
@json_option
@with_workspace
def verify_alert(_workspace: Workspace, *, path: Path, as_json: bool) -> None:
    """Compute the verdict of an exported alert from its samples.

    FILE is of `hud alerts export`. The rate of false discoveries over all series of a run needs
    the other series, so it is not computed again.
    """
    numbers = recompute(read_case_file(path))
    others = [number for number in numbers if not number.is_same]
    if as_json:
        print_json({"numbers": [number_json(number) for number in numbers]})
    elif not numbers:
        echo("this alert has no number that follows from samples")
    elif others:
        echo(f"{len(others)} of {counted(len(numbers), 'value')} differ:")
        for number in others:
            echo(f"  {number.name}: stored {number.stored}, computed {number.computed}")
    else:
        echo(f"all {counted(len(numbers), 'value')} follow from the samples, to the digit")
    sys.exit(int(bool(others)))
