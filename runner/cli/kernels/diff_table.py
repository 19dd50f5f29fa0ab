"""The kernels of two sides as a table: a line for each change."""

from __future__ import annotations

import math
from collections.abc import Sequence

from compile_hud.db.shared.text import counted, one_line, printable, shortened, signed_us
from compile_hud.runner.analysis.kernels.change_classes import ChangeKind, KernelChange
from compile_hud.runner.analysis.kernels.diff import KernelDiff
from compile_hud.runner.analysis.kernels.rollup import PartChange
from compile_hud.runner.cli.compare.memory import print_memory_diff
from compile_hud.runner.cli.echo import echo
from compile_hud.runner.cli.tables import Column, print_table

_COLUMNS = (
    Column(name="us", is_number=True),
    Column(name="class", is_whole=True),
    Column(name="kernel"),
    Column(name="why", is_prose=True),
)
_SPARE = ("class",)
# Longer tables are not read to the end; --all and --json have every row, and --json whole names.
_NUM_SHOWN = 100
_MAX_LABEL, _MAX_TEXT = 160, 400
# A line of sums has the largest changes; --json has all of them.
_NUM_SUMS = 4


def print_diff(
    diff: KernelDiff, *, titles: tuple[str, str], show_all: bool, devices: str = ""
) -> None:
    """Print a line for each change, and how they add up to the difference.

    `devices` is the sentence about two different devices, empty without.
    """
    for name, title in zip(("baseline ", "candidate"), titles, strict=True):
        echo(f"{name} {printable(title, allowed='')}")
    if devices:
        echo(one_line(devices))
    if diff.noise_text:
        echo(one_line(diff.noise_text))
    echo()
    if lines := _rollup_lines(diff):
        echo("\n".join([*lines, ""]))
    changed = [row for row in diff.rows if row.kind is not ChangeKind.UNCHANGED]
    same = [row for row in diff.rows if row.kind is ChangeKind.UNCHANGED]
    rows = [_row(row) for row in (diff.rows if show_all else changed[:_NUM_SHOWN])]
    if not show_all:
        rows += _folded(changed[_NUM_SHOWN:], name="less each")
        rows += _folded(same, name=str(ChangeKind.UNCHANGED))
    times = f"{1e6 * diff.baseline_s:,.1f} -> {1e6 * diff.candidate_s:,.1f} us"
    if diff.has_unexplained:
        rows.append((signed_us(diff.unexplained_s), "", "unexplained", diff.unexplained_text))
    rows.append((signed_us(diff.change_s), "", diff.basis, times))
    print_table(_COLUMNS, rows=rows, spare=_SPARE)
    if diff.memory is not None:
        print_memory_diff(diff.memory)


def _rollup_lines(diff: KernelDiff) -> list[str]:
    """Return a line for the changed sums of each property, the largest change first."""
    rollup = diff.rollup
    properties = (
        ("kinds", rollup.kinds),
        ("operators", rollup.operators),
        ("modules", rollup.modules),
    )
    changed = ((name, [part for part in parts if part.is_changed]) for name, parts in properties)
    return [f"{name:9} {_sums_text(parts)}" for name, parts in changed if parts]


def _sums_text(parts: Sequence[PartChange]) -> str:
    shown = "; ".join(part.text for part in parts[:_NUM_SUMS])
    return f"{shown}; and {len(parts) - _NUM_SUMS} more" if len(parts) > _NUM_SUMS else shown


def _row(row: KernelChange) -> tuple[str, ...]:
    label, text = (
        shortened(one_line(text), limit=limit)
        for text, limit in ((row.label, _MAX_LABEL), (row.text, _MAX_TEXT))
    )
    return signed_us(row.contribution_s), str(row.kind), label, text


def _folded(rows: Sequence[KernelChange], *, name: str) -> list[tuple[str, ...]]:
    if not rows:
        return []
    total_s = math.fsum(row.contribution_s for row in rows)
    count = counted(len(rows), "kernel")
    return [(signed_us(total_s), name, count, "--all shows them")]
