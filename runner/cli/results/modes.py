"""hud modes: which mode to ship, for each phase and shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import click

from compile_hud.db.queries.alerts import load_alerts
from compile_hud.db.queries.latest import load_latest
from compile_hud.db.records.metrics import CACHES, COLD, MAX_EXPECTED_CALLS
from compile_hud.db.records.results import Phase
from compile_hud.db.records.summaries import LatestCell
from compile_hud.db.records.triage import ONGOING
from compile_hud.db.shared.text import quoted
from compile_hud.db.store import Store
from compile_hud.runner.analysis.modes.answers import (
    answer_for,
    calls_text,
    ratio_text,
    summary_of,
    time_text,
)
from compile_hud.runner.analysis.modes.comparison import compare_modes
from compile_hud.runner.analysis.modes.records import (
    MODES_METRICS,
    ModeGroup,
)
from compile_hud.runner.cli.completion.names import MODEL, SHAPE, TOOLCHAIN
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.option_types import NearestChoice
from compile_hud.runner.cli.output import (
    gather_options,
    json_option,
    print_json,
    with_workspace,
)
from compile_hud.runner.cli.results.mode_documents import comparison_json
from compile_hud.runner.cli.results.scope import selected_scope, suggestion
from compile_hud.runner.cli.tables import Column, print_table, stdout
from compile_hud.runner.errors import NoSuchResult
from compile_hud.runner.workspace import Workspace


@dataclass(frozen=True, slots=True, kw_only=True)
class ModesOptions:
    """The filters of the results and the price of compiling; None for those that were left out."""

    machine: str | None
    toolchain: str | None
    model: str | None
    phase: str | None
    shape: str | None
    cache: str
    calls: int | None


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
@gather_options(ModesOptions, name="options", options=_OPTIONS)
@json_option
@with_workspace
def modes(workspace: Workspace, *, options: ModesOptions, as_json: bool) -> None:
    """Recommend a mode for each phase and shape.

    The newest results decide. The answer is that of the page Modes. Compile time is recovered after
    the calls of the column break-even.
    """
    store = workspace.store()
    machine, toolchain = selected_scope(store, machine=options.machine, toolchain=options.toolchain)
    cells = _cells(store, options, machine=machine, toolchain=toolchain)
    alerts = [
        alert
        for alert in load_alerts(store, states=ONGOING)
        if (alert.machine, alert.toolchain) == (machine, toolchain)
    ]
    groups = compare_modes(cells, alerts=alerts, cache=options.cache, calls=options.calls)
    if not groups:
        raise NoSuchResult(
            "none of these results is of a mode of torch.compile; only eager was measured",
            machine=machine,
            toolchain=toolchain,
        )
    if as_json:
        runs = {cell.summary.case.key: cell.run_id for cell in cells}
        document = comparison_json(groups, runs=runs)
        print_json({"machine": machine, "toolchain": toolchain, **document})
        return
    _print_groups(groups)


def _cells(
    store: Store, options: ModesOptions, *, machine: str, toolchain: str
) -> tuple[LatestCell, ...]:
    latest = load_latest(store, machine=machine, toolchain=toolchain, metrics=MODES_METRICS)
    cells = [cell for cell in latest if not cell.summary.case.is_reference]
    filters = {name: getattr(options, name) for name in ("model", "phase", "shape")}
    patterns = {name: pattern for name, pattern in filters.items() if pattern is not None}
    fitting = tuple(
        cell
        for cell in cells
        if all(
            fnmatchcase(str(getattr(cell.summary.case, name)), pattern)
            for name, pattern in patterns.items()
        )
    )
    if not fitting:
        shown = ", ".join(f"{name} {quoted(pattern)}" for name, pattern in patterns.items())
        has = "; ".join(_values_text(name, cells) for name in patterns)
        hint = suggestion(patterns, cases=[cell.summary.case for cell in cells])
        raise NoSuchResult(
            f"none of the {len(cells)} results of {machine} (toolchain {toolchain}) fits {shown};"
            f" they have {has}{hint}",
            machine=machine,
            toolchain=toolchain,
            **patterns,
        )
    return fitting


def _values_text(name: str, cells: Sequence[LatestCell]) -> str:
    values = sorted({str(getattr(cell.summary.case, name)) for cell in cells})
    return f"{name} {', '.join(values)}"


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
