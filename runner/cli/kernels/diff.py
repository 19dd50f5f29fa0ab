"""hud kernels diff: the changed kernels of two results, with reasons and contributions."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import click

from compile_hud.db.errors import NotFoundError
from compile_hud.db.records.kernels import Kernel
from compile_hud.db.shared.text import one_line, printable, shortened
from compile_hud.runner.analysis.kernels.change_classes import KernelChange
from compile_hud.runner.analysis.kernels.diff import KernelDiff, devices_text, diff_kernels
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.help.examples import ExampleCommand
from compile_hud.runner.cli.kernels.diff_sides import find_sides
from compile_hud.runner.cli.kernels.diff_table import print_diff
from compile_hud.runner.cli.output import gather_options, json_option, print_json, with_workspace
from compile_hud.runner.documents.cases import case_glob
from compile_hud.runner.documents.pairs.kernels import kernel_diff_json
from compile_hud.runner.workspace import Workspace

# Of all labels, in the message about a kernel that is on neither side.
_MAX_LABELS = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    """The options of the diff."""

    case_name: str | None
    show_all: bool
    kernel_name: str | None
    as_json: bool


@click.command(
    "diff",
    cls=ExampleCommand,
    examples=(
        "hud kernels diff previous:bert latest:bert",
        "hud kernels diff before.json after.json --case bert/inference",
    ),
)
@click.argument("baseline", metavar="A")
@click.argument("candidate", metavar="B")
@gather_options(
    _Options,
    name="options",
    options=(
        click.option("--case", "case_name", metavar="CASE", help="The case of both runs."),
        click.option("--all", "show_all", is_flag=True, help="Show unchanged kernels as well."),
        click.option(
            "--source",
            "kernel_name",
            metavar="KERNEL",
            help="Print the code diff of KERNEL instead.",
        ),
        json_option,
    ),
)
@with_workspace
def diff_command(workspace: Workspace, *, baseline: str, candidate: str, options: _Options) -> None:
    """Show the kernels that changed from A to B, and why.

    A and B are trace files of torch.profiler, FILE:CASE of a result file of `hud run --json`, or
    RUN:CASE of the store. RUN and CASE are as `hud kernels show` takes them. FILE or RUN alone
    takes the case of the other side.
    """
    before, after = find_sides(
        [baseline, candidate], case=options.case_name, store=workspace.store()
    )
    diff = diff_kernels(before.side, after.side)
    if options.kernel_name is not None:
        row = find_row(diff, options.kernel_name)
        lines = source_diff(row, before.side.sources, after.side.sources)
        if options.as_json:
            print_json({"label": row.label, "text": row.text, "lines": lines})
        else:
            echo("\n".join(printable(line, allowed="\t") for line in [row.text, *lines]))
    elif options.as_json:
        print_json(kernel_diff_json(diff, baseline=before, candidate=after))
    else:
        devices = devices_text(before.device, candidate=after.device)
        titles = (before.title, after.title)
        print_diff(diff, titles=titles, show_all=options.show_all, devices=devices)


def find_row(diff: KernelDiff, name: str) -> KernelChange:
    """Return the largest row with a kernel that `name` stands for; raise NotFoundError."""
    pattern = case_glob(name)
    for exact in (True, False):
        for row in diff.rows:
            names = [
                text
                for kernel in (*row.baseline, *row.candidate)
                for text in (kernel.name, kernel.label)
            ]
            if name in names if exact else any(fnmatchcase(text, pattern) for text in names):
                return row
    labels = ", ".join(dict.fromkeys(row.label for row in diff.rows if not row.part))
    known = shortened(one_line(labels), limit=_MAX_LABELS)
    raise NotFoundError(f"no kernel {name!r} on either side. There are {known}", name=name)


def source_diff(
    row: KernelChange, baseline: Mapping[str, str], candidate: Mapping[str, str]
) -> list[str]:
    """Return the code of both sides of `row` as a unified diff, no line where it is the same.

    `baseline` and `candidate` are the code by hash. Raises NotFoundError where there is none.
    """
    before = _code(row.baseline, sources=baseline)
    after = _code(row.candidate, sources=candidate)
    if not before and not after:
        raise NotFoundError(
            f"no code of {one_line(row.label)} came with either side: only what torch.compile"
            " generated has one here, and a trace of others brings none"
        )
    return list(difflib.unified_diff(before, after, "baseline", "candidate", lineterm=""))


def _code(kernels: Sequence[Kernel], *, sources: Mapping[str, str]) -> list[str]:
    hashes = dict.fromkeys(kernel.source_hash for kernel in kernels)
    return [line for name in hashes for line in sources.get(name, "").splitlines()]
