"""hud modes: which mode to ship, for each phase and shape."""

from __future__ import annotations

from collections.abc import Sequence

import click

from compile_hud.db.records.metrics import CACHES, COLD, MAX_EXPECTED_CALLS
from compile_hud.db.records.results import Phase
from compile_hud.runner.analysis.modes.answers import (
    answer_for,
    calls_text,
    ratio_text,
    summary_of,
    time_text,
)
from compile_hud.runner.analysis.modes.records import ModeGroup
from compile_hud.runner.cli.completion.names import MODEL, SHAPE, TOOLCHAIN
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.option_types import NearestChoice
from compile_hud.runner.cli.output import (
    gather_options,
    json_option,
    print_json,
    with_workspace,
)
from compile_hud.runner.cli.tables import Column, print_table, stdout
from compile_hud.runner.documents.filtered.modes import ModeFilters, load_modes
from compile_hud.runner.workspace import Workspace

_OPTIONS = (
    click.option("--machine", metavar="M", help="Default: that of the newest run."),
    click.option(
        "--toolchain",
        type=TOOLCHAIN,
        metavar="T",
        help="Default: that of the newest result on the machine.",
    ),
    click.option("--model", type=MODEL, metavar="GLOB", help="Models, as a glob."),
    click.option("--phase", type=NearestChoice([str(phase) for phase in Phase])),
    click.option("--shape", type=SHAPE, metavar="GLOB", help="Shapes, as a glob."),
    click.option(
        "--cache",
        type=NearestChoice(CACHES),
        default=COLD,
        show_default=True,
        help="The compile cache that a process begins with: empty or filled.",
    ),
    click.option(
        "--calls",
        metavar="N",
        type=click.IntRange(min=1, max=MAX_EXPECTED_CALLS),
        help="The expected calls per process: the mode with the least total time. Default: many.",
    ),
)


@click.command(
    cls=ExampleCommand,
    examples=(
        "hud modes",
        "hud modes --model bert --calls 10000 --cache warm",
    ),
)
@gather_options(ModeFilters, name="filters", options=_OPTIONS)
@json_option
@with_workspace
def modes(workspace: Workspace, *, filters: ModeFilters, as_json: bool) -> None:
    """Recommend a mode for each phase and shape.

    The newest results decide. The answer is that of the page Modes. Compile time is recovered after
    the calls of the column break-even.
    """
    shown = load_modes(workspace.store(), filters)
    if as_json:
        print_json(shown.to_json())
    else:
        _print_groups(shown.groups)


def _print_groups(groups: Sequence[ModeGroup]) -> None:
    console = stdout()
    if len(groups) > 1:
        console.print(summary_of(groups), markup=False, soft_wrap=True)
        console.print()
    for index, group in enumerate(groups):
        if index:
            console.print()
        answer = answer_for(group)
        title = f"{group.label}: {answer.title}" if group.label else answer.title
        console.print(title, markup=False, soft_wrap=True, style="bold")
        for sentence in answer.sentences:
            console.print(sentence, markup=False, soft_wrap=True)
        if group.choice.modes:
            console.print()
            _print_modes(group)


def _print_modes(group: ModeGroup) -> None:
    rows = [
        (
            mode.variant,
            ratio_text(mode.speedup),
            time_text(mode.compile_s.value),
            "-" if mode.memory is None else f"{mode.memory.value:.2f}x",
            "-" if mode.break_even is None else calls_text(mode.break_even),
            f"{group.num_ok(mode.variant)} of {len(group.models)}",
        )
        for mode in group.choice.modes
    ]
    names = (
        group.speedup,
        f"{group.cache} compile",
        "peak memory",
        "break-even calls",
        "ok models",
    )
    columns = [Column(name="mode"), *(Column(name=name, is_number=True) for name in names)]
    print_table(columns, rows=rows, spare=("ok models", "peak memory"))
