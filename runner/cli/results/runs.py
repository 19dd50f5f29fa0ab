"""hud runs: the runs in the store."""

from __future__ import annotations

import click

from compile_hud.db.queries.runs import load_runs
from compile_hud.db.records.results import Outcome
from compile_hud.db.records.summaries import RunSummary
from compile_hud.db.shared.model_code import revisions_text
from compile_hud.db.shared.text import short_revision
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.output import json_option, print_json, say_when_empty, with_workspace
from compile_hud.runner.cli.tables import Column, print_table
from compile_hud.runner.documents.run_lists import run_json
from compile_hud.runner.persistence.run_processes import mark_killed_runs_interrupted
from compile_hud.runner.workspace import Workspace


@click.command(
    cls=ExampleCommand,
    examples=(
        "hud runs",
        "hud runs --limit 5 --json",
    ),
)
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="Runs to list at most.",
)
@json_option
@with_workspace
def runs(workspace: Workspace, *, limit: int, as_json: bool) -> None:
    """List the runs in the store, the newest first."""
    store = workspace.store()
    mark_killed_runs_interrupted(store, workspace.spool().processes)
    summaries = load_runs(store, limit=limit)
    if not summaries:
        say_when_empty(store)
    if as_json:
        print_json([run_json(summary) for summary in summaries])
    if as_json or not summaries:
        return
    # The column is missing where all runs have models of the catalog only.
    has_own = any(revisions_text(summary.run) for summary in summaries)
    own = ("model code",) if has_own else ()
    names = ("run", "started (UTC)", "state", "suite", "toolchain", "revision", *own, "machine")
    counts = (Column(name="ok", is_number=True), Column(name="other outcomes"))
    columns = [*(Column(name=name) for name in names), *counts]
    print_table(columns, rows=[_cells(summary, has_own=has_own) for summary in summaries])


def _cells(summary: RunSummary, *, has_own: bool) -> tuple[str, ...]:
    run = summary.run
    return (
        run.id,
        f"{run.started_at:%Y-%m-%d %H:%M}",
        str(run.state),
        run.suite,
        run.toolchain,
        short_revision(run.revision),
        *((revisions_text(run) or "-",) if has_own else ()),
        run.machine,
        f"{summary.num_by_outcome.get(Outcome.OK, 0)}/{len(run.plan)}",
        _other_outcomes(summary),
    )


def _other_outcomes(summary: RunSummary) -> str:
    others = [
        f"{number} {str(outcome).replace('_', ' ')}"
        for outcome, number in summary.num_by_outcome.items()
        if outcome is not Outcome.OK
    ]
    return ", ".join(others) or "-"
