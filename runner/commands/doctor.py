"""hud doctor: check what a run needs and what makes numbers unsteady, and change it if told to."""

from __future__ import annotations

import sys

import click

from runner.check import Check, CheckState, Fix
from runner.checks import run_checks
from runner.commands.common import json_option, print_json, stdout, with_workplace
from runner.config import CURRENT_TOOLCHAIN
from runner.fixing import Fixes
from runner.machine_checks import machine_checks
from runner.wiring import Workplace

_STYLES = {CheckState.OK: "green", CheckState.WARN: "yellow", CheckState.FAIL: "red"}
# Below the text of a check, past its state and name.
_INDENT = " " * 5


@click.command()
@click.option("--fix", "is_fixed", is_flag=True, help="Change the machine, after asking.")
@click.option("--undo", "is_undone", is_flag=True, help="Take back what --fix has changed.")
@click.option("--yes", "is_sure", is_flag=True, help="Do not ask.")
@json_option
@with_workplace
def doctor(
    workplace: Workplace, *, is_fixed: bool, is_undone: bool, is_sure: bool, as_json: bool
) -> None:
    """Check what a run needs and what makes numbers unsteady; exit with 1 for what is missing."""
    if is_fixed and is_undone:
        raise click.UsageError("--fix and --undo are opposites")
    if as_json and (is_fixed or is_undone):
        raise click.UsageError("--json only looks; leave --fix and --undo out")
    fixes = Fixes(workplace.config.state_dir, machine=workplace.seams.machine)
    if is_undone:
        sys.exit(int(_undo(fixes, is_sure=is_sure)))
    checks = _check(workplace, is_shown=not as_json)
    if as_json:
        print_json([check.to_json() for check in checks])
    is_failed = any(check.state is CheckState.FAIL for check in checks)
    proposed = [check.fix for check in checks if check.fix is not None]
    if is_fixed:
        is_failed |= _fix(proposed, fixes=fixes, is_sure=is_sure)
    elif proposed and not as_json:
        click.echo("`hud doctor --fix` changes these, and `hud doctor --undo` takes it back")
    sys.exit(int(is_failed))


def _check(workplace: Workplace, *, is_shown: bool) -> list[Check]:
    config, seams = workplace.config, workplace.seams
    checks = []
    for check in (
        *run_checks(
            python=config.toolchains[CURRENT_TOOLCHAIN],
            store=workplace.store(),
            spool=workplace.spool(),
            state_dir=config.state_dir,
            receivers=config.receivers.keys(),
        ),
        *machine_checks(seams.machine, env=seams.env),
    ):
        checks.append(check)
        if is_shown:
            _print(check)
    return checks


def _fix(proposed: list[Fix], *, fixes: Fixes, is_sure: bool) -> bool:
    """Make the changes; return whether one of them failed."""
    if not proposed:
        click.echo("there is nothing to change")
        return False
    if not is_sure and not click.confirm("run these commands?"):
        click.echo("nothing is changed")
        return False
    problems = []
    for fix in proposed:
        problems.append(problem := fixes.make(fix))
        _say(fix.lines, problem=problem)
    if not all(problems):
        click.echo("`hud doctor --undo` takes this back")
    return any(problems)


def _undo(fixes: Fixes, *, is_sure: bool) -> bool:
    """Take every change back; return whether one of them failed."""
    made = fixes.made()
    if not made:
        click.echo("there is nothing to take back")
        return False
    for fix in reversed(made):
        for line in fix.undo_lines:
            click.echo(line)
    if not is_sure and not click.confirm("run these commands?"):
        click.echo("nothing is changed")
        return False
    done = fixes.take_back()
    for fix, problem in done:
        _say(fix.undo_lines, problem=problem)
    return any(problem for _, problem in done)


def _say(lines: tuple[str, ...], *, problem: str) -> None:
    for line in lines:
        if problem:
            click.echo(f"not done: {line}: {problem}; as root, type it yourself")
        else:
            click.echo(f"done: {line}")


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
    for line in check.fix.lines if check.fix else ():
        console.print(f"{_INDENT}{line}", markup=False, soft_wrap=True)
