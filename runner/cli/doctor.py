"""hud doctor: check a run's requirements and the machine's sources of noise, with remedies."""

from __future__ import annotations

import sys

import click

from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.output import json_option, print_json, with_workspace
from compile_hud.runner.cli.tables import stdout
from compile_hud.runner.config.load import CURRENT_TOOLCHAIN
from compile_hud.runner.doctor.check import Check, CheckState
from compile_hud.runner.doctor.machine import machine_checks
from compile_hud.runner.doctor.requirements import run_checks
from compile_hud.runner.workspace import Workspace

_STYLES = {CheckState.OK: "green", CheckState.WARN: "yellow", CheckState.FAIL: "red"}
# Below the text of a check, past its state and name.
_INDENT = " " * 5


@click.command(
    cls=ExampleCommand,
    exit_codes={
        1: "A requirement is missing.",
    },
    examples=(
        "hud doctor",
        "hud doctor --json",
    ),
)
@json_option
@with_workspace
def doctor(workspace: Workspace, *, as_json: bool) -> None:
    """Check the requirements of a run and the sources of noise."""
    checks = _check(workspace, is_shown=not as_json)
    if as_json:
        print_json([check.to_json() for check in checks])
    sys.exit(int(any(check.state is CheckState.FAIL for check in checks)))


def _check(workspace: Workspace, *, is_shown: bool) -> list[Check]:
    config, dependencies = workspace.config, workspace.dependencies
    checks = []
    for check in (
        *run_checks(
            python=config.toolchains[CURRENT_TOOLCHAIN],
            store=workspace.store(),
            spool=workspace.spool(),
            state_dir=config.state_dir,
            receivers=config.receivers.keys(),
        ),
        *machine_checks(dependencies.machine, env=dependencies.env),
    ):
        checks.append(check)
        if is_shown:
            _print(check)
    return checks


def _print(check: Check) -> None:
    console = stdout()
    style = _STYLES[check.state]
    console.print(f"[{style}]{check.state:4}[/] {check.name:13}", end=" ")
    hint = f"; {check.hint}" if check.hint else ""
    console.print(f"{check.text}{hint}", markup=False, soft_wrap=True)
    if check.state is CheckState.OK:
        return
    if check.cost:
        console.print(f"{_INDENT}costs: {check.cost}", markup=False, soft_wrap=True)
    for command in check.commands:
        console.print(f"{_INDENT}{command}", markup=False, soft_wrap=True)
